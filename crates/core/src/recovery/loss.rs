//! When an unacknowledged packet counts as lost.

use anabranch_units::Instant;

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
}

/// How many packets may overtake another (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;

impl LossDetection {
    /// All rules by the name that scenario files use.
    pub const NAMES: [(&'static str, LossDetection); 2] = [
        ("per-packet", LossDetection::PerPacket),
        ("gap-immediate", LossDetection::GapImmediate),
    ];

    /// What becomes of an unacknowledged packet when `largest_acked`, a later one, has arrived.
    pub(super) fn judge(
        self,
        now: Instant,
        packet: &SentPacket,
        largest_acked: u64,
        rtt: &RttEstimator,
    ) -> Verdict {
        if self == LossDetection::GapImmediate
            || largest_acked - packet.packet_number >= PACKET_THRESHOLD
        {
            return Verdict::Lost;
        }
        let lost_at = packet.sent_at + rtt.time_threshold();
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
