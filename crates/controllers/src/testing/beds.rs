//! Test beds of the window controllers: links of 10 Mbit/s, most with a round trip of 50 ms, and a
//! rig in segments.

use anabranch_core::control::{CongestionController, ControllerConfig};
use anabranch_core::recovery::LossDetection;
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::{Bed, Link, Outcome, PACKET_BYTES, Report, Rig, Source, jain};
use crate::testing::build;

pub(crate) const MEGABITS: u64 = 10;

fn secs(seconds: usize) -> Instant {
    Instant::from_secs(seconds as u64)
}

/// Returns a link by its round trip in milliseconds and its queue in bandwidth-delay products.
pub(crate) fn link(round_trip_millis: u64, queue: f64) -> Link {
    let round_trip = Duration::from_millis(round_trip_millis);
    let rate = DataRate::from_megabits_per_second(MEGABITS);
    Link::new(rate, round_trip / 2, round_trip.mul_f64(queue))
}

/// Returns bed T1: 50 ms.
pub(crate) fn t1(queue: f64) -> Bed {
    Bed::new(link(50, queue))
}

impl Bed {
    /// Adds a greedy flow of `name` from that second on.
    pub(crate) fn greedy(self, name: &str, from: usize) -> Self {
        let config = ControllerConfig {
            max_packet_bytes: PACKET_BYTES,
            seed: Seed(self.flows.len() as u64),
            ..ControllerConfig::default()
        };
        let controller = build(name, &config).unwrap();
        let loss = LossDetection::PerPacket;
        self.flow(
            controller,
            Source::Greedy,
            loss,
            secs(from),
            Instant::FAR_FUTURE,
        )
    }

    /// Runs for `seconds`.
    pub(crate) fn run_secs(self, seconds: usize) -> Vec<Outcome> {
        self.run(secs(seconds))
    }

    /// Runs for `seconds`; returns every flow's windows in packets, after each report since `from`.
    pub(crate) fn windows(self, from: usize, seconds: usize) -> Vec<Vec<f64>> {
        let mut windows = vec![Vec::new(); self.flows.len()];
        self.run_observed(secs(seconds), |now, flow, controller| {
            if now >= secs(from) {
                let window = controller.control().congestion_window.unwrap();
                windows[flow].push(window as f64 / f64::from(PACKET_BYTES));
            }
        });
        windows
    }
}

impl Outcome {
    /// Returns the rate as a share of 10 Mbit/s.
    pub(crate) fn utilisation(&self, from: usize, to: usize) -> f64 {
        self.rate_between(from, to).megabits_per_second() / MEGABITS as f64
    }

    /// Returns the mean backlog in packets over a path of 50 ms: the delay beyond the empty path.
    pub(crate) fn t1_backlog(&self, from: usize, to: usize) -> f64 {
        let rate = DataRate::from_megabits_per_second(MEGABITS);
        let transmission = rate.time_for(PACKET_BYTES.into());
        let empty = Duration::from_millis(25) + transmission;
        let waiting = self.one_way_delay_between(from, to).saturating_sub(empty);
        waiting.as_secs_f64() / transmission.as_secs_f64()
    }
}

/// Returns mean and standard deviation.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (mean, (squares / count).sqrt())
}

/// Returns T2: Jain's index over the second minute of two flows, the second of which starts at 10
/// s.
pub(crate) fn t2_jain(name: &str) -> f64 {
    let flows = t1(1.0).greedy(name, 0).greedy(name, 10).run_secs(120);
    let shares: Vec<f64> = flows
        .iter()
        .map(|flow| flow.delivered_between(60, 120) as f64)
        .collect();
    jain(&shares)
}

/// Returns T5: the ratio of the rates of `name` and `other` over the second minute of two.
pub(crate) fn t5_ratio(link: Link, name: &str, other: &str) -> f64 {
    let flows = Bed::new(link)
        .greedy(name, 0)
        .greedy(other, 0)
        .run_secs(120);
    let [mine, others] = [0, 1].map(|flow: usize| flows[flow].delivered_between(60, 120) as f64);
    mine / others
}

/// Returns T6: the rates of four flows over the last 200 of 240 s, whose empty paths take 20, 50,
/// 100 and 200 ms, and their round trips with the queue.
pub(crate) fn t6(name: &str) -> [(f64, f64); 4] {
    let mut bed = Bed::new(link(50, 1.0));
    bed.link.delay = Duration::from_millis(10);
    for one_way_millis in [0, 15, 40, 90] {
        bed = bed.greedy(name, 0);
        bed = bed.extra_delay(Duration::from_millis(one_way_millis));
    }
    let flows = bed.run_secs(240);
    core::array::from_fn(|flow| {
        let back = Duration::from_millis([10, 25, 50, 100][flow]);
        let round_trip = flows[flow].one_way_delay_between(40, 240) + back;
        let rate = flows[flow].rate_between(40, 240);
        (rate.megabits_per_second(), round_trip.as_secs_f64())
    })
}

/// Returns `factor` × MSS / (R √p) as a share of 10 Mbit/s, with p = 1 % and the round trip that a
/// flow over 50 ms saw from 20 s on.
pub(crate) fn mathis_utilisation(factor: f64, flow: &Outcome) -> f64 {
    let round_trip = flow.one_way_delay_between(20, 200) + Duration::from_millis(25);
    let megabits = f64::from(PACKET_BYTES) * 8e-6 / round_trip.as_secs_f64();
    factor * megabits / 0.01_f64.sqrt() / MEGABITS as f64
}

/// Bytes of a segment of the rig.
pub(crate) const SEGMENT: u32 = 1_000;

/// Returns the default configuration with these segments.
pub(crate) fn segment_config() -> ControllerConfig {
    ControllerConfig {
        max_packet_bytes: SEGMENT,
        ..ControllerConfig::default()
    }
}

impl<C: CongestionController> Rig<C> {
    /// Returns a rig over a path of 100 ms.
    pub(crate) fn of_segments(controller: C) -> Self {
        let mut rig = Rig::new(controller, SEGMENT);
        rig.rtt.on_sample(Instant::ZERO, Duration::from_millis(100));
        rig
    }

    /// Plays one report: the oldest packets are lost, the next oldest acknowledged after
    /// `rtt_millis`.
    pub(crate) fn hear(&mut self, lost: usize, acked: usize, rtt_millis: u64) {
        self.report(Report {
            lost,
            acked,
            rtt: Some(Duration::from_millis(rtt_millis)),
            ..Report::default()
        });
    }

    /// Plays a round trip of a full window, a report for each packet.
    pub(crate) fn round(&mut self, rtt_millis: u64) {
        self.now += Duration::from_millis(rtt_millis);
        self.fill();
        for _ in 0..self.flying.len() {
            self.hear(0, 1, rtt_millis);
        }
    }

    /// Sends until the window is full.
    pub(crate) fn fill(&mut self) {
        let room = self.window_segments() as usize;
        self.send(room.saturating_sub(self.flying.len()));
    }

    pub(crate) fn window_segments(&self) -> f64 {
        let window = self.controller.control().congestion_window.unwrap();
        window as f64 / f64::from(SEGMENT)
    }
}
