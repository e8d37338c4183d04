//! The simulator's prediction for the demo's links. A run in real time is only one sample, and
//! depends on the load of the machine.

use core::fmt::Write;

use anabranch_lab::compare::{Cell, Column, compare};
use anabranch_lab::{self as lab};
use anabranch_units::Instant;
use anyhow::Context;

use super::network::RETURN_AT;
use super::run::Plan;

/// Scenario with the demo's links and a similar camera.
const SCENARIO: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../scenarios/two-paths.toml"
));
/// Number of seeds; the simulation takes one or two seconds.
pub(super) const SEEDS: u64 = 10;
const LINKS: [&str; 4] = ["wifi", "wifi-return", "lte", "lte-return"];
const FAILING: [&str; 2] = ["wifi", "wifi-return"];

/// Returns a table for the plan without repairs and with its policy: pictures on time with the
/// outage and without it.
///
/// # Errors
/// A policy or a time that a scenario cannot have.
pub(super) fn table(plan: &Plan) -> anyhow::Result<String> {
    let columns = ["off", &plan.fec].map(|fec| Column {
        settings: vec![("flows.0.fec".to_owned(), fec.to_owned())],
        ..Column::default()
    });
    // An outage that lasts beyond the end cannot be simulated.
    let outages: &[(&str, bool)] = if plan.duration > RETURN_AT - Instant::ZERO {
        &[("with the outage", true), ("without it", false)]
    } else {
        &[("without an outage", false)]
    };
    let scenarios = outages
        .iter()
        .map(|(_, has_outage)| {
            Column::scenarios(&columns, |column| {
                let settings = [&settings(plan, *has_outage)[..], column].concat();
                lab::Scenario::parse("the demo's links", SCENARIO, &settings)
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let metrics = ["frames-decodable-on-time".to_owned()];
    let comparison = compare(&scenarios, &columns, &metrics, SEEDS, 0, &|_| {})
        .context("the demo's links in the simulator")?;
    let mut text = format!(
        "\nThe simulator, without other load, with {SEEDS} seeds (means, 95 % \
         confidence).\n\n"
    );
    for ((what, _), row) in outages.iter().zip(&comparison.rows) {
        let name = format!("  frames decodable in time, {what}");
        let cells: Vec<String> = row.cells.iter().map(share).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<42}{:>14}{:>14}", cells[0], cells[1]);
        if row.cells[1].is_different == Some(false) {
            let _ = writeln!(text, "{:<42}{:>28}", "", "may be chance");
        }
    }
    Ok(text)
}

/// Returns the plan's differences from the scenario.
fn settings(plan: &Plan, has_outage: bool) -> Vec<String> {
    let mut settings: Vec<String> = LINKS
        .map(|link| format!("links.{link}.loss={} %", plan.loss_percent))
        .into();
    settings.push(format!("duration={}", plan.duration));
    settings.push(format!("flows.0.deadline={}", plan.deadline));
    if !has_outage {
        settings.extend(FAILING.map(|link| format!("links.{link}.outages=[]")));
    }
    settings
}

fn share(cell: &Cell) -> String {
    let Some(estimate) = cell.estimate else {
        return "–".to_owned();
    };
    let half_width = estimate.half_width.unwrap_or_default() * 100.0;
    format!("{:.1} ± {half_width:.1} %", estimate.mean * 100.0)
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Seed};

    use super::*;

    /// Returns the numbers of a row of the table.
    fn row(text: &str, what: &str) -> Vec<f64> {
        let line = text.lines().find(|line| line.contains(what));
        let words = line.expect(text).split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    #[test]
    fn repairs_help_where_there_is_no_time_to_ask_again() {
        let plan = Plan {
            duration: Duration::from_secs(18),
            seed: Seed(1),
            input: None,
            output: "demo.ts".into(),
            fec: "adaptive".to_owned(),
            // A key frame of five times the usual size takes 100 ms to transmit.
            deadline: Duration::from_millis(130),
            loss_percent: 2.0,
        };
        let text = table(&plan).expect("a table");
        // Mean and interval, without and with repairs.
        let (outage, rest) = (row(&text, "with the outage"), row(&text, "without it"));
        assert!(outage.len() == 4 && rest.len() == 4, "{text}");
        assert!(rest[2] > rest[0] && outage[2] > outage[0], "{text}");
    }

    #[test]
    fn a_short_plan_has_no_outage_that_lasts_beyond_it() {
        let plan = Plan {
            duration: Duration::from_secs(2),
            seed: Seed(1),
            input: None,
            output: "demo.ts".into(),
            fec: "frame".to_owned(),
            deadline: Duration::from_millis(200),
            loss_percent: 0.0,
        };
        let text = table(&plan).expect("a table");
        assert!(text.contains("100.0 ± 0.0 %"), "{text}");
        assert!(!text.contains("with the outage"), "{text}");
    }
}
