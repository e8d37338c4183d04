//! When an unacknowledged packet counts as lost.

use anabranch_units::{Duration, Instant};

use super::packet::SentPacket;
use super::reordering::Reordering;
use super::rtt::RttEstimator;

/// The loss detection that a session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// A packet is lost when one sent at least three later has arrived. It is also lost when any
    /// later one has arrived and 9/8 of a round-trip time has passed since it was sent (RFC 9002
    /// §6.1). On a path that reorders, the lateness of other packets is added, as RFC 8985's RACK
    /// does.
    #[default]
    PerPacket,
    /// A packet is lost as soon as any later one has arrived (Zhang & Lei's code). For networks
    /// without reordering.
    GapImmediate,
    /// TCP without SACK, as ns-2's Reno: the sender only learns the offset that the stream has
    /// reached. Three duplicate acknowledgements cause one retransmission, a timeout goes back to
    /// the first unacknowledged byte (RFC 5681 §3.2). For streams.
    TcpCumulative,
    /// TCP with SACK, as Linux: RACK-TLP (RFC 8985). For streams.
    TcpSack,
}

/// Number of later packets whose arrival makes a packet lost (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;

impl LossDetection {
    /// Returns whether the rule needs the order of a stream's bytes.
    pub(crate) fn is_of_streams(self) -> bool {
        matches!(self, LossDetection::TcpCumulative | LossDetection::TcpSack)
    }

    /// Judges an unacknowledged packet when `largest_acked`, a later one, has arrived. Cumulative
    /// acknowledgements name no packets, so their rule never reaches this decision.
    pub(super) fn judge(
        self,
        packet: &SentPacket,
        largest_acked: u64,
        evidence: &Evidence<'_>,
    ) -> Verdict {
        let Evidence { now, rtt, .. } = *evidence;
        let lost_at = match self {
            LossDetection::GapImmediate => return Verdict::Lost,
            LossDetection::PerPacket => {
                let lost_at = if largest_acked - packet.packet_number >= PACKET_THRESHOLD {
                    now
                } else {
                    packet.sent_at + rtt.time_threshold()
                };
                lost_at.max(evidence.excused_until(packet))
            }
            LossDetection::TcpSack | LossDetection::TcpCumulative => {
                let rtt = rtt.latest().unwrap_or(rtt.smoothed());
                packet.sent_at + rtt + evidence.reordering_window
            }
        };
        if lost_at <= now {
            Verdict::Lost
        } else {
            Verdict::LostAt(lost_at)
        }
    }
}

/// Evidence by which packets are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) now: Instant,
    pub(super) rtt: &'a RttEstimator,
    pub(super) reordering: &'a Reordering,
    /// RACK's, or that of `reordering`.
    pub(super) reordering_window: Duration,
    pub(super) max_feedback_delay: Duration,
}

impl Evidence<'_> {
    /// Returns the time until which the packet may just be late; the origin if it may not.
    fn excused_until(&self, packet: &SentPacket) -> Instant {
        let window = self.reordering_window;
        if window.is_zero() {
            return Instant::ZERO;
        }
        let excused = self
            .reordering
            .excused_until(packet, window, self.max_feedback_delay);
        excused.unwrap_or(Instant::ZERO)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Lost,
    /// Lost at this moment without further reports.
    LostAt(Instant),
}
