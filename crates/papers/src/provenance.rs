//! Provenance of verdicts: scenario, command and hash of each run.

use anabranch_lab::{Chart, Scenario, Shade};
use serde::Serialize;

use super::case::{Algorithms, Case};

/// Commit of the program, if it was built from a repository in the release profile.
pub const COMMIT: Option<&str> = option_env!("ANABRANCH_COMMIT");

/// A run that a claim was judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunProvenance {
    /// The claim's name for the run.
    pub case: String,
    /// Command that repeats it with its first seed.
    pub command: String,
    /// Whether the command repeats it exactly. If not, `reproduce` makes a change that no setting
    /// can make.
    pub is_exact: bool,
    /// Hash of all events with the first seed, as `anabranch-lab run` prints it.
    pub trace_hash: String,
}

/// A command that repeats a case, and whether it does so exactly.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) text: String,
    pub(super) is_exact: bool,
}

fn with_bare_endpoint(settings: &[String]) -> Vec<String> {
    let mut settings = settings.to_vec();
    settings.push("flow-defaults.endpoint=bare".to_owned());
    settings
}

impl Command {
    /// Returns the command for a case that its form has changed to `scenario`.
    pub(super) fn new(case: &Case, algorithms: &Algorithms, scenario: &Scenario) -> Command {
        let published: Vec<String> = case
            .settings
            .iter()
            .map(|setting| algorithms.published_setting(setting))
            .collect();
        let candidates = [
            case.settings.clone(),
            with_bare_endpoint(&case.settings),
            published.clone(),
            with_bare_endpoint(&published),
        ];
        let exact = candidates.into_iter().find(|settings| {
            let repeated = Case {
                settings: settings.clone(),
                ..case.clone()
            };
            repeated.scenario().is_ok_and(|other| other == *scenario)
        });
        let is_exact = exact.is_some();
        let settings = exact.unwrap_or_else(|| case.settings.clone());
        let mut text = format!("anabranch-lab run scenarios/{}", case.file);
        for setting in &settings {
            let setting = setting.replace('\'', "'\\''");
            text.push_str(&format!(" --set '{setting}'"));
        }
        Command { text, is_exact }
    }
}

/// Shades outages in pictures over time, if all scenarios of a claim have the same.
pub(super) fn shade_outages<'a>(
    charts: &mut [Chart],
    scenarios: impl Iterator<Item = &'a Scenario>,
) {
    let mut outages = scenarios.map(outages);
    let Some(first) = outages.next() else {
        return;
    };
    if first.is_empty() || outages.any(|other| other != first) {
        return;
    }
    for chart in charts {
        if let Chart::Lines(lines) = chart
            && lines.x.starts_with("time")
            && lines.shades.is_empty()
        {
            lines.shades.clone_from(&first);
        }
    }
}

/// Returns the outages of a scenario's links. Simultaneous outages of both directions of a route
/// count once.
fn outages(scenario: &Scenario) -> Vec<Shade> {
    let mut shades: Vec<Shade> = Vec::new();
    for link in &scenario.links {
        for (at, length) in &link.config.outages {
            let shade = Shade {
                from: at.as_secs_f64(),
                to: (*at + *length).as_secs_f64(),
                label: format!("{} out", link.name),
            };
            if shades
                .iter()
                .all(|other| (other.from, other.to) != (shade.from, shade.to))
            {
                shades.push(shade);
            }
        }
    }
    shades
}
