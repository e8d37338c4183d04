//! R. Matsufuji et al., "Multipath TCP Packet Scheduling for Streaming Video".
//!
//! The paper prints no numbers but the ends of its figures' axes, and sentences about its bars. It
//! prints neither losses and queues of its Wi-Fi networks, nor CCP's gain. Each sentence is judged
//! at the points of a space of these ([`space`]), by the means of five trials of the whole film.
//! The scenarios without changes are shown beside them.

mod bench;
mod conclusions;
mod figures;
mod losses;
mod setup;
mod space;
#[cfg(test)]
mod tests;
mod together;
mod variants;

use super::case::Algorithms;
use super::claim::{Claim, Paper};

const PAPER: Paper = Paper {
    key: "matsufuji",
    citation: "R. Matsufuji, D. Cavendish, K. Kumazoe, D. Nobayashi, T. Ikenaga: Multipath TCP \
               Packet Scheduling for Streaming Video (INTERNET 2017)",
    algorithms: Algorithms::Published,
};

/// Claims in the paper's order.
pub(super) const CLAIMS: &[&Claim] = &[
    &setup::TABLE_1,
    &figures::figure::<0>(),
    &figures::figure::<1>(),
    &figures::figure::<2>(),
    &figures::figure::<3>(),
    &figures::figure::<4>(),
    &figures::figure::<5>(),
    &figures::figure::<6>(),
    &figures::figure::<7>(),
    &figures::figure::<8>(),
    &conclusions::LPC_FOR_CCP,
    &conclusions::OLIA_BETTER,
    &conclusions::SPD_AND_THE_LONG_PATH,
    &conclusions::ALIKE,
    &conclusions::FLOW_2,
    &conclusions::ADVICE,
    &conclusions::CCP_RESENDS,
    &variants::COMPOUND,
    &variants::COUPLED,
    &losses::BY_FLOW,
    &losses::UNDERFLOWS,
    &conclusions::LATENCY,
    &together::TOGETHER,
];
