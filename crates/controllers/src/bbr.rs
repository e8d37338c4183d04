//! The BBR family: its members and their shared parts.
//!
//! `bbr-quic` ([`quic`]), `bbr-webrtc` ([`webrtc`]), `bbr-linux` and `bbr-linux-4.9` ([`linux`])
//! are version 1; `bbr3` ([`v3`]) is the IETF's draft. Delay-BBR shares the filters.

mod full_pipe;
mod gain_cycle;
pub(super) mod linux;
#[cfg(test)]
mod properties;
pub(super) mod quic;
mod recovery;
mod rounds;
pub(super) mod v3;
pub(super) mod webrtc;

pub(super) use full_pipe::FullPipe;
pub(super) use rounds::{BANDWIDTH_WINDOW_ROUNDS, RoundCounter, RoundMax};

use core::f64::consts::LN_2;

use anabranch_units::{DataRate, Duration};

/// `kHighGain` = 2/ln 2, cut as in all sources: doubles the delivered bytes in each round.
const HIGH_GAIN: f64 = 2.885;
/// `kMinRttExpiry`.
const MIN_RTT_EXPIRY: Duration = Duration::from_secs(10);
/// `kProbeRttTime`.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

const _: () = assert!(HIGH_GAIN - 2.0 / LN_2 < 0.001 && 2.0 / LN_2 - HIGH_GAIN < 0.001);

/// Returns the least pacing rate of every member: a packet per second.
fn packet_a_second(packet_bytes: u64) -> DataRate {
    DataRate::from_bits_per_second(8 * packet_bytes.max(1))
}

/// Packets sent while a controller itself held the sender back. Their samples are no evidence
/// against the path (draft-ietf-ccwg-bbr §4.1.2.4, as ProbeRTT uses it).
#[derive(Clone, Copy, Debug, Default)]
struct HeldBack {
    from_packet: u64,
    /// Last packet of the hold: packets sent before a later one is acknowledged are held back too.
    ends_after: u64,
    /// The first packet not held back, once known.
    until_packet: u64,
    is_on: bool,
}

impl HeldBack {
    /// Marks all packets as held back that are sent before those in flight now have settled.
    fn mark(&mut self, next_packet_number: u64) {
        if !self.is_on {
            self.from_packet = next_packet_number;
        }
        self.is_on = true;
        self.ends_after = next_packet_number.saturating_sub(1);
    }

    /// Handles an acknowledged packet, and returns whether it was held back.
    fn on_acked(&mut self, packet_number: u64, next_packet_number: u64) -> bool {
        if self.is_on && packet_number > self.ends_after {
            self.is_on = false;
            self.until_packet = next_packet_number;
        }
        packet_number >= self.from_packet && (self.is_on || packet_number < self.until_packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_probe_rtt_holds_back_are_known_as_such() {
        let mut held_back = HeldBack::default();
        assert!(!held_back.on_acked(3, 10));
        held_back.mark(10);
        held_back.mark(12);
        assert!(!held_back.on_acked(9, 13));
        assert!(held_back.on_acked(10, 13));
        assert!(held_back.on_acked(12, 15), "the first beyond the mark");
        assert!(held_back.on_acked(14, 16));
        assert!(!held_back.on_acked(15, 17));
    }
}
