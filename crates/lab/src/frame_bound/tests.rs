//! Frames of short runs, and statistics of frames.

use super::*;
use crate::report::run;
use crate::run::RunOptions;

/// Returns a scenario of a camera over Wi-Fi and a slower LTE, and of cross traffic.
fn scenario(cross_traffic: &str) -> Scenario {
    let text = r#"
duration = "8 s"
statistics = { from = "1 s" }
[links.wifi]
rate = "3 Mbit/s"
delay = "20 ms"
queue = "200 ms"
loss = "1 %"
outages = [{ at = "4 s", for = "500 ms" }]
[links.lte]
rate = "2 Mbit/s"
delay = "50 ms"
queue = "300 ms"
[links.back]
delay = "30 ms"
[routes.wifi]
forward = ["wifi"]
reverse = ["back"]
[routes.lte]
forward = ["lte"]
reverse = ["back"]
[routes.against]
forward = ["back"]
reverse = ["wifi"]
[routes.apart]
forward = ["back"]
reverse = ["back"]
[[flows]]
name = "camera"
paths = ["wifi", "lte"]
source = { kind = "gop", min = "300 kbit/s", max = "4 Mbit/s" }
"#;
    let text = format!("{text}{cross_traffic}");
    let scenario = Scenario::parse("test.toml", &text, &[]);
    scenario.unwrap_or_else(|error| panic!("{error}"))
}

fn frame(millis: u64, parts: Option<Parts>) -> FrameDelay {
    let actual = Duration::from_millis(millis);
    FrameDelay {
        captured_at: Instant::ZERO,
        actual,
        bound: actual / 2,
        alone: Duration::ZERO,
        parts,
    }
}

#[test]
fn the_run_is_the_usual_one_and_its_percentile_the_metrics() {
    let scenario = scenario("");
    let delays = frame_delays(&scenario, 0, 1).unwrap();
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let metric = report.runs[0].statistics.flows[0]
        .frames
        .delay_excess_of_all_ms;
    let p95 = delays.actual_p95().unwrap().as_millis_f64();
    // The metric's histogram is exact to 0.4 %.
    assert!(
        (p95 / metric.unwrap().p95 - 1.0).abs() <= 0.004,
        "{p95} {metric:?}"
    );
    let frames = &delays.frames;
    let sum: f64 = frames
        .iter()
        .map(|frame| frame.actual.as_millis_f64())
        .sum();
    let mean = sum / frames.len() as f64;
    assert!(
        (mean / metric.unwrap().mean - 1.0).abs() <= 1e-6,
        "{mean} {metric:?}"
    );
}

#[test]
fn no_frame_beats_its_bound_and_parts_add_up() {
    let delays = frame_delays(&scenario(""), 0, 1).unwrap();
    assert!(delays.frames.len() > 150);
    for frame in &delays.frames {
        assert!(frame.alone <= frame.actual, "{frame:?}");
        assert!(frame.alone <= frame.bound, "{frame:?}");
        assert!(
            frame.parts.is_none_or(|parts| parts.sum() == frame.actual),
            "{frame:?}"
        );
    }
    // Without repairs a packet completes every frame that is complete: within 500 ms, less 20.
    let deadline = Duration::from_millis(480);
    let mut complete = delays.frames.iter().filter(|frame| frame.actual < deadline);
    assert!(complete.all(|frame| frame.parts.is_some()));
}

#[test]
fn sharing_any_link_is_cross_traffic() {
    assert!(!has_cross_traffic(&scenario(""), 0));
    assert_eq!(
        ["lte", "against", "apart"].map(|route| {
            let flow =
                format!("[[flows]]\nname = \"other\"\nkind = \"bulk\"\npaths = [\"{route}\"]\n");
            has_cross_traffic(&scenario(&flow), 0)
        }),
        [true, true, false]
    );
}

#[test]
fn the_main_flow_is_the_first_of_media_over_the_most_paths() {
    let flow =
        |name: &str, paths: &str| format!("[[flows]]\nname = \"{name}\"\npaths = [{paths}]\n");
    let others = flow("other", "\"wifi\", \"lte\"") + &flow("single", "\"wifi\"");
    assert_eq!(main_flow(&scenario(&others)), Some(0));
    let wider = others + &flow("wider", "\"wifi\", \"lte\", \"apart\"");
    assert_eq!(main_flow(&scenario(&wider)), Some(3));
}

#[test]
fn the_95th_percentile_and_its_neighbourhood() {
    fn parts(millis: u64) -> Parts {
        Parts {
            sender: Duration::from_millis(millis),
            ..Parts::default()
        }
    }
    // Among 94, 95 and 96 ms the last has no parts.
    let frames = (1..=100)
        .rev()
        .map(|millis| frame(millis, (millis != 96).then(|| parts(millis))));
    let mut delays = FrameDelays {
        frames: frames.collect(),
        has_cross_traffic: false,
    };
    assert_eq!(delays.actual_p95(), Some(Duration::from_millis(95)));
    assert_eq!(delays.bound_p95(), Some(Duration::from_micros(47_500)));
    let about = delays.parts_about_p95().unwrap();
    assert_eq!(about.sender, Duration::from_micros(94_500));
    delays.has_cross_traffic = true;
    assert_eq!(delays.bound_p95(), None);
    delays.frames.clear();
    assert_eq!(
        (delays.actual_p95(), delays.parts_about_p95()),
        (None, None)
    );
}
