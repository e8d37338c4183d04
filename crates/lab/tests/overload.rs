//! Sources that exceed the paths' capacity: the share that can be decoded in time, against a
//! fluid's.

use std::path::Path;

use anabranch_lab::frame_bound::{carried_share, main_flow};
use anabranch_lab::{RunOptions, Scenario, run};

fn scenario(file: &str, key_ratio: u32) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let ratio = format!("flows.0.source.key-ratio={key_ratio}");
    Scenario::load(&folder.join(file), &[ratio]).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the share of frames that can be decoded in time, on average over ten seeds, divided by
/// the share of media that a fluid carries. Single seeds differ by a percent.
fn of_bound(file: &str, key_ratio: u32) -> f64 {
    let scenario = scenario(file, key_ratio);
    let flow = main_flow(&scenario).expect("a camera");
    let bound = carried_share(&scenario, flow, 1).unwrap();
    assert!((0.4..0.99).contains(&bound), "{file}: {bound}");
    let report = run(&scenario, &RunOptions::seeds(10), &|_| ()).unwrap();
    let shares = report.runs.iter().map(|run| {
        let frames = &run.statistics.total.frames;
        frames.decodable_on_time_ratio.unwrap()
    });
    let count = shares.len() as f64;
    shares.sum::<f64>() / count / bound
}

#[test]
fn a_capacity_that_falls_short_for_a_while_is_used_to_93_percent() {
    for key_ratio in [1, 5, 8] {
        let share = of_bound("contest/row-6b-capacity-drop-fixed.toml", key_ratio);
        assert!(share >= 0.93, "key frames of {key_ratio}: {share}");
    }
}

/// Every group of pictures needs its whole key frame. With one of eight times the size of the
/// others, 50 pictures a group and 72 % carried, that leaves no more than 0.72 - 0.28 · 7/50 of the
/// frames: 94.6 % of the fluid's share.
#[test]
fn a_capacity_that_always_falls_short_is_used_to_93_percent() {
    for (key_ratio, least) in [(1, 0.93), (5, 0.93), (8, 0.93 * 0.946)] {
        let share = of_bound("weather/overload-fixed.toml", key_ratio);
        assert!(share >= least, "key frames of {key_ratio}: {share}");
    }
}

#[test]
fn a_load_within_capacity_is_untouched() {
    let scenario = scenario("contest/row-5-uneven.toml", 1);
    assert_eq!(carried_share(&scenario, 0, 1).unwrap(), 1.0);
}
