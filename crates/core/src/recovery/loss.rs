//! When an unacknowledged packet counts as lost.

use anabranch_units::{Duration, Instant};

use super::rtt::RttEstimator;
use super::sent_packets::SentPacket;

/// The loss detection that a session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// A packet is lost when one sent at least three later has arrived, or when any later one has
    /// and 9/8 of a round-trip time has passed since it was sent (RFC 9002 §6.1).
    #[default]
    PerPacket,
    /// A packet is lost as soon as any later one has arrived (Zhang & Lei's code). For networks
    /// without reordering.
    GapImmediate,
    /// TCP without SACK, as ns-2's Reno: the sender hears only how far the stream has come. Three
    /// duplicate acknowledgements cause one retransmission, a timeout goes back to the first
    /// unacknowledged byte (RFC 5681 §3.2). For streams.
    TcpCumulative,
    /// TCP with SACK, as Linux: RACK-TLP (RFC 8985). For streams.
    TcpSack,
}

/// How many packets may overtake another (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;

impl LossDetection {
    /// The rules for media by the name that scenario files use.
    pub const NAMES: [(&'static str, LossDetection); 2] = [
        ("per-packet", LossDetection::PerPacket),
        ("gap-immediate", LossDetection::GapImmediate),
    ];

    /// The rules for streams by the name that scenario files use.
    pub const STREAM_NAMES: [(&'static str, LossDetection); 4] = [
        ("tcp-sack", LossDetection::TcpSack),
        ("tcp-cumulative", LossDetection::TcpCumulative),
        Self::NAMES[0],
        Self::NAMES[1],
    ];

    /// Whether the rule needs the order of a stream's bytes.
    pub(crate) fn is_of_streams(self) -> bool {
        matches!(self, LossDetection::TcpCumulative | LossDetection::TcpSack)
    }

    /// What becomes of an unacknowledged packet when `largest_acked`, a later one, has arrived.
    /// `reordering_window` is RACK's. Cumulative acknowledgements name no packets, so that the
    /// question does not arise.
    pub(super) fn judge(
        self,
        now: Instant,
        packet: &SentPacket,
        largest_acked: u64,
        rtt: &RttEstimator,
        reordering_window: Duration,
    ) -> Verdict {
        let patience = match self {
            LossDetection::GapImmediate => return Verdict::Lost,
            LossDetection::PerPacket => {
                if largest_acked - packet.packet_number >= PACKET_THRESHOLD {
                    return Verdict::Lost;
                }
                rtt.time_threshold()
            }
            LossDetection::TcpSack | LossDetection::TcpCumulative => {
                rtt.latest().unwrap_or(rtt.smoothed()) + reordering_window
            }
        };
        let lost_at = packet.sent_at + patience;
        if lost_at <= now {
            Verdict::Lost
        } else {
            Verdict::LostAt(lost_at)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Lost,
    /// Not yet, but at this moment if nothing is heard.
    LostAt(Instant),
}
