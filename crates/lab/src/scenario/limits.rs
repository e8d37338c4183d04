//! Limits of a run, so that a stranger's scenario takes neither all memory nor all time. A file
//! lowers them; only an override raises them.

use anabranch_sim::Limits;
use anabranch_units::Duration;

use super::error::Place;
use super::node::Node;
use super::reader::{Read, Table, integer, positive_duration};
use super::shape::{Key, Shape};

/// The table of a file.
pub(super) const KEY: &str = "limits";

/// Keys of the table.
pub(super) const KEYS: &[Key] = &[
    Key::new("steps", Shape::Integer(1, i64::MAX), "most steps of a run"),
    Key::new(
        "packets-in-flight",
        Shape::Integer(1, i64::MAX),
        "most packets in flight",
    ),
];

/// Limits without an override.
const USUAL: Limits = Limits {
    // Measured: 3 to 10 minutes of one core. A minute of 4 Mbit/s takes about 100,000.
    steps: 300_000_000,
    // 1.5 GB of long packets; 100 Gbit/s over 100 ms have 833,000.
    packets_in_flight: 1_000_000,
};
/// Most steps of all points of a sweep together, per seed: some hours of one core.
const STEPS_OF_SWEEP: u64 = 10_000_000_000;
/// Longest run without an override (chosen). Its recorders stop up to ten times a second.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Reads the limits of a run.
pub(super) fn limits(node: Option<&Node>) -> Read<Limits> {
    let Some(node) = node else { return Ok(USUAL) };
    let table = Table::of(node, KEYS)?;
    Ok(Limits {
        steps: limit(&table, "steps", USUAL.steps)?,
        packets_in_flight: limit(&table, "packets-in-flight", USUAL.packets_in_flight)?,
    })
}

fn limit(table: &Table<'_>, key: &str, usual: u64) -> Read<u64> {
    table.or(key, usual, |node| {
        let value = integer(node, 1..=i64::MAX)?.cast_unsigned();
        checked(node, &usual.to_string(), value <= usual)?;
        Ok(value)
    })
}

/// Returns the limits of each of several points, unless an override has raised them.
pub(super) fn shared(limits: Limits, point_count: usize) -> Limits {
    if limits.steps > USUAL.steps {
        return limits;
    }
    let share = STEPS_OF_SWEEP / point_count.max(1) as u64;
    Limits {
        steps: limits.steps.min(share),
        ..limits
    }
}

/// Reads the duration of a run.
pub(super) fn duration(node: &Node) -> Read<Duration> {
    let duration = positive_duration(node)?;
    checked(node, "a week", duration <= LONGEST)?;
    Ok(duration)
}

/// Refuses a value of a file above the usual limit.
fn checked(node: &Node, usual: &str, is_below: bool) -> Read<()> {
    if is_below || matches!(node.place, Place::Override(_)) {
        return Ok(());
    }
    Err(node.mistake(format!(
        "more than {usual}: no file has more than that, but `--set` can"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunError, RunOptions, run_outcomes};
    use crate::scenario::{Point, Scenario, ScenarioError};

    /// A run of 30 s with `link` and `flow`, and its limits.
    fn scenario(link: &str, flow: &str, overrides: &[&str]) -> Result<Scenario, ScenarioError> {
        let text = format!(
            "duration = \"30 s\"\nlinks.l = {{ {link} }}\n\
             routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n\
             limits = {{ steps = 200000, packets-in-flight = 20000 }}\n\
             [[flows]]\npaths = [\"r\"]\n{flow}\n"
        );
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Scenario::parse("strangers.toml", &text, &overrides)
    }

    #[test]
    fn a_run_without_end_or_memory_stops_at_a_limit() {
        let raw = "kind = \"cbr\"\nrate = \"100 Gbit/s\"\nsize = \"29 B\"";
        let live = "kind = \"media\"\nsource = { kind = \"ideal\", fps = 1000, \
                    min = \"1 Gbit/s\", max = \"9 Gbit/s\" }";
        for (link, flow, limit) in [
            ("delay = \"1 us\"", raw, "steps"),
            ("delay = \"10 s\"", raw, "packets in flight"),
            ("rate = \"1 bit/s\"", raw, "packets in flight"),
            ("delay = \"1 us\"", live, "steps"),
            ("delay = \"0 s\"", "kind = \"bulk\"", "steps"),
        ] {
            let scenario = scenario(link, flow, &[]).expect("a scenario");
            let error = run_outcomes(&scenario, &RunOptions::seeds(1), &|_| ())
                .expect_err(flow)
                .to_string();
            assert!(error.contains(limit), "{link}, {flow}: {error}");
        }
    }

    #[test]
    fn only_an_override_raises_a_limit() {
        let flow = "kind = \"bulk\"\nbytes = \"1 MB\"";
        let link = "rate = \"5 Mbit/s\", delay = \"5 ms\"";
        let overrides = ["limits.steps=4000000000", "duration=30000000 s"];
        let raised = scenario(link, flow, &overrides).unwrap();
        assert_eq!(raised.limits.steps, 4_000_000_000);
        let lowered = scenario(link, flow, &["limits.steps=100"]).unwrap();
        let error = run_outcomes(&lowered, &RunOptions::seeds(1), &|_| ());
        assert!(matches!(error, Err(RunError::Limit(_))), "{error:?}");
        for line in [
            "duration = \"30000000 s\"\n",
            "duration = \"1 s\"\nlimits.steps = 4000000000\n",
        ] {
            let text = format!(
                "{line}links.l.delay = \"1 ms\"\n\
                 routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n\
                 flows = [{{ paths = [\"r\"] }}]\n"
            );
            let error = Scenario::parse("strangers.toml", &text, &[]).unwrap_err();
            assert!(error.to_string().contains("`--set` can"), "{error}");
        }
    }

    #[test]
    fn points_of_a_sweep_share_a_total() {
        let text = "duration = \"1 s\"\nlinks.l = { delay = \"5 ms\" }\n\
            routes.r = { forward = [\"l\"], reverse = [\"l\"] }\n\
            flows = [{ paths = [\"r\"] }]\n[sweep]\n";
        let many: Vec<String> = (1..=100).map(|of| format!("\"{of} ms\"")).collect();
        let list = many.join(", ");
        let text = format!("{text}\"links.l.delay\" = [{list}]\n");
        let points = Point::parse("strangers.toml", &text, &[]).unwrap();
        let total: u64 = points.iter().map(|point| point.scenario.limits.steps).sum();
        assert_eq!(total, STEPS_OF_SWEEP);
    }
}
