//! Forward error correction: the code, its decoder, the amount of repair, and the model of losses.
//!
//! Every fragment of a session that uses FEC has a *symbol number*, consecutive in the order of
//! first sending. A *symbol* is a string of bytes; symbols that are combined count as padded with
//! zeros to the longest of them. A *repair symbol* is a linear combination over GF(2^8) of a
//! *window* of at most [`MAX_WINDOW`] consecutive symbols. The coefficients are a Cauchy matrix
//! (Bloemer et al., "An XOR-Based Erasure-Resilient Coding Scheme", ICSI TR-95-048, section 4): row
//! `r` takes symbol `s` times `1 / (x_r + y_s)`, with `x_r = 128 + r` and `y_s = s mod 128`.
//!
//! Any 128 consecutive symbols have distinct `y`, and every square part of a Cauchy matrix is
//! regular. So the repairs of one window, with rows of their own, are a systematic Reed-Solomon
//! code: any `m` of them recover any `m` lost symbols of the window. One code serves blocks (the
//! window is a frame) and sliding windows (the window is the last `w` symbols), which the receiver
//! need not distinguish.
//!
//! The guarantee holds for any repair symbols that cover the same lost symbols, whatever their
//! windows. It ends where they cover different ones: a coefficient outside of a window is zero, and
//! a matrix with zeros can be singular although each lost symbol has a repair symbol of its own.
//! This happens by chance about once in 400 (six losses, windows of 20).

mod budget;
mod decoder;
mod elimination;
mod gf256;
mod loss_process;
mod media_shares;
mod policies;
mod policy;
mod rate;
mod registry;
mod repair_placement;

pub(crate) use budget::Budget;
pub use decoder::Decoder;
pub use loss_process::LossProcess;
pub(crate) use media_shares::MediaShares;
pub use policy::{FecPolicy, FrameToProtect, Protection, SlidingWindow};
pub use rate::{
    KEY_FRAME_RESIDUAL, LossModel, OTHER_FRAME_RESIDUAL, is_retransmission_enough,
    proportional_repair_count, repair_count, repair_weight,
};
pub(crate) use registry::build;
pub use registry::{FEC_POLICIES, FecPolicyEntry, UnknownFecPolicy, check};
pub(crate) use repair_placement::RepairPlacement;

pub use crate::wire::{MAX_ROWS, MAX_WINDOW, RepairHeader};

impl RepairHeader {
    /// Returns the number after the last of its window; `None` for a header that no sender writes.
    fn end(self) -> Option<u64> {
        let is_meant = (1..=MAX_WINDOW).contains(&self.count) && self.row < MAX_ROWS;
        is_meant.then(|| self.first.checked_add(u64::from(self.count)))?
    }

    fn covers(self, number: u64) -> bool {
        number
            .checked_sub(self.first)
            .is_some_and(|offset| offset < u64::from(self.count))
    }

    /// Returns the factor of symbol `number`, which must be in the window.
    fn coefficient(self, number: u64) -> u8 {
        gf256::inverse((MAX_ROWS + self.row) ^ (number % u64::from(MAX_WINDOW)) as u8)
    }
}

/// Appends the repair symbol of `symbols`, the window's in order, to `out`: as many bytes as the
/// longest of them has. Each comes in two parts, to be read one after the other.
pub fn encode<'a>(
    repair: RepairHeader,
    symbols: impl Iterator<Item = [&'a [u8]; 2]>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    for (number, [head, tail]) in (repair.first..)
        .zip(symbols)
        .take(usize::from(repair.count))
    {
        let middle = start + head.len();
        let end = middle + tail.len();
        if out.len() < end {
            out.resize(end, 0);
        }
        let factor = repair.coefficient(number);
        gf256::multiply_add(&mut out[start..middle], head, factor);
        gf256::multiply_add(&mut out[middle..end], tail, factor);
    }
}
