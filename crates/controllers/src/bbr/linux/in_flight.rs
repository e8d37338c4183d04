//! Allowed and predicted packets in flight.

use anabranch_units::{DataRate, Instant};

use super::{BbrLinux, INITIAL_PRODUCT_PACKETS, Mode};

/// `bbr_min_tso_rate`: below it single packets are sent.
const MIN_TSO_RATE: DataRate = DataRate::from_kilobits_per_second(1_200);
/// `sk_pacing_shift`: an offloaded segment lasts for 1/1024 s, but is 64 kB at most.
const SEGMENTS_A_SECOND: u64 = 1_024;
const MAX_SEGMENT_BYTES: u64 = 65_536;
impl BbrLinux {
    /// `bbr_bdp`, in whole packets.
    pub(super) fn product(&self, bandwidth: DataRate, gain: f64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return INITIAL_PRODUCT_PACKETS * self.packet_bytes;
        };
        let bytes = bandwidth.bytes_in(min_rtt) as f64 * gain;
        let packets = bytes / self.packet_bytes as f64;
        let whole = packets as u64;
        // Rounded up, without a call of the mathematical library.
        let packet_count = whole + u64::from(packets > whole as f64);
        packet_count * self.packet_bytes
    }

    /// `bbr_tso_segs_goal`: the number of packets that leave together.
    pub(super) fn segment_packets(&self) -> u64 {
        let segment = self.pacing_rate.bits_per_second() / 8 / SEGMENTS_A_SECOND;
        let least = if self.pacing_rate < MIN_TSO_RATE {
            1
        } else {
            2
        };
        (segment.min(MAX_SEGMENT_BYTES) / self.packet_bytes).clamp(least, 127)
    }

    /// `bbr_quantization_budget`: three offloaded segments more, an even number of packets, and two
    /// more to probe with where the product is small.
    pub(super) fn with_quantization_budget(&self, window: u64) -> u64 {
        let mut packets = window / self.packet_bytes + 3 * self.segment_packets();
        packets = packets.next_multiple_of(2);
        let is_probing = matches!(&self.mode, Mode::ProbeBw(cycle) if cycle.is_probing());
        if self.profile.has_room_to_probe && is_probing {
            packets += 2;
        }
        packets * self.packet_bytes
    }

    /// `bbr_inflight`.
    pub(super) fn inflight(&self, bandwidth: DataRate, gain: f64) -> u64 {
        self.with_quantization_budget(self.product(bandwidth, gain))
    }

    /// `bbr_packets_in_net_at_edt`: the packets in the network when the next packet departs. That
    /// one is included while the packets in flight are to grow.
    pub(super) fn in_network_at_departure(&self, now: Instant, bytes_in_flight: u64) -> u64 {
        if !self.knows_departure_times {
            return bytes_in_flight;
        }
        let wait = self.departs_at.saturating_since(now);
        let delivered = self.bandwidth().bytes_in(wait);
        let departing = if self.pacing_gain() > 1.0 {
            self.segment_packets() * self.packet_bytes
        } else {
            0
        };
        (bytes_in_flight + departing).saturating_sub(delivered)
    }
}
