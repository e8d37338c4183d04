//! Retransmissions that are lost, by the order of packets.
//!
//! A peer sends retransmissions before new packets. If the network keeps their order, a packet that
//! left after a retransmission arrives after it. Timestamps say when packets left. A request is
//! answered at once, as an acknowledgement is, whose answer has a timestamp: the *reaction* is the
//! time from an acknowledgement to the origin of its answer. A later origin than a request's time
//! and the reaction proves that the retransmission is lost, or the request.
//!
//! Times are those of [`PeerClock::origin`](crate::tsbpd::PeerClock::origin): a queue that holds
//! up all packets changes nothing, while it makes the round trip long and its variation large.

use anabranch_units::{Duration, Instant};

use crate::rtt::Rtt;

/// Time that the peer may take longer for a retransmission than for an answer: chosen, as its
/// threads take turns.
const MARGIN: Duration = Duration::from_millis(10);
/// Packets in which the memory of reordering fades to a third.
const MEMORY_PACKETS: u64 = 1_024;

/// Order of the peer's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overtaking {
    /// Time between a control packet and the origin of its answer.
    reaction: Rtt,
    /// Latest origins of data packets and of answers that have arrived.
    latest_data: Option<Instant>,
    latest_answer: Option<Instant>,
    /// Largest time by which a packet has recently overtaken an earlier one.
    reordering: Duration,
}

impl Overtaking {
    /// Takes the answer to a control packet.
    pub(crate) fn on_answer(&mut self, asked_at: Instant, origin: Instant) {
        self.reaction.on_sample(origin.saturating_since(asked_at));
        self.latest_answer = self.latest_answer.max(Some(origin));
    }

    /// Takes a data packet.
    pub(crate) fn on_data(&mut self, origin: Instant, is_retransmission: bool) {
        let latest = self.latest_data.map_or(origin, |latest| latest.max(origin));
        self.latest_data = Some(latest);
        self.reordering = self.reordering - self.reordering / MEMORY_PACKETS;
        if !is_retransmission {
            let overtaken_by = latest.saturating_since(origin);
            self.reordering = self.reordering.max(overtaken_by);
        }
    }

    /// Returns the time up to which requests have no effect any more: their retransmissions have
    /// arrived or are lost. `None` before the first answer.
    pub(crate) fn outdated(&self) -> Option<Instant> {
        let latest = self.latest_answer?.max(self.latest_data?);
        Some(latest.saturating_sub(self.reaction.longest() + MARGIN + self.reordering))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Answers in 40 ms, always.
    fn steady() -> Overtaking {
        let mut overtaking = Overtaking::default();
        for millis in 0..100 {
            overtaking.on_answer(at(millis), at(millis + 40));
        }
        overtaking
    }

    #[test]
    fn requests_are_outdated_by_packets_that_left_after_the_reaction() {
        assert_eq!(Overtaking::default().outdated(), None);
        let mut overtaking = steady();
        assert_eq!(overtaking.outdated(), None);
        overtaking.on_data(at(1_000), false);
        assert_eq!(overtaking.outdated(), Some(at(950)));
        overtaking.on_answer(at(980), at(1_020));
        assert_eq!(overtaking.outdated(), Some(at(970)));
        // A retransmission of an old packet says nothing.
        overtaking.on_data(at(500), true);
        assert_eq!(overtaking.outdated(), Some(at(970)));
    }

    #[test]
    fn reordering_defers_the_verdict_and_is_forgotten() {
        let mut overtaking = steady();
        overtaking.on_data(at(1_000), false);
        overtaking.on_data(at(970), false);
        assert_eq!(overtaking.outdated(), Some(at(920)));
        for _ in 0..10 * MEMORY_PACKETS {
            overtaking.on_data(at(1_000), false);
        }
        let outdated = overtaking.outdated().unwrap();
        assert!(outdated > at(949), "{outdated}");
    }
}
