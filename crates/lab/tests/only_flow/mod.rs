//! Scenarios of one flow, and its measurements.

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{RunOptions, Scenario, run};

pub fn scenario(text: &str, settings: &[&str]) -> Scenario {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("test.toml", text, &settings);
    scenario.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a metric of the flow, by the first seed.
pub fn measured(text: &str, settings: &[&str], metric: &str) -> f64 {
    let report = run(&scenario(text, settings), &RunOptions::seeds(1), &|_| ()).unwrap();
    let metric = METRICS.iter().find(|known| known.name == metric).unwrap();
    let value = metric.of(&report.runs[0].statistics, Subject::Flow(0));
    value.unwrap_or(f64::INFINITY)
}
