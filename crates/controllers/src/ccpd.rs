//! `ccpd`: Capacity and Congestion Probing with a derivative term (Cavendish et al., 2011).
//!
//! cwnd = Kp (B - x - f) + Kd' [(x + f) of the last sample - (x + f)], with the backlog x and the
//! packets in flight f. The derivative damps the oscillation of CCP. Losses do not move the window.
//!
//! Everything but the law is CCP's (`ccp.rs`). The gains are not published with the law.
//!
//! Deviations and decisions:
//! 1. Kp = 0.5: f follows the window, so that Kp must lie below 1.
//! 2. B is chosen so that the fixed point, (1 + Kp) cwnd = Kp (B - x), leaves a queue of phi = 1/4
//!    of the buffer Q beyond the pipe P: B = (1 + Kp) (P + phi Q) / Kp + phi Q.
//! 3. The derivative is sampled once per quarter of a smoothed round trip with the dimensionless
//!    gain Kd' = Kd / Δt = 0.25, and holds until the next sample.
//!
//! With these gains it suits one or two flows per bottleneck. The queue grows with the number of
//! flows until it overflows, and only CCP's safety yields to losses.

use anabranch_core::control::{CongestionController, ControllerConfig};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{Duration, Instant};

use super::ccp::{Law, PathModel, Probing};

/// Derivative samples per round trip.
const SAMPLES_PER_ROUND_TRIP: f64 = 4.0;

const GAIN: AlgorithmOption =
    AlgorithmOption::number("kp", "Kp, the gain of the free storage", 0.5, 0.01..=2.0);
const DERIVATIVE_GAIN: AlgorithmOption = AlgorithmOption::number(
    "kd",
    "Kd / Δt, the gain of the fall of backlog and flight since the last sample",
    0.25,
    0.0..=2.0,
);
const QUEUE_SHARE: AlgorithmOption = AlgorithmOption::number(
    "phi",
    "the part of the buffer to be filled",
    0.25,
    0.0..=1.0,
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[GAIN, DERIVATIVE_GAIN, QUEUE_SHARE];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(probing(config))
}

fn probing(config: &ControllerConfig) -> Probing<ProportionalDerivative> {
    let law = ProportionalDerivative {
        gain: config.options.number(&GAIN),
        derivative_gain: config.options.number(&DERIVATIVE_GAIN),
        queue_share: config.options.number(&QUEUE_SHARE),
        sample: None,
        derivative: 0.0,
    };
    Probing::new(config, law, true)
}

#[derive(Debug)]
struct ProportionalDerivative {
    /// `Kp`.
    gain: f64,
    /// `Kd / Δt`.
    derivative_gain: f64,
    /// `phi`.
    queue_share: f64,
    /// Time of the last sample, and `x + f` at that time.
    sample: Option<(Instant, f64)>,
    /// The derivative term, in segments.
    derivative: f64,
}

impl Law for ProportionalDerivative {
    fn window(&mut self, now: Instant, path: &PathModel, round_trip: f64, in_flight: f64) -> f64 {
        let pipe = path.pipe();
        let queue = self.queue_share * (path.storage() - pipe);
        let storage = (1.0 + self.gain) * (pipe + queue) / self.gain + queue;
        let used = path.backlog() + in_flight;
        let spacing = Duration::from_secs_f64(round_trip / SAMPLES_PER_ROUND_TRIP);
        match self.sample {
            Some((at, _)) if now.saturating_since(at) < spacing => {}
            previous => {
                let change = previous.map_or(0.0, |(_, previous)| previous - used);
                self.derivative = self.derivative_gain * change;
                self.sample = Some((now, used));
            }
        }
        self.gain * (storage - used) + self.derivative
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::super::testing::beds::{mean_and_deviation, segment_config, t1};
    use super::super::testing::{Report, Rig};
    use super::*;

    type Ccpd = Rig<Probing<ProportionalDerivative>>;

    /// Returns a controller past slow start, on a path of 1000 segments/s that holds 100 segments
    /// in its pipe and as many in its buffer, after a sample of x + f = 80.
    fn on_a_known_path() -> Ccpd {
        let mut rig = Rig::of_segments(probing(&segment_config()));
        rig.send(2);
        for micros in [0, 1_000] {
            rig.report(Report {
                acked: 1,
                rtt: Some(Duration::from_millis(100)),
                received_at: Some(Instant::from_micros(micros)),
                ..Report::default()
            });
        }
        rig.send(1);
        rig.hear(0, 1, 200);
        rig.send(82);
        // The loss ends slow start.
        rig.hear(1, 1, 100);
        rig
    }

    #[test]
    fn the_proportional_part_is_of_storage_less_backlog_and_flight() {
        let mut rig = on_a_known_path();
        let (now, path, law) = (rig.now, &rig.controller.path, &mut rig.controller.law);
        assert_eq!(
            (path.pipe(), path.storage(), law.derivative),
            (100.0, 200.0, 0.0)
        );
        // B = 1.5 × 125 / 0.5 + 25 = 400: [400 - 0 - 80] / 2.
        assert_eq!(law.window(now, path, 0.1, 80.0), 160.0);
        assert_eq!(law.window(now, path, 0.1, 100.0), 150.0);
    }

    #[test]
    fn the_derivative_is_sampled_four_times_a_round_trip() {
        fn after(millis: u64, now: Instant) -> Instant {
            now + Duration::from_millis(millis)
        }

        let mut rig = on_a_known_path();
        let (now, path, law) = (rig.now, &rig.controller.path, &mut rig.controller.law);
        law.window(after(24, now), path, 0.1, 100.0);
        assert_eq!(law.derivative, 0.0);
        assert_eq!(law.window(after(25, now), path, 0.1, 100.0), 150.0 - 5.0);
        assert_eq!(
            law.window(after(49, now), path, 0.1, 60.0),
            170.0 - 5.0,
            "it holds"
        );
        assert_eq!(law.window(after(50, now), path, 0.1, 60.0), 170.0 + 10.0);
    }

    #[test]
    fn the_fixed_point_leaves_a_quarter_of_the_buffer_filled() {
        let mut rig = on_a_known_path();
        rig.send(1);
        rig.hear(0, 1, 125);
        let (path, law) = (&rig.controller.path, &mut rig.controller.law);
        assert_eq!(path.backlog(), 25.0);
        law.derivative_gain = 0.0;
        let later = rig.now + Duration::from_secs(1);
        assert_eq!(law.window(later, path, 0.1, 125.0), 125.0);
    }

    #[test]
    fn property_a_flow_alone_settles_at_a_quarter_of_the_buffer_without_noise() {
        for queue in [1.0, 5.0] {
            let flow = t1(queue).greedy("ccpd", 0).run_secs(60).remove(0);
            let expected = 0.25 * queue * 60.7;
            let backlog = flow.t1_backlog(20, 60);
            assert!(
                (backlog / expected - 1.0).abs() < 0.1,
                "{backlog} for {expected}"
            );
            assert_eq!(flow.dropped_between(5, 60), 0);
            let windows = t1(queue).greedy("ccpd", 0).windows(20, 60).remove(0);
            let (mean, deviation) = mean_and_deviation(&windows);
            assert!(deviation < 0.1 * mean, "{deviation} about {mean}");
        }
    }

    /// Returns how often the window crosses its settled mean by half a segment in the first ten
    /// seconds.
    fn crossings(name: &str) -> usize {
        let settled = mean_and_deviation(&t1(1.0).greedy(name, 0).windows(20, 60)[0]).0;
        let windows = t1(1.0).greedy(name, 0).windows(0, 10).remove(0);
        let distances = windows.iter().map(|window| window - settled);
        let far: Vec<f64> = distances.filter(|distance| distance.abs() > 0.5).collect();
        far.windows(2)
            .filter(|pair| pair[0] * pair[1] < 0.0)
            .count()
    }

    #[test]
    fn property_it_settles_with_fewer_swings_than_ccp() {
        let (with, without) = (crossings("ccpd"), crossings("ccp"));
        assert!(with < without, "{with}, {without}");
    }

    #[test]
    fn property_random_loss_does_not_move_the_window() {
        fn mean(loss_ratio: f64) -> f64 {
            let bed = t1(0.5).random_loss(loss_ratio, Seed(1));
            mean_and_deviation(&bed.greedy("ccpd", 0).windows(20, 60)[0]).0
        }
        let (without, with) = (mean(0.0), mean(0.01));
        assert!((with / without - 1.0).abs() < 0.05, "{with}, {without}");
    }

    #[test]
    fn property_two_flows_fill_the_buffer() {
        // 3 W = 4 P - q and 2 W = P + q, with a buffer as large as the pipe P: q = P.
        let flows = t1(1.0).greedy("ccpd", 0).greedy("ccpd", 0).run_secs(60);
        let backlog = flows[0].t1_backlog(20, 60);
        assert!((0.85..1.0).contains(&(backlog / 60.7)), "{backlog}");
    }
}
