//! `template`: description in one line.
//!
//! Source: authors, "title", where and when, with section and equation. The idea in a paragraph.
//!
//! *Deviations*: where this differs from the source and why, or none.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::Feedback;
use anabranch_core::{PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

/// Factor that a loss applies to the window (RFC 5681 §3.1).
const DECREASE: f64 = 0.5;
/// The least window, in packets.
const MIN_PACKETS: f64 = 2.0;

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Template::new(config))
}

/// A window of AIMD: a packet more each round trip, half of it after a loss.
#[derive(Debug)]
struct Template {
    packet_bytes: f64,
    min_rate: DataRate,
    initial_window: f64,
    /// Bytes.
    window: f64,
    rate: DataRate,
    /// Send time from which losses count; earlier ones belong to the last decrease.
    decreased_at: Instant,
}

impl Template {
    fn new(config: &ControllerConfig) -> Self {
        let packet_bytes = f64::from(config.max_packet_bytes);
        let initial_window = packet_bytes * f64::from(config.initial_window_packets);
        Template {
            packet_bytes,
            min_rate: config.min_rate,
            initial_window,
            window: initial_window,
            rate: config.initial_rate,
            decreased_at: Instant::ZERO,
        }
    }

    fn on_acked(&mut self, bytes: u64) {
        self.window += self.packet_bytes * bytes as f64 / self.window;
    }

    fn on_lost(&mut self, now: Instant) {
        self.window = (self.window * DECREASE).max(self.packet_bytes * MIN_PACKETS);
        self.decreased_at = now;
    }
}

impl CongestionController for Template {
    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        let mut lost = feedback.lost.iter();
        if lost.any(|packet| packet.sent_at >= self.decreased_at) {
            self.on_lost(now);
        } else if feedback.is_window_limited {
            // An unused window is no evidence on the path.
            let bytes = feedback.acked.iter().map(|acked| acked.sent.bytes);
            self.on_acked(bytes.map(u64::from).sum());
        }
        let rtt = feedback.rtt.smoothed().max(Duration::from_micros(1));
        self.rate = DataRate::from_bytes_per(self.window as u64, rtt);
    }

    /// The path was silent, so all knowledge of it has expired.
    fn on_timeout(&mut self, now: Instant, _cause: Timeout) {
        self.window = self.initial_window;
        self.decreased_at = now;
    }

    fn control(&self) -> ControlParameters {
        ControlParameters {
            congestion_window: Some(self.window as u64),
            ..ControlParameters::of(self.rate.max(self.min_rate))
        }
    }

    fn state(&self) -> &'static str {
        "CongestionAvoidance"
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use super::super::testing::beds::segment_config;
    use super::*;

    fn rig() -> Rig<Template> {
        Rig::of_segments(Template::new(&segment_config()))
    }

    #[test]
    fn a_round_trip_adds_a_packet() {
        let mut rig = rig();
        let before = rig.window_segments();
        rig.round(100);
        let growth = rig.window_segments() - before;
        assert!((growth - 1.0).abs() < 0.05, "{growth}");
    }

    #[test]
    fn losses_of_one_round_trip_halve_the_window_once() {
        let mut rig = rig();
        let before = rig.window_segments();
        rig.fill();
        rig.now += Duration::from_millis(100);
        rig.hear(1, 0, 100);
        rig.hear(rig.flying.len(), 0, 100);
        assert_eq!(rig.window_segments(), before / 2.0);
        rig.fill();
        rig.now += Duration::from_millis(100);
        rig.hear(1, 0, 100);
        assert_eq!(rig.window_segments(), before / 4.0);
    }
}
