//! Proportional rate reduction (PRR, RFC 9937): a window that falls does so over a round trip.
//!
//! Without it a window that halves lets nothing leave for half a round trip, so that the queue has
//! drained before the next packet meets it. With it a packet leaves for every second one that
//! arrives. Linux reduces the windows of all its controllers in this way, except BBR's.
//!
//! Decisions:
//! 1. Only streams whose acknowledgements name the packets that arrived reduce their windows so
//!    ([`ControllerConfig::spreads_reductions`]). Frames of media have no time to wait.
//! 2. An episode ends with the recovery period of its window (RFC 9002 §7.3.2). Linux's lasts until
//!    all packets that were in flight at its beginning are acknowledged in order.
//! 3. After a loss no acknowledgement of an episode is a "SafeACK": the retransmission ends the
//!    episode. After a mark every one is, as data arrive in order.
//! 4. RecoverFS is the number of bytes in flight before the report that began the episode.

use anabranch_core::control::ControllerConfig;
use anabranch_core::recovery::{Feedback, SentPacket};

/// The reduction of one path's window.
#[derive(Debug)]
pub(super) struct Reduction {
    is_wanted: bool,
    /// `SMSS`.
    segment_bytes: u64,
    episode: Option<Episode>,
}

/// A reduction that is in progress.
#[derive(Debug)]
struct Episode {
    /// `RecoverFS`.
    flight_bytes: u64,
    /// `ssthresh`.
    target_bytes: u64,
    /// `prr_delivered`.
    delivered_bytes: u64,
    /// `prr_out`.
    sent_bytes: u64,
    /// Whether packets were lost, not marked.
    is_of_losses: bool,
    /// `cwnd`.
    window_bytes: u64,
}

impl Reduction {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        Reduction {
            is_wanted: config.spreads_reductions,
            segment_bytes: u64::from(config.max_packet_bytes).max(1),
            episode: None,
        }
    }

    /// Begins an episode that leads to a window of `target_bytes`, because of this report.
    pub(super) fn begin(&mut self, target_bytes: u64, feedback: &Feedback<'_>) {
        if self.is_wanted {
            self.episode = Some(Episode {
                flight_bytes: feedback.prior_bytes_in_flight.max(1),
                target_bytes: target_bytes.max(self.segment_bytes),
                delivered_bytes: 0,
                sent_bytes: 0,
                is_of_losses: !feedback.lost.is_empty(),
                window_bytes: 0,
            });
            self.on_feedback(feedback);
        }
    }

    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        if let Some(episode) = &mut self.episode {
            episode.sent_bytes += u64::from(packet.bytes);
        }
    }

    /// Moves the window on (RFC 9937 §6.2).
    pub(super) fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        let Some(episode) = &mut self.episode else {
            return;
        };
        let acked = feedback.acked.iter();
        let delivered: u64 = acked.map(|acked| u64::from(acked.sent.bytes)).sum();
        episode.is_of_losses |= !feedback.lost.is_empty();
        episode.delivered_bytes += delivered;
        episode.window_bytes =
            episode.window(delivered, feedback.bytes_in_flight, self.segment_bytes);
    }

    pub(super) fn end(&mut self) {
        self.episode = None;
    }

    /// Returns the window in an episode, else `bytes`.
    pub(super) fn window_or(&self, bytes: u64) -> u64 {
        self.episode.as_ref().map_or(bytes, |it| it.window_bytes)
    }
}

impl Episode {
    /// Returns the window after a report of `delivered` bytes that leaves `pipe` bytes in flight.
    fn window(&self, delivered: u64, pipe: u64, segment_bytes: u64) -> u64 {
        let mut room = if pipe > self.target_bytes {
            let product = u128::from(self.delivered_bytes) * u128::from(self.target_bytes);
            let due_bytes = product.div_ceil(u128::from(self.flight_bytes)) as u64;
            // Linux counts packets, and rounds up.
            (due_bytes.div_ceil(segment_bytes) * segment_bytes).saturating_sub(self.sent_bytes)
        } else {
            let unused = self.delivered_bytes.saturating_sub(self.sent_bytes);
            let bound = if self.is_of_losses {
                unused.max(delivered)
            } else {
                unused.max(delivered) + segment_bytes
            };
            bound.min(self.target_bytes - pipe)
        };
        if self.sent_bytes == 0 {
            // The fast retransmit leaves at once.
            room = room.max(segment_bytes);
        }
        pipe + room
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::Reno;
    use super::super::testing::beds::{SEGMENT, segment_config};
    use super::super::testing::{Report, Rig};
    use super::super::window::Window;
    use super::*;

    /// Returns a rig with a window of `segments` that is full, of a stream or of media.
    fn full(segments: usize, spreads_reductions: bool) -> Rig<Reno> {
        let config = ControllerConfig {
            spreads_reductions,
            ..segment_config()
        };
        let mut rig = Rig::of_segments(Reno::new(&config));
        // Reno's own window has no reduction.
        rig.controller.window = Window::new(&config);
        rig.controller.window.segments = segments as f64;
        rig.controller.window.ssthresh = segments as f64;
        rig.send(segments);
        rig
    }

    /// Sends as much as the window allows, and returns the number of packets.
    fn fill(rig: &mut Rig<Reno>) -> u64 {
        let room = rig.window_segments() * f64::from(SEGMENT) - rig.bytes_in_flight() as f64;
        let count = (room.max(0.0) / f64::from(SEGMENT)) as usize;
        rig.send(count);
        count as u64
    }

    const MARKED: Report = Report {
        acked: 1,
        ce_count: 1,
        lost: 0,
        spurious: 0,
        rtt: None,
        received_at: None,
        rate: None,
        is_app_limited: false,
        has_window_left: false,
    };

    #[test]
    fn rfc9937_6_2_a_packet_leaves_for_every_second_one_while_the_window_halves() {
        let mut rig = full(20, true);
        rig.report(MARKED);
        let mut left = vec![fill(&mut rig)];
        for _ in 1..20 {
            rig.ack(1);
            left.push(fill(&mut rig));
        }
        assert_eq!(left[..10], [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(left.iter().sum::<u64>(), 10);
        assert_eq!(rig.flying.len(), 10);
    }

    #[test]
    fn windows_of_media_fall_at_once() {
        let mut rig = full(20, false);
        rig.report(MARKED);
        assert_eq!(rig.window_segments(), 10.0);
        assert_eq!(fill(&mut rig), 0);
    }

    #[test]
    fn rfc9937_6_2_a_loss_lets_the_retransmission_leave_at_once() {
        let mut rig = full(20, true);
        rig.hear(1, 3, 100);
        assert_eq!(fill(&mut rig), 2, "ceil(3 · 10 / 20)");
    }

    /// More is lost than the window falls by: only as much leaves as arrives.
    #[test]
    fn rfc9937_6_2_below_the_threshold_packets_are_conserved() {
        let mut rig = full(20, true);
        rig.hear(14, 1, 100);
        assert_eq!(fill(&mut rig), 1);
        for _ in 0..4 {
            rig.ack(1);
            assert_eq!(fill(&mut rig), 1);
        }
        assert_eq!(rig.flying.len(), 6);
    }

    /// After a mark a packet more leaves with each report, up to the threshold.
    #[test]
    fn rfc9937_6_2_with_safe_acks_the_window_grows_to_the_threshold() {
        let mut rig = full(20, true);
        rig.flying.truncate(6);
        rig.report(MARKED);
        assert_eq!(fill(&mut rig), 2);
        for in_flight in [8, 9, 10, 10] {
            rig.ack(1);
            fill(&mut rig);
            assert_eq!(rig.flying.len(), in_flight);
        }
    }

    #[test]
    fn a_timeout_and_a_penalty_end_an_episode() {
        let mut rig = full(20, true);
        rig.report(MARKED);
        rig.controller.window.on_timeout(5.0);
        assert_eq!(rig.window_segments(), 1.0);
        let mut rig = full(20, true);
        rig.report(MARKED);
        rig.controller.window.on_penalty();
        assert_eq!(rig.window_segments(), 5.0);
    }
}
