use super::*;

/// A link whose rate changes at 20 s, two flows of media over it, one of which starts at 30 s and
/// pauses from 40 to 50 s, and raw traffic in the return direction that stops at 55 s.
const TEXT: &str = r#"
duration = "60 s"
links.up = { rate = "2 Mbit/s", rate-schedule = [{ at = "20 s", rate = "1 Mbit/s" }] }
links.down = { rate = "2 Mbit/s" }
routes.there = { forward = ["up"], reverse = ["down"] }
routes.back = { forward = ["down"], reverse = ["up"] }

[[flows]]
name = "first"
paths = ["there"]

[[flows]]
name = "second"
paths = ["there"]
start = "30 s"
pauses = [{ at = "40 s", for = "10 s" }]

[[flows]]
name = "raw"
kind = "cbr"
rate = "1 Mbit/s"
rate-schedule = [{ at = "55 s", rate = "0" }]
paths = ["back"]
"#;

fn scenario() -> Scenario {
    Scenario::parse("phases", TEXT, &[]).unwrap()
}

/// Returns the phases of a flow of the scenario that receives `kilobits` kbit/s at a time in ms.
fn phases(flow: usize, window: &Window, kilobits: impl Fn(u64) -> u64) -> Vec<Phase> {
    let scenario = scenario();
    let mut series = RateSeries::default();
    for at in (0..60_000).step_by(10) {
        let bytes = (kilobits(at) * 10 / 8) as u32;
        series.record_received(Instant::from_millis(at), bytes);
    }
    let spec = &scenario.flows[flow];
    let span = (spec.start, Instant::from_secs(60));
    Changes::of(&scenario).phases(&scenario, spec, &series, window, span)
}

fn spans(phases: &[Phase]) -> Vec<(f64, f64)> {
    phases
        .iter()
        .map(|phase| (phase.from_s, phase.to_s))
        .collect()
}

const WHOLE: Window = Window {
    from: Instant::ZERO,
    to: Instant::from_secs(60),
    outside: None,
};

#[test]
fn a_phase_ends_where_a_rate_or_the_company_changes() {
    let expected = [
        (0.0, 20.0),
        (20.0, 30.0),
        (30.0, 40.0),
        (40.0, 50.0),
        (50.0, 55.0),
        (55.0, 60.0),
    ];
    assert_eq!(spans(&phases(0, &WHOLE, |_| 800)), expected);
    // Pauses of the flow itself do not count.
    let expected = [(30.0, 40.0), (50.0, 55.0), (55.0, 60.0)];
    assert_eq!(spans(&phases(1, &WHOLE, |_| 800)), expected);
}

#[test]
fn a_phase_lies_within_the_window_and_lasts_five_seconds() {
    let window = Window {
        from: Instant::from_secs(16),
        to: Instant::from_secs(39),
        outside: Some((Instant::from_secs(30), Instant::from_secs(32))),
    };
    let expected = [(20.0, 30.0), (32.0, 39.0)];
    assert_eq!(spans(&phases(0, &window, |_| 800)), expected);
}

#[test]
fn each_change_has_a_convergence_time_of_its_own() {
    // 1.6 Mbit/s; after the change at 20 s three seconds of 400 and then 800 kbit/s: 600, which is
    // 25 % less, is the mean over a second when half of it is 800; from 30 s on it swings.
    let found = phases(0, &WHOLE, |at| match at {
        0..20_000 => 1_600,
        20_000..23_000 => 400,
        23_000..30_000 => 800,
        _ if at % 4_000 < 2_000 => 1_600,
        _ => 200,
    });
    let times: Vec<Option<f64>> = found
        .iter()
        .map(|phase| phase.convergence_time_ms)
        .collect();
    assert_eq!(times[..2], [Some(0.0), Some(3_400.0)]);
    assert_eq!(times[2..4], [None, None]);
    let three = &found[..3];
    assert_eq!(
        Phase::mean_ms(three),
        Some((0.0 + 3_400.0 + 10_000.0) / 3.0)
    );
    assert_eq!(Phase::longest_ms(three), Some(10_000.0));
    assert_eq!(Phase::settled_share(three), Some(2.0 / 3.0));
    assert_eq!(
        (
            Phase::mean_ms(&[]),
            Phase::longest_ms(&[]),
            Phase::settled_share(&[])
        ),
        (None, None, None)
    );
}
