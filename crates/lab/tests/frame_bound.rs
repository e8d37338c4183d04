//! No run beats its own bound.

use std::path::{Path, PathBuf};

use anabranch_lab::Scenario;
use anabranch_lab::frame_bound::{FrameDelay, FrameDelays, frame_delays, main_flow};
use anabranch_units::Duration;

const SCHEDULERS: [&str; 3] = ["min-cost", "round-robin", "sfl"];

/// Returns the scenarios of many paths, in the order of their names.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/multipath");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    assert!(files.len() >= 11, "{files:?}");
    files
}

fn delays(file: &Path, scheduler: &str) -> FrameDelays {
    let scheduler = format!("flow-defaults.scheduler={scheduler}");
    let scenario = Scenario::load(file, &[scheduler]).unwrap_or_else(|error| panic!("{error}"));
    let flow = main_flow(&scenario).expect("a camera");
    frame_delays(&scenario, flow, 1).unwrap()
}

fn mean_ms(delays: &FrameDelays, of: fn(&FrameDelay) -> Duration) -> f64 {
    let sum: Duration = delays.frames.iter().map(of).sum();
    sum.as_millis_f64() / delays.frames.len() as f64
}

// The bound does not hold frame by frame: frames that are given up leave their time to later ones,
// and occasionally one overtakes another.
#[test]
fn the_95th_percentile_and_the_mean_of_all_frames_are_never_below_the_bounds() {
    for file in files() {
        for scheduler in SCHEDULERS {
            let delays = delays(&file, scheduler);
            let name = format!("{} {scheduler}", file.display());
            assert!(
                !delays.has_cross_traffic && delays.frames.len() > 100,
                "{name}"
            );
            let (actual, bound) = (delays.actual_p95().unwrap(), delays.bound_p95().unwrap());
            assert!(actual >= bound, "{name}: {actual} {bound}");
            let actual = mean_ms(&delays, |frame| frame.actual);
            let bound = mean_ms(&delays, |frame| frame.bound);
            assert!(actual >= bound, "{name}: {actual} {bound}");
        }
    }
}

#[test]
fn no_frame_beats_the_fluid_and_parts_add_up() {
    for file in files() {
        for scheduler in SCHEDULERS {
            for frame in delays(&file, scheduler).frames {
                let name = format!("{} {scheduler} {frame:?}", file.display());
                assert!(frame.alone <= frame.actual.min(frame.bound), "{name}");
                let parts = frame.parts;
                assert!(
                    parts.is_none_or(|parts| parts.sum() == frame.actual),
                    "{name}"
                );
            }
        }
    }
}
