//! Runs that their caller watches, interrupts, and extends by algorithms.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anabranch_controllers::Controller;
use anabranch_lab::trace::{FrameRow, TraceError, TraceSink, Wants};
use anabranch_lab::{
    Algorithms, Outcome, Point, RunError, RunHooks, RunOptions, Scenario, run_outcomes, run_with,
};
use anabranch_units::Duration;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-paths.toml")
}

fn scenario() -> Scenario {
    Scenario::load(
        &file(),
        &["duration=16 s".to_owned(), "expect={}".to_owned()],
    )
    .unwrap()
}

fn unwatched() -> Outcome {
    let options = RunOptions::seeds(1);
    run_outcomes(&scenario(), &options, &|_| ())
        .unwrap()
        .remove(0)
}

/// Counts frames by their outcome.
#[derive(Debug, Default)]
struct Frames {
    complete: u64,
    all: u64,
}

impl TraceSink for Frames {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn on_frame(&mut self, row: &FrameRow<'_>) -> Result<(), TraceError> {
        self.all += 1;
        self.complete += u64::from(row.outcome == "complete");
        Ok(())
    }
}

#[test]
fn a_watched_run_is_the_same_run() {
    let mut frames = Frames::default();
    let hooks = RunHooks {
        sink: Some(&mut frames),
        ..RunHooks::default()
    };
    let simulated = Mutex::new(Duration::ZERO);
    let outcome = run_with(&scenario(), 1, hooks, &|part| {
        *simulated.lock().unwrap() += part.simulated;
        ControlFlow::Continue(())
    });
    let (outcome, plain) = (outcome.unwrap(), unwatched());
    assert_eq!(outcome.trace_hash, plain.trace_hash);
    assert_eq!(outcome.statistics, plain.statistics);
    assert_eq!(frames.complete, plain.statistics.total.frames.complete);
    assert!(frames.all >= frames.complete && frames.complete > 300);
    assert_eq!(simulated.into_inner().unwrap(), Duration::from_secs(16));
}

#[test]
fn an_interrupted_run_ends_where_it_is() {
    let simulated = Mutex::new(Duration::ZERO);
    let outcome = run_with(&scenario(), 1, RunHooks::default(), &|part| {
        let mut sum = simulated.lock().unwrap();
        *sum += part.simulated;
        if *sum >= Duration::from_secs(3) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(outcome, Err(RunError::Interrupted)), "{outcome:?}");
    assert_eq!(simulated.into_inner().unwrap(), Duration::from_secs(3));
}

#[test]
fn a_callers_controller_is_known_by_its_name() {
    let own = anabranch_controllers::by_name("fixed").unwrap();
    let rate = own.rate();
    let algorithms = Algorithms {
        controllers: vec![Controller::new("mine", rate, move |config| {
            own.build(config)
        })],
        ..Algorithms::default()
    };
    let text = std::fs::read_to_string(file()).unwrap();
    let name = file().display().to_string();
    let parse = |controller: &str| {
        let overrides = [format!("flows.0.controller={controller}")];
        Point::parse_with(&name, &text, &overrides, &algorithms)
    };
    let points = parse("mine").unwrap();
    assert_eq!(points[0].scenario.flows[0].controller(), "mine");
    let error = parse("mind").unwrap_err().to_string();
    assert!(error.contains("did you mean \"mine\"?"), "{error}");
    assert!(error.contains("live-bbr"), "{error}");
    let error = parse("cubic:speed=1").unwrap_err().to_string();
    assert!(
        error.contains("cubic: ") && error.contains("speed"),
        "{error}"
    );
}
