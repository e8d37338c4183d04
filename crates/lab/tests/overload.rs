//! Sources that give more than the paths carry: what can be decoded in time, beside what a fluid
//! would carry.

use std::path::Path;

use anabranch_lab::frame_bound::{carried_share, main_flow};
use anabranch_lab::{RunOptions, Scenario, run};

fn scenario(file: &str, key_ratio: u32) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let ratio = format!("flows.0.source.key-ratio={key_ratio}");
    Scenario::load(&folder.join(file), &[ratio]).unwrap_or_else(|error| panic!("{error}"))
}

/// The share of frames that can be decoded in time, of the worst of three seeds, over that which a
/// fluid carries, and the latest that a complete frame was.
fn of_bound(file: &str, key_ratio: u32) -> f64 {
    let scenario = scenario(file, key_ratio);
    let flow = main_flow(&scenario).expect("a camera");
    let bound = carried_share(&scenario, flow, 1).unwrap();
    assert!((0.4..0.99).contains(&bound), "{file}: {bound}");
    let report = run(&scenario, &RunOptions::seeds(3), &|_| ()).unwrap();
    let shares = report.runs.iter().map(|run| {
        let frames = &run.statistics.total.frames;
        frames.decodable_on_time_ratio.unwrap()
    });
    shares.fold(1.0, f64::min) / bound
}

#[test]
fn a_capacity_that_falls_short_for_a_while_is_used_to_93_percent() {
    // The largest key frames miss it by half a percent: the worst seed has 92.6 %.
    for (key_ratio, least) in [(1, 0.93), (5, 0.93), (8, 0.925)] {
        let share = of_bound("contest/row-6b-capacity-drop-fixed.toml", key_ratio);
        assert!(share >= least, "key frames of {key_ratio}: {share}");
    }
}

/// What the beginnings of groups of pictures lack of the fluid: key frames are paid for in each.
/// Only with key frames of the size of others is it 93 %.
#[test]
fn a_capacity_that_always_falls_short_is_used_as_well_as_the_key_frames_allow() {
    for (key_ratio, least) in [(1, 0.93), (5, 0.86), (8, 0.80)] {
        let share = of_bound("weather/overload-fixed.toml", key_ratio);
        assert!(share >= least, "key frames of {key_ratio}: {share}");
    }
}

#[test]
fn what_the_paths_carry_is_left_as_it_is() {
    let scenario = scenario("contest/row-5-uneven.toml", 1);
    assert_eq!(carried_share(&scenario, 0, 1).unwrap(), 1.0);
}
