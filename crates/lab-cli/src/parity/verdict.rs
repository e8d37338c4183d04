//! Goodput of both worlds, and whether they agree.

use core::fmt::Write;

use anabranch_emu::{MAX_RELEASE_ERROR, ReleaseErrors};
use anabranch_lab::Spread;

use super::plan::Plan;

/// Share by which both medians may differ. Chosen: twice the difference that jitter of a kernel's
/// timers makes, in runs of one scenario.
const MAX_DIFFERENCE: f64 = 0.05;

/// A run in real time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RealRun {
    /// Goodput of each flow in bits per second.
    pub(super) goodputs: Vec<f64>,
    pub(super) errors: ReleaseErrors,
}

impl RealRun {
    /// Returns whether its packets left in time.
    fn is_exact(&self) -> bool {
        self.errors.p99 <= MAX_RELEASE_ERROR
    }
}

/// Goodput of a flow in both worlds.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    simulated: Spread,
    /// `None`: all runs were void.
    real: Option<Spread>,
}

impl Row {
    /// Returns the kernel's median over the simulator's, less 1.
    fn difference(&self) -> Option<f64> {
        self.real
            .map(|real| real.median / self.simulated.median - 1.0)
    }

    fn verdict(&self) -> &'static str {
        match self.difference() {
            None => "void",
            Some(difference) if difference.abs() <= MAX_DIFFERENCE => "agrees",
            Some(_) => "differs",
        }
    }
}

/// All flows in both worlds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    rows: Vec<Row>,
    simulated_count: usize,
    real: Vec<RealRun>,
}

impl Comparison {
    /// Compares the goodput of each flow in each run.
    pub(super) fn new(plan: &Plan, simulated: &[Vec<f64>], real: &[RealRun]) -> Comparison {
        let exact = real.iter().filter(|run| run.is_exact());
        let mut rows = Vec::new();
        for (index, connection) in plan.connections.iter().enumerate() {
            let simulated = Spread::of(simulated.iter().map(|run| run[index]));
            let Some(simulated) = simulated else {
                continue;
            };
            rows.push(Row {
                name: connection.name.clone(),
                simulated,
                real: Spread::of(exact.clone().map(|run| run.goodputs[index])),
            });
        }
        Comparison {
            rows,
            simulated_count: simulated.len(),
            real: real.to_vec(),
        }
    }

    /// Returns the comparison for people.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "goodput in Mbit/s, median (least to largest) of {} in the simulator and {} of the \
             kernel\n{:<16} {:>24} {:>24} {:>8}  verdict\n",
            runs(self.simulated_count),
            runs(self.real.iter().filter(|run| run.is_exact()).count()),
            "flow",
            "simulated",
            "kernel",
            "differs",
        );
        for row in &self.rows {
            let real = row
                .real
                .map_or_else(|| "-".to_owned(), |real| spread(&real));
            let difference = row
                .difference()
                .map(|share| format!("{:+.1} %", share * 100.0));
            let _ = writeln!(
                text,
                "{:<16} {:>24} {real:>24} {:>8}  {}",
                row.name,
                spread(&row.simulated),
                difference.unwrap_or_default(),
                row.verdict(),
            );
        }
        for (run, number) in self.real.iter().zip(1..) {
            let verdict = if run.is_exact() {
                ""
            } else {
                ": void, not to be trusted"
            };
            let _ = writeln!(
                text,
                "run {number}: release error {:.2} ms at the 99th percentile, {:.2} ms at \
                 most{verdict}",
                run.errors.p99.as_millis_f64(),
                run.errors.max.as_millis_f64(),
            );
        }
        text
    }

    /// Returns the flows that do not agree, if there are any.
    pub(super) fn failure(&self) -> Option<String> {
        let rows = self.rows.iter().filter(|row| row.verdict() != "agrees");
        let names: Vec<String> = rows
            .map(|row| format!("{} {}", row.name, row.verdict()))
            .collect();
        (!names.is_empty()).then(|| format!("simulator and kernel: {}", names.join(", ")))
    }
}

/// Returns a number of runs in words.
fn runs(count: usize) -> String {
    if count == 1 {
        "1 run".to_owned()
    } else {
        format!("{count} runs")
    }
}

fn spread(spread: &Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| value / 1e6);
    format!("{median:.2} ({min:.2} to {max:.2})")
}

#[cfg(test)]
mod tests {
    use anabranch_lab::Scenario;
    use anabranch_units::Duration;

    use super::*;

    fn comparison(real: &[(f64, u64)]) -> Comparison {
        let text = r#"
title = "A link"
duration = "10 s"
links.a = { rate = "5 Mbit/s", delay = "20 ms", queue = "100 ms" }
links.a-back = { delay = "20 ms" }
routes.a = { forward = ["a"], reverse = ["a-back"] }
flows = [{ name = "one", kind = "bulk", controller = "cubic", paths = ["a"] }]
"#;
        let plan = Plan::of(&Scenario::parse("a.toml", text, &[]).unwrap()).unwrap();
        let real = real.iter().map(|(goodput, micros)| RealRun {
            goodputs: vec![*goodput],
            errors: ReleaseErrors {
                p99: Duration::from_micros(*micros),
                ..ReleaseErrors::default()
            },
        });
        let simulated = [vec![4e6], vec![5e6], vec![4.5e6]];
        Comparison::new(&plan, &simulated, &real.collect::<Vec<_>>())
    }

    #[test]
    fn medians_within_five_per_cent_agree() {
        let same = comparison(&[(4.7e6, 100), (4.28e6, 100), (4.9e6, 100)]);
        assert_eq!(same.failure(), None);
        let table = same.table();
        assert!(table.contains("4.50 (4.00 to 5.00)"), "{table}");
        assert!(
            table.contains("4.70 (4.28 to 4.90)") && table.contains("+4.4 %"),
            "{table}"
        );
        let other = comparison(&[(4.27e6, 100)]);
        let failure = other.failure().unwrap();
        assert_eq!(failure, "simulator and kernel: one differs");
    }

    #[test]
    fn late_runs_do_not_count() {
        let one = comparison(&[(1e6, 510), (4.5e6, 500)]);
        assert_eq!(one.failure(), None);
        assert!(
            one.table().contains("0.51 ms at the 99th percentile"),
            "{}",
            one.table()
        );
        assert!(one.table().contains("void"));
        assert!(
            one.table()
                .contains("of 3 runs in the simulator and 1 run of")
        );
        let none = comparison(&[(4.5e6, 510)]);
        assert_eq!(none.failure().unwrap(), "simulator and kernel: one void");
    }
}
