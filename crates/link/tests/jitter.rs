//! Jitter against RFC 8868 §3.1.

use anabranch_link::{
    Delay, Element, JitterAmount, JitterModel, JitterOrder, JitterShape, LinkConfig,
    LinkConfigError, Packet, Schedule,
};
use anabranch_units::{Duration, Instant, Seed};

use crate::support::quantities::{at_ms, megabits, ms};

/// Returns the delay of each of `count` packets of 1250 bytes over a line of 50 ms, in milliseconds
/// and in the order of leaving, with its number; one enters each `interval`.
fn delays(model: JitterModel, interval: Duration, count: u64) -> Vec<(u64, f64)> {
    fn drain(line: &mut Delay, until: Instant, left: &mut Vec<(u64, f64)>, interval: Duration) {
        while let Some(at) = line.next_at().filter(|at| *at <= until) {
            let packet = line.pop(at).expect("due");
            let entered_at = Instant::ZERO + interval * packet.id;
            left.push((packet.id, (at - entered_at).as_millis_f64()));
        }
    }

    let rate = Schedule::constant(megabits(10));
    let mut line = Delay::with_jitter(Schedule::constant(ms(50)), model, rate, Seed(1));
    let (mut left, mut earliest_exits) = (Vec::new(), Vec::new());
    for id in 0..count {
        let now = Instant::ZERO + interval * id;
        drain(&mut line, now, &mut left, interval);
        earliest_exits.push((line.earliest_exit(now) - Instant::ZERO).as_millis_f64());
        let packet = Packet {
            id,
            ..Packet::of_size(1_250)
        };
        assert!(line.push(now, packet).is_ok());
    }
    drain(&mut line, Instant::FAR_FUTURE, &mut left, interval);
    // The time until which a chain sleeps.
    for (id, delay) in &left {
        let exit_at = (interval * *id).as_millis_f64() + delay;
        assert!(exit_at > earliest_exits[*id as usize] - 1e-6, "{id}");
    }
    left
}

/// Returns the recommended deviation, cut elsewhere or of another shape.
fn normal(max_deviations: f64, shape: JitterShape) -> JitterModel {
    JitterModel {
        amount: JitterAmount::Normal {
            std: ms(5),
            max_deviations,
            shape,
        },
        ..JitterModel::default()
    }
}

fn mean_and_deviation(delays: &[(u64, f64)]) -> (f64, f64) {
    let count = delays.len() as f64;
    let mean = delays.iter().map(|(_, delay)| delay).sum::<f64>() / count;
    let variance = delays
        .iter()
        .map(|(_, delay)| (delay - mean) * (delay - mean))
        .sum::<f64>()
        / count;
    (mean, variance.sqrt())
}

fn is_in_order(delays: &[(u64, f64)]) -> bool {
    delays.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

#[test]
fn around_the_delay_it_has_the_asked_mean_deviation_and_bounds() {
    // Packets too far apart to meet.
    let delays = delays(JitterModel::default(), ms(40), 100_000);
    let (mean, deviation) = mean_and_deviation(&delays);
    assert!((mean - 50.0).abs() < 0.05, "{mean}");
    assert!((deviation / 5.0 - 1.0).abs() < 0.02, "{deviation}");
    assert!(
        delays
            .iter()
            .all(|(_, delay)| (35.0..=65.0).contains(delay))
    );
    // Values beyond the bounds are moved to the bounds: 0.27 % of a normal distribution.
    let cut = delays
        .iter()
        .filter(|(_, delay)| (delay - 50.0).abs() == 15.0);
    let share = cut.count() as f64 / delays.len() as f64;
    assert!((share - 0.002_7).abs() < 0.000_6, "{share}");
}

#[test]
fn folded_it_only_delays() {
    let model = normal(3.0, JitterShape::Folded);
    let delays = delays(model, ms(40), 100_000);
    let (mean, deviation) = mean_and_deviation(&delays);
    // A half-normal distribution: mean σ √(2/π), deviation σ √(1 - 2/π).
    assert!(((mean - 50.0) / 3.989 - 1.0).abs() < 0.02, "{mean}");
    assert!((deviation / 3.014 - 1.0).abs() < 0.02, "{deviation}");
    assert!(
        delays
            .iter()
            .all(|(_, delay)| (50.0..=65.0).contains(delay))
    );
}

#[test]
fn without_reordering_packets_keep_their_order_and_distance() {
    fn leaves((id, delay): (u64, f64), interval: Duration) -> f64 {
        (interval * id).as_millis_f64() + delay
    }

    for micros in [1_000, 1_500, 4_000, 10_000] {
        let interval = Duration::from_micros(micros);
        let delays = delays(JitterModel::default(), interval, 50_000);
        assert!(is_in_order(&delays));
        // 1250 bytes at 10 Mbit/s.
        let gaps = delays
            .windows(2)
            .map(|pair| leaves(pair[1], interval) - leaves(pair[0], interval));
        let least = gaps.fold(f64::INFINITY, f64::min);
        assert!(least > 0.999_99, "{interval}: {least}");
        // A packet never waits for others longer than the latest of them.
        assert!(
            delays
                .iter()
                .all(|(_, delay)| (35.0..65.000_1).contains(delay))
        );
    }
}

#[test]
fn packets_at_the_links_rate_all_become_as_late_as_the_latest() {
    // The model's rule as it matters to experiments: no gap, no way to catch up.
    let delays = delays(JitterModel::default(), ms(1), 50_000);
    let (_, deviation) = mean_and_deviation(&delays[25_000..]);
    assert!(deviation < 1e-6, "{deviation}");
    assert!(delays[49_999].1 > 62.0, "{}", delays[49_999].1);
}

#[test]
fn with_reordering_packets_overtake_and_vary_however_close() {
    let model = JitterModel {
        order: JitterOrder::Reordered,
        ..JitterModel::default()
    };
    let delays = delays(model, ms(1), 100_000);
    assert!(!is_in_order(&delays));
    let (mean, deviation) = mean_and_deviation(&delays);
    assert!((mean - 50.0).abs() < 0.1, "{mean}");
    assert!((deviation / 5.0 - 1.0).abs() < 0.02, "{deviation}");
    assert!(
        delays
            .iter()
            .all(|(_, delay)| (35.0..=65.0).contains(delay))
    );
    let mut ids: Vec<u64> = delays.iter().map(|(id, _)| *id).collect();
    ids.sort();
    assert!(ids.iter().copied().eq(0..100_000));
}

#[test]
fn uniform_jitter_only_delays_and_any_amount_is_as_likely() {
    let model = JitterModel {
        amount: JitterAmount::Uniform(ms(30)),
        order: JitterOrder::Reordered,
    };
    let delays = delays(model, ms(1), 100_000);
    let (mean, deviation) = mean_and_deviation(&delays);
    assert!((mean - 65.0).abs() < 0.1, "{mean}");
    // 30 / √12.
    assert!((deviation / 8.66 - 1.0).abs() < 0.01, "{deviation}");
    assert!(
        delays
            .iter()
            .all(|(_, delay)| (50.0..=80.0).contains(delay))
    );
}

#[test]
fn bunched_packets_keep_their_order_and_leave_together() {
    fn leaves((id, delay): (u64, f64)) -> f64 {
        id as f64 + delay
    }

    let model = JitterModel {
        amount: JitterAmount::Uniform(ms(30)),
        order: JitterOrder::Bunched,
    };
    let delays = delays(model, ms(1), 50_000);
    assert!(is_in_order(&delays));
    let pairs = delays.windows(2);
    let together = pairs.filter(|pair| leaves(pair[1]) - leaves(pair[0]) < 1e-6);
    let share = together.count() as f64 / delays.len() as f64;
    assert!(share > 0.5, "{share}");
    assert!(
        delays
            .iter()
            .all(|(_, delay)| (50.0..=80.0).contains(delay))
    );
}

#[test]
fn jitter_follows_a_delay_that_changes() {
    let config = LinkConfig {
        delay: ms(50),
        delay_schedule: vec![(at_ms(10_000), ms(20))],
        jitter: Some(JitterModel::default()),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    for second in 0..20 {
        let at = Instant::from_secs(second);
        assert!(link.push(at, Packet::of_size(100)).is_ok());
        let mut left_at = at;
        while link.pop(left_at).is_none() {
            left_at = link.next_at().expect("one is inside");
        }
        let expected = if second < 10 { 50.0 } else { 20.0 };
        let off = (left_at - at).as_millis_f64() - expected;
        assert!(off.abs() <= 15.0, "{second} s: {off}");
    }
}

#[test]
fn jitter_needs_a_delay_that_it_can_shorten() {
    fn with(delay: u64, shape: JitterShape) -> LinkConfig {
        LinkConfig {
            delay: ms(50),
            delay_schedule: vec![(at_ms(1_000), ms(delay))],
            jitter: Some(normal(3.0, shape)),
            ..LinkConfig::default()
        }
    }
    let error = with(14, JitterShape::ZeroMean).build(Seed(1)).err();
    let (delay, needed) = (ms(14), ms(15));
    assert_eq!(
        error,
        Some(LinkConfigError::JitterExceedsDelay { delay, needed })
    );
    assert!(with(15, JitterShape::ZeroMean).build(Seed(1)).is_ok());
    assert!(with(0, JitterShape::Folded).build(Seed(1)).is_ok());
    let mut config = with(15, JitterShape::ZeroMean);
    config.jitter = Some(normal(f64::NAN, JitterShape::ZeroMean));
    assert!(matches!(
        config.build(Seed(1)).err(),
        Some(LinkConfigError::JitterDeviations(_))
    ));
}
