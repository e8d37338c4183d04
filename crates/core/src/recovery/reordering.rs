//! Lateness of packets: those that others have overtaken, and those that come next.
//!
//! RFC 9002's thresholds presume that few packets are reordered. RACK (RFC 8985 §6.2) waits longer
//! once a path reorders, and learns from DSACK that it has to wait longer still. Here the receiver
//! reports each packet's arrival, so that the sender measures its lateness.
//!
//! Deviations from RFC 8985 §6.2 step 4:
//!
//! 1. The window follows the measured lateness instead of growing by a quarter of the least
//!    round-trip time for each round with a needless retransmission.
//! 2. The window excludes few enough packets that needless copies stay below one in `BLOCK_PACKETS
//!    / TOLERATED`. A path that reorders less than that does not have to wait for its losses.
//! 3. It is forgotten after two blocks of packets instead of 16 recoveries.
//! 4. Its bound is the probe timeout instead of SRTT: on a short path packets may be late by more
//!    than a round trip, and the probe timeout rises with them.
//! 5. Time is the receiver's, if reports state it. A hole is lost when a report says that it was
//!    still open at the window's end, and by the sender's clock only if none comes.
//! 6. A report is evidence by its time of creation too, not only by its acknowledgements. A packet
//!    that should have followed the newest one by then is lost, though no later one has arrived:
//!    nothing follows the last packets of a frame until the next frame. The window for these is
//!    measured in the same way, from packets that arrive in order.

use anabranch_units::{Duration, Instant};

use super::packet::{AckedPacket, SentPacket};
use super::rtt::RttEstimator;

/// Packets in a block; the window comes from the last one to two of them. At 4 Mbit/s, two to four
/// seconds.
const BLOCK_PACKETS: usize = 1_024;
/// Packets in a block that may come later than the window. It makes needless copies of less than
/// one in 250 packets, and no single straggler delays the repair of losses.
const TOLERATED: usize = 3;
/// Inverse of the part by which the window exceeds the measurement, since the samples are few.
const MARGIN: u64 = 4;
/// Number of packets after which the usual lateness of following ones is known. Before, no packet
/// is missing by time alone.
const MIN_FOLLOWING: usize = 64;

/// The latenesses of packets that arrived on one path, and the time to wait that follows.
#[derive(Debug, Default)]
pub(super) struct Reordering {
    window: Duration,
    /// Latenesses of packets that others have overtaken.
    overtaken: Latenesses,
    /// Latenesses of packets that have come in order, after a report, relative to the newest one
    /// that it listed.
    following: Latenesses,
    /// When the last report was made, by the receiver's clock, and when it came.
    reported_at: Instant,
    heard_at: Instant,
    newest: Option<Reference>,
}

/// A packet that has arrived: others are expected to have taken as long.
#[derive(Clone, Copy, Debug)]
struct Reference {
    sent_at: Instant,
    received_at: Instant,
}

impl Reference {
    fn of(packet: &AckedPacket) -> Option<Self> {
        Some(Reference {
            sent_at: packet.sent.sent_at,
            received_at: packet.received_at?,
        })
    }

    /// Returns the lateness of a packet that has not arrived `until`, by the receiver's clock.
    fn lateness(&self, sent_at: Instant, until: Instant) -> Duration {
        let sent_before = self.sent_at.saturating_since(sent_at);
        let sent_after = sent_at.saturating_since(self.sent_at);
        (until + sent_before).saturating_since(self.received_at + sent_after)
    }
}

/// Greatest latenesses of the packets of a block, in descending order.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    packets: usize,
    greatest: [Duration; TOLERATED + 1],
}

impl Block {
    fn add(&mut self, lateness: Duration) {
        let place = self.greatest.partition_point(|greater| *greater > lateness);
        if let Some(tail) = self.greatest.get_mut(place..)
            && let [_, ..] = tail
        {
            tail.rotate_right(1);
            tail[0] = lateness;
        }
    }
}

/// The greatest latenesses of the last one to two blocks of packets.
#[derive(Debug, Default)]
struct Latenesses {
    current: Block,
    previous: Block,
}

impl Latenesses {
    /// Counts packets, of which the late ones have been added.
    fn count(&mut self, packets: usize) -> bool {
        self.current.packets += packets;
        let is_full = self.current.packets >= BLOCK_PACKETS;
        if is_full {
            self.previous = core::mem::take(&mut self.current);
        }
        is_full
    }

    fn packets(&self) -> usize {
        self.previous.packets + self.current.packets
    }

    /// Returns the lateness that [`TOLERATED`] packets exceed, with a margin.
    fn window(&self) -> Duration {
        self.exceeded_by(TOLERATED)
    }

    /// Returns the same as [`Latenesses::window`]; in less than a block, proportionally fewer
    /// packets exceed it.
    fn early_window(&self) -> Duration {
        self.exceeded_by((self.packets() * TOLERATED / BLOCK_PACKETS).min(TOLERATED))
    }

    fn exceeded_by(&self, packets: usize) -> Duration {
        let mut all = self.previous;
        for lateness in self.current.greatest {
            all.add(lateness);
        }
        let tolerated = all.greatest[packets];
        tolerated + tolerated / MARGIN
    }
}

impl Reordering {
    /// Handles a report made at `reported_at`, by the receiver's clock, that acknowledges these
    /// packets for the first time. Packets below `largest_before` came late.
    pub(super) fn on_report(
        &mut self,
        now: Instant,
        reported_at: Instant,
        acked: &[AckedPacket],
        largest_before: Option<u64>,
    ) {
        if reported_at >= self.reported_at {
            (self.reported_at, self.heard_at) = (reported_at, now);
        }
        let largest_before = largest_before.unwrap_or(0);
        if let Some(reference) = self.newest {
            let late = acked
                .iter()
                .take_while(|packet| packet.sent.packet_number < largest_before);
            for packet in late {
                if let Some(received_at) = packet.received_at {
                    let lateness = reference.lateness(packet.sent.sent_at, received_at);
                    self.overtaken.current.add(lateness);
                    self.window = self.overtaken.window();
                }
            }
        }
        let newer = acked
            .iter()
            .rev()
            .take_while(|packet| packet.sent.packet_number >= largest_before);
        let mut timed = newer.filter_map(Reference::of).peekable();
        let newest = timed.peek().copied();
        if let Some(reference) = self.newest {
            let mut count = 0;
            for packet in timed {
                let lateness = reference.lateness(packet.sent_at, packet.received_at);
                self.following.current.add(lateness);
                count += 1;
            }
            self.following.count(count);
        }
        self.newest = newest.or(self.newest);
        if self.overtaken.count(acked.len()) {
            self.window = self.overtaken.window();
        }
    }

    /// Returns the time to wait for a hole; zero on a path that hardly reorders.
    pub(super) fn window(&self) -> Duration {
        self.window
    }

    /// Returns the time until which a packet that later ones have overtaken may be merely late;
    /// `None` if that is over. `window` is the path's, bounded; `max_feedback_delay` is the
    /// possible delay of the report that lists it.
    pub(super) fn excused_until(
        &self,
        packet: &SentPacket,
        window: Duration,
        max_feedback_delay: Duration,
    ) -> Option<Instant> {
        let lateness = self.newest?.lateness(packet.sent_at, self.reported_at);
        let remaining = window.saturating_sub(lateness);
        (!remaining.is_zero()).then(|| self.heard_at + remaining + max_feedback_delay)
    }

    /// Returns whether this packet, sent after the newest one in the last report, would have been
    /// in that report, had it arrived.
    pub(super) fn is_missing(&self, packet: &SentPacket) -> bool {
        let Some(newest) = self.newest else {
            return false;
        };
        let lateness = newest.lateness(packet.sent_at, self.reported_at);
        self.following.packets() >= MIN_FOLLOWING
            && lateness > self.window.max(RttEstimator::GRANULARITY)
            && lateness > self.following.early_window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::{LossDetection, PacketContent, Recovery};

    const ROUND_TRIP: Duration = Duration::from_millis(60);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Sends the next packet a millisecond after the last. It comes `late` after the usual 30 ms.
    fn acked(recovery: &mut Recovery, late: u64) -> AckedPacket {
        let number = recovery.next_packet_number();
        let sent = recovery.on_sent(at(number), 1_000, PacketContent::Padding);
        AckedPacket {
            sent,
            received_at: Some(at(number + 30 + late)),
            rtt: None,
            delivered_bytes: 0,
        }
    }

    /// Returns the state after `count` packets of which each tenth comes late, by `latenesses` in
    /// turn. Each is reported alone.
    fn learned(count: u64, latenesses: &[u64]) -> Reordering {
        let mut recovery = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        let mut reordering = Reordering::default();
        let mut latenesses = latenesses.iter();
        for number in 0..count {
            let late = if number % 10 == 5 {
                latenesses.next().copied().unwrap_or(0)
            } else {
                0
            };
            let packet = acked(&mut recovery, late);
            let reported_at = packet.received_at.expect("told");
            let largest_before = Some(number + late);
            let now = reported_at + ROUND_TRIP / 2;
            reordering.on_report(now, reported_at, &[packet], largest_before);
        }
        reordering
    }

    #[test]
    fn a_path_that_delivers_in_order_has_no_window() {
        assert_eq!(learned(3_000, &[]).window(), Duration::ZERO);
    }

    #[test]
    fn three_stragglers_do_not_open_the_window_and_a_fourth_does() {
        assert_eq!(learned(100, &[20, 50, 30]).window(), Duration::ZERO);
        let window = learned(100, &[20, 50, 30, 40]).window();
        // Lateness is against the packet before, which left a millisecond earlier and came then.
        assert_eq!(window, Duration::from_millis(25), "5/4 of the fourth");
    }

    #[test]
    fn the_window_is_forgotten_after_two_blocks_in_order() {
        let late = [20; 10];
        assert!(
            !learned(2 * BLOCK_PACKETS as u64 - 1, &late)
                .window()
                .is_zero()
        );
        assert_eq!(
            learned(2 * BLOCK_PACKETS as u64, &late).window(),
            Duration::ZERO
        );
    }

    /// Returns the state after packets that leave a millisecond apart and come 30 ms later, each
    /// tenth `late`, and are reported by fours.
    fn followed(count: u64, late: u64) -> Reordering {
        let mut recovery = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        let mut reordering = Reordering::default();
        for first in (0..count).step_by(4) {
            let packets: Vec<AckedPacket> = (first..first + 4)
                .map(|number| match number % 10 {
                    5 => acked(&mut recovery, late),
                    _ => acked(&mut recovery, 0),
                })
                .collect();
            let reported_at = packets
                .iter()
                .filter_map(|packet| packet.received_at)
                .max()
                .expect("told");
            let now = reported_at + ROUND_TRIP / 2;
            reordering.on_report(now, reported_at, &packets, Some(first));
        }
        reordering
    }

    /// Returns the milliseconds of silence after which a packet that left 2 ms after the newest is
    /// missing.
    fn missing_after(count: u64, late: u64) -> Option<u64> {
        let mut reordering = followed(count, late);
        let mut recovery = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        let packet = recovery.on_sent(at(count + 1), 1_000, PacketContent::Padding);
        (1..50).find(|silence| {
            let reported_at = at(count - 1 + 30 + silence);
            reordering.on_report(reported_at, reported_at, &[], None);
            reordering.is_missing(&packet)
        })
    }

    #[test]
    fn a_packet_is_missing_when_a_report_is_made_after_it_should_have_come() {
        // Due 2 ms after the newest; timers are fine to a millisecond.
        assert_eq!(missing_after(2_000, 0), Some(4));
        // Packets have been 6 ms late, and a quarter more may be.
        assert_eq!(missing_after(2_000, 6), Some(2 + 8));
    }

    #[test]
    fn nothing_is_missing_by_time_before_packets_have_shown_how_late_they_may_be() {
        assert_eq!(missing_after(60, 0), None);
        assert_eq!(
            missing_after(100, 6),
            Some(2 + 8),
            "none of a hundred is tolerated"
        );
    }

    #[test]
    fn a_hole_is_excused_until_the_window_ends_by_the_receivers_clock() {
        let reordering = learned(100, &[20; 4]);
        let window = reordering.window();
        assert_eq!(window, Duration::from_millis(25));
        let mut recovery = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        let packets: Vec<SentPacket> = (0..100).map(|_| acked(&mut recovery, 0).sent).collect();
        // The last report was made when packet 99 came, at 129 ms, and arrived 30 ms later.
        let delay = Duration::from_millis(7);
        // The first one is 25 ms late.
        for (number, until) in [
            (74, None),
            (75, Some(159 + 1 + 7)),
            (98, Some(159 + 24 + 7)),
        ] {
            let excused_until = reordering.excused_until(&packets[number], window, delay);
            assert_eq!(excused_until, until.map(at), "{number}");
        }
    }
}
