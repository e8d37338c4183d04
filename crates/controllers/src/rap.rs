//! `rap`: the Rate Adaptation Protocol, Rejaie, Handley & Estrin, "RAP: An end-to-end rate-based
//! congestion control mechanism for realtime streams in the Internet" (INFOCOM 1999).
//!
//! The gap between packets (IPG) is the controlled variable. Once per smoothed round trip without
//! loss it shrinks, so that one more packet is sent per round trip. A loss doubles it, once for all
//! losses of packets in flight at that time.
//!
//! Packets are [`ControllerConfig::max_packet_bytes`] on the wire; all rates count wire bytes.
//!
//! Deviations:
//! 1. The first gap is that of [`ControllerConfig::initial_rate`]; there is no start-up phase.
//! 2. Losses are those that recovery finds; a retransmission timeout, or a path gone silent, is a
//!    loss too.
//! 3. The gap does not shrink while the source sends less than 0.8 of the rate. It is at most a
//!    second, and at most the gap of the configured minimum rate.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant};

use super::rate_use::RateUse;

/// `β`.
const DECREASE_FACTOR: f64 = 0.5;
/// Weights of the newest sample in the short- and the long-term round-trip time (§III-D).
const SHORT_TERM_WEIGHT: f64 = 0.9;
const LONG_TERM_WEIGHT: f64 = 0.01;

const FINE_GRAIN: AlgorithmOption = AlgorithmOption::words(
    "fine-grain",
    "whether the gap follows short-term round-trip times between the steps (§III-D)",
    &["off", "on"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[FINE_GRAIN];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Rap::new(config))
}

#[derive(Debug)]
struct Rap {
    packet_bytes: u32,
    min_rate: DataRate,
    max_rate: DataRate,
    is_fine_grain: bool,
    /// `IPG`, in seconds.
    gap: f64,
    smoothed_rtt: Option<f64>,
    /// `FRTT` and `XRTT`, in seconds.
    short_term_rtt: f64,
    long_term_rtt: f64,
    /// Time of the last change of the gap.
    stepped_at: Instant,
    next_packet_number: u64,
    /// Losses of packets before this one belong to the last back-off.
    cluster_ends_with: u64,
    rate_use: RateUse,
    is_backed_off: bool,
}

impl Rap {
    fn new(config: &ControllerConfig) -> Self {
        let packet_bytes = config.max_packet_bytes.max(1);
        let mut rap = Rap {
            packet_bytes,
            min_rate: config.min_rate,
            max_rate: config.max_rate,
            is_fine_grain: config.options.word(&FINE_GRAIN) == "on",
            gap: 0.0,
            smoothed_rtt: None,
            short_term_rtt: 0.0,
            long_term_rtt: 0.0,
            stepped_at: Instant::ZERO,
            next_packet_number: 0,
            cluster_ends_with: 0,
            rate_use: RateUse::new(f64::from(packet_bytes)),
            is_backed_off: false,
        };
        rap.set_gap(rap.gap_at(config.initial_rate));
        rap
    }

    fn gap_at(&self, rate: DataRate) -> f64 {
        f64::from(self.packet_bytes) * 8.0 / (rate.bits_per_second() as f64).max(1.0)
    }

    fn set_gap(&mut self, gap: f64) {
        let longest = self.gap_at(self.min_rate).min(1.0);
        self.gap = gap.max(self.gap_at(self.max_rate)).min(longest);
    }

    /// Shrinks the gap (additive increase): IPG C / (IPG + C) with C = SRTT is one more packet per
    /// round trip.
    fn step(&mut self, now: Instant, smoothed_rtt: f64) {
        self.stepped_at = now;
        self.is_backed_off = false;
        if self.rate_use.take(now) {
            self.set_gap(self.gap * smoothed_rtt / (self.gap + smoothed_rtt));
        }
    }

    /// Lengthens the gap (multiplicative decrease): IPG / β.
    fn back_off(&mut self, now: Instant) {
        self.set_gap(self.gap / DECREASE_FACTOR);
        // The next packet still follows the old gap.
        self.cluster_ends_with = self.next_packet_number + 1;
        self.stepped_at = now;
        self.is_backed_off = true;
    }

    fn on_rtt_sample(&mut self, rtt: f64) {
        if self.smoothed_rtt.is_none() {
            (self.short_term_rtt, self.long_term_rtt) = (rtt, rtt);
            return;
        }
        self.short_term_rtt += SHORT_TERM_WEIGHT * (rtt - self.short_term_rtt);
        self.long_term_rtt += LONG_TERM_WEIGHT * (rtt - self.long_term_rtt);
    }

    /// Returns IPG' = IPG · FRTT / XRTT.
    fn fine_gap(&self) -> f64 {
        if self.is_fine_grain && self.long_term_rtt > 0.0 {
            (self.gap * self.short_term_rtt / self.long_term_rtt).min(1.0)
        } else {
            self.gap
        }
    }

    fn rate_of(&self, gap: f64) -> DataRate {
        let bits = (f64::from(self.packet_bytes) * 8.0 / gap.max(1e-9)).ceil();
        DataRate::from_bits_per_second(bits as u64)
    }
}

impl CongestionController for Rap {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.rate_use.on_sent(now, packet.bytes);
    }

    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        for acked in feedback.acked {
            if let Some(rtt) = acked.rtt {
                self.on_rtt_sample(rtt.as_secs_f64().max(1e-6));
            }
        }
        if feedback.rtt.has_sample() {
            if self.smoothed_rtt.is_none() {
                self.stepped_at = now;
            }
            self.smoothed_rtt = Some(feedback.rtt.smoothed().as_secs_f64().max(1e-6));
        }
        if feedback
            .lost
            .iter()
            .any(|packet| packet.packet_number >= self.cluster_ends_with)
        {
            self.back_off(now);
        } else if let Some(smoothed_rtt) = self.smoothed_rtt
            && self.stepped_at + Duration::from_secs_f64(smoothed_rtt) <= now
        {
            self.step(now, smoothed_rtt);
        }
        let rate = self.rate_of(self.fine_gap()).bits_per_second() as f64 / 8.0;
        self.rate_use.on_rate(now, rate);
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        if cause != Timeout::Own {
            self.back_off(now);
        }
    }

    fn control(&self) -> ControlParameters {
        ControlParameters {
            pacing_rate: Some(self.rate_of(self.fine_gap())),
            ..ControlParameters::of(self.rate_of(self.gap))
        }
    }

    /// Requests a report of every packet (§III-A).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule::EVERY_PACKET
    }

    fn state(&self) -> &'static str {
        if self.is_backed_off {
            "BackOff"
        } else {
            "Increase"
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::recovery::LossDetection;
    use anabranch_units::Seed;

    use super::super::testing::{self, Bed, Link, Outcome, PACKET_BYTES, SILENCE, Source, jain};
    use super::*;
    use crate::testing::build;
    use anabranch_units::options::AlgorithmOptions;

    const RTT: Duration = Duration::from_millis(100);

    type Rig = testing::Rig<Rap>;

    impl Rig {
        /// Returns a rig that sends 20 packets of 1000 bytes per second.
        fn start(options: &str) -> Self {
            let config = ControllerConfig {
                max_packet_bytes: 1_000,
                min_rate: DataRate::from_bits_per_second(1),
                initial_rate: DataRate::from_kilobits_per_second(160),
                options: AlgorithmOptions::parse(options, OPTIONS).unwrap(),
                ..ControllerConfig::default()
            };
            let mut rig = Rig::new(Rap::new(&config), 1_000);
            rig.send(1);
            rig.ack_all_after(RTT);
            rig
        }

        /// Sends packets and gets their reports for a smoothed round trip.
        fn pass(&mut self, count: usize) {
            self.send(count);
            self.now += RTT;
            self.report(testing::Report {
                acked: count,
                rtt: Some(RTT),
                ..testing::Report::default()
            });
        }

        fn packets_per_second(&self) -> f64 {
            1.0 / self.controller.gap
        }
    }

    fn assert_near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 1e-6,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn additive_increase_is_a_packet_per_round_trip_each_round_trip() {
        let mut rig = Rig::start("");
        assert_near(rig.packets_per_second(), 20.0);
        rig.pass(2);
        assert_near(rig.packets_per_second(), 30.0);
        rig.pass(3);
        assert_near(rig.packets_per_second(), 40.0);
        rig.send(4);
        rig.now += RTT / 2;
        rig.ack(2);
        assert_near(rig.packets_per_second(), 40.0);
    }

    #[test]
    fn a_source_that_sends_less_does_not_raise_the_rate() {
        let mut rig = Rig::start("");
        for _ in 0..5 {
            rig.pass(5);
        }
        let before = rig.packets_per_second();
        rig.pass(1);
        assert_near(rig.packets_per_second(), before);
    }

    #[test]
    fn multiplicative_decrease_doubles_the_gap_once_for_a_cluster_of_losses() {
        fn lose(rig: &mut Rig) {
            rig.report(testing::Report {
                lost: 1,
                acked: 1,
                rtt: Some(RTT),
                ..testing::Report::default()
            });
        }

        let mut rig = Rig::start("");
        rig.send(6);
        lose(&mut rig);
        assert_near(rig.packets_per_second(), 10.0);
        assert_eq!(rig.controller.state(), "BackOff");
        lose(&mut rig);
        assert_near(rig.packets_per_second(), 10.0);
        rig.send(3);
        rig.now += RTT / 2;
        rig.report(testing::Report {
            lost: 4,
            acked: 1,
            rtt: Some(RTT),
            ..testing::Report::default()
        });
        assert_near(rig.packets_per_second(), 5.0);
    }

    #[test]
    fn silence_halves_the_rate_down_to_a_packet_a_second() {
        let mut rig = Rig::start("");
        for expected in [10.0, 5.0, 2.5, 1.25, 1.0, 1.0] {
            rig.controller.on_timeout(rig.now, SILENCE);
            assert_near(rig.packets_per_second(), expected);
        }
    }

    #[test]
    fn fine_grain_scales_the_gap_by_short_over_long_term_round_trips() {
        for (options, factor) in [("", 1.0), ("fine-grain=on", (100.0 + 90.0) / (100.0 + 1.0))] {
            let mut rig = Rig::start(options);
            rig.send(1);
            rig.report(testing::Report {
                acked: 1,
                rtt: Some(RTT * 2),
                ..testing::Report::default()
            });
            assert_near(rig.controller.fine_gap(), rig.controller.gap * factor);
        }
    }

    fn run(names: &[&str], seconds: u64) -> Vec<Outcome> {
        let delay = Duration::from_millis(25);
        let mut bed = Bed::new(Link::new(
            DataRate::from_megabits_per_second(10),
            delay,
            delay * 2,
        ));
        for (flow, name) in names.iter().enumerate() {
            let config = ControllerConfig {
                max_packet_bytes: PACKET_BYTES,
                seed: Seed(flow as u64),
                ..ControllerConfig::default()
            };
            let controller = build(name, &config).unwrap();
            let (from, to) = (
                Instant::from_secs(10 * flow as u64),
                Instant::from_secs(seconds),
            );
            let detection = LossDetection::PerPacket;
            bed = bed.flow(controller, Source::Greedy, detection, from, to);
        }
        bed.run(Instant::from_secs(seconds))
    }

    /// The sawtooth of a rate with a queue of one round trip turns at 1.14 of the capacity and
    /// falls to 0.57. It takes 26 round trips below the capacity to come back: near 0.88 of the
    /// link.
    #[test]
    fn the_sawtooth_alone_leaves_an_eighth_of_the_link() {
        let rate = run(&["rap"], 60)[0]
            .rate_between(20, 60)
            .megabits_per_second();
        assert!((8.3..9.3).contains(&rate), "{rate}");
    }

    #[test]
    fn two_flows_share_evenly_and_reno_is_not_starved() {
        fn shares(names: &[&str]) -> Vec<f64> {
            let flows = run(names, 120);
            let delivered = flows.iter().map(|flow| flow.delivered_between(60, 120));
            delivered.map(|bytes| bytes as f64).collect()
        }
        let two = jain(&shares(&["rap", "rap"]));
        assert!(two > 0.98, "{two}");
        let with_reno = shares(&["rap", "new-reno"]);
        let ratio = with_reno[0] / with_reno[1];
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }
}
