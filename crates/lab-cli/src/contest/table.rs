//! The contest's table.

use core::fmt::Write;

use anabranch_lab::contest::{BAR_SPAN, Row};
use anabranch_lab::{Expectation, Scenario, Spread};

/// Metric of a bar that counts decodable frames alone.
const DECODABLE: &str = "frames-decodable-on-time";

/// Returns whether a row counts only decodable frames.
pub(super) fn counts_decodable(scenario: &Scenario) -> bool {
    let mut expected = scenario.expectations.iter();
    expected.any(|expected| expected.metric.name == DECODABLE)
}

/// Results of one run, as shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Frames that are complete within the latency budget, as in the other transports' figures. If
    /// the row asks for it, only decodable frames count.
    pub(super) delivered: f64,
    /// Decodable frames that are handed out within the latency budget.
    pub(super) decodable: f64,
    /// Bytes on the wire in both directions, minus the payload.
    pub(super) overhead: f64,
}

/// Verdict of a row's figures on its bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Every seed meets the bar.
    Holds,
    /// A seed misses the bar.
    Differs,
    /// The run was shorter than [`BAR_SPAN`].
    TooShort,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::TooShort => "too short",
        }
    }
}

/// A row, its figures, and the bar that they are compared with.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    row: &'a Row,
    is_too_short: bool,
    /// Distribution over the seeds.
    delivered: Spread,
    decodable: Spread,
    overhead: Spread,
    least_delivered: f64,
    most_overhead: Option<f64>,
}

impl<'a> Judged<'a> {
    /// Compares the figures of all seeds with the scenario's bar.
    ///
    /// # Panics
    /// If there are no figures.
    pub(super) fn new(row: &'a Row, scenario: &Scenario, figures: Vec<Figures>) -> Self {
        let least_delivered = bound(scenario, "frames-complete-on-time")
            .or_else(|| bound(scenario, DECODABLE))
            .and_then(|expected| expected.min);
        Judged {
            row,
            is_too_short: scenario.duration < BAR_SPAN,
            delivered: spread(&figures, |one| one.delivered),
            decodable: spread(&figures, |one| one.decodable),
            overhead: spread(&figures, |one| one.overhead),
            least_delivered: least_delivered.unwrap_or(0.0),
            most_overhead: bound(scenario, "overhead").and_then(|expected| expected.max),
        }
    }

    /// Returns the verdict on the worst seed. A shorter run cannot be compared with the bar: in 10
    /// s one packet is 0.03 %, and an outage covers another share of the run.
    fn verdict(&self) -> Verdict {
        let holds = self.delivered.min >= self.least_delivered
            && self
                .most_overhead
                .is_none_or(|most| self.overhead.max <= most);
        match (self.is_too_short, holds) {
            (true, _) => Verdict::TooShort,
            (false, true) => Verdict::Holds,
            (false, false) => Verdict::Differs,
        }
    }

    fn bar(&self) -> String {
        let delivered = self.least_delivered * 100.0;
        match self.most_overhead {
            Some(most) => format!("{delivered:.4} / {:.0}", most * 100.0)
                .replace("0000 ", " ")
                .replace(". ", " "),
            None => format!("{delivered:.1} / -"),
        }
    }
}

fn spread(figures: &[Figures], of: fn(&Figures) -> f64) -> Spread {
    Spread::of(figures.iter().map(of)).expect("a row has a run")
}

/// Returns the scenario's expectation of a metric.
fn bound<'a>(scenario: &'a Scenario, metric: &str) -> Option<&'a Expectation> {
    let mut expected = scenario.expectations.iter();
    expected.find(|expected| expected.metric.name == metric)
}

fn pair(delivered: f64, overhead: f64) -> String {
    format!("{:.3} / {:.2}", delivered * 100.0, overhead * 100.0)
}

/// Returns the table as text.
pub(super) fn table(rows: &[Judged<'_>], is_real: bool) -> String {
    let world = if is_real {
        "real sockets, encrypted"
    } else {
        "simulated"
    };
    let mut text = format!(
        "% of frames complete within the latency budget (row 6b: decodable) / % of bytes on the \
         wire above the payload ({world})\n\
         {:<3} {:<36} {:>15} {:>15} {:>13} {:>10} {:>11}  {:<12} {:<20} {:<16} {}\n",
        "row", "case", "median", "worst", "bar", "", "decodable", "SRT", "RIST", "SRTLA", "noq"
    );
    for judged in rows {
        let (delivered, overhead) = (judged.delivered, judged.overhead);
        let row = judged.row;
        let verdict = judged.verdict().word();
        let _ = writeln!(
            text,
            "{:<3} {:<36} {:>15} {:>15} {:>13} {verdict:>10} {:>11.3}  {:<12} {:<20} {:<16} {}",
            row.name,
            row.case,
            pair(delivered.median, overhead.median),
            pair(delivered.min, overhead.max),
            judged.bar(),
            judged.decodable.median * 100.0,
            row.srt,
            row.rist,
            row.srtla,
            row.noq
        );
    }
    if rows.iter().any(|judged| judged.is_too_short) {
        let seconds = BAR_SPAN.as_secs_f64();
        let _ = writeln!(
            text,
            "Too short: bars are of {seconds} s, and rows of less are not judged."
        );
    }
    text.push_str(
        "Others: measured in 2026 through an emulator of the same kind; SRT and RIST without \
         encryption,\nand row 6 of theirs is one case.\n",
    );
    text
}

/// Returns a message with the rows that miss their bars; `None` if none does.
pub(super) fn missed(rows: &[Judged<'_>]) -> Option<String> {
    let missed = rows
        .iter()
        .filter(|judged| judged.verdict() == Verdict::Differs);
    let names: Vec<&str> = missed.map(|judged| judged.row.name).collect();
    let (count, names) = (names.len(), names.join(", "));
    (count > 0).then(|| format!("bars missed in {count} of {} rows: {names}", rows.len()))
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;
    use anabranch_lab::contest::ROWS;

    fn judged_after(duration: &str, delivered: f64, overhead: f64) -> Judged<'static> {
        let row = &ROWS[1];
        let duration = format!("duration={duration}");
        let scenario = Scenario::parse(row.name, row.scenario, &[duration]).unwrap();
        let figures = [(1.0, 0.1), (delivered, overhead)].map(|(delivered, overhead)| Figures {
            delivered,
            decodable: delivered,
            overhead,
        });
        Judged::new(row, &scenario, figures.to_vec())
    }

    fn judged(delivered: f64, overhead: f64) -> Judged<'static> {
        judged_after("60 s", delivered, overhead)
    }

    #[test]
    fn the_worst_seed_decides_by_both_figures() {
        assert_eq!(judged(0.9999, 0.13).verdict(), Verdict::Holds);
        assert_eq!(judged(0.9998, 0.13).verdict(), Verdict::Differs);
        assert_eq!(judged(0.9999, 0.131).verdict(), Verdict::Differs);
        assert_eq!(judged(1.0, 0.1).bar(), "99.9900 / 13");
    }

    #[test]
    fn the_rows_that_differ_in_the_table_are_named() {
        assert_eq!(missed(&[judged(1.0, 0.1)]), None);
        let rows = [judged(1.0, 0.1), judged(0.5, 0.1)];
        assert_eq!(missed(&rows).unwrap(), "bars missed in 1 of 2 rows: 2");
        let table = table(&rows, false);
        let verdicts = [" holds ", " differs ", "oo short"];
        let counts = verdicts.map(|word| table.matches(word).count());
        assert_eq!(counts, [1, 1, 0], "{table}");
    }

    #[test]
    fn a_row_that_runs_for_less_than_its_bar_is_not_judged() {
        // The first meets the bar, the second misses it by one packet in 10 s, the third misses any
        // bar.
        for (delivered, overhead) in [(1.0, 0.1), (0.9997, 0.14), (0.5, 1.0)] {
            let rows = [judged_after("59.9 s", delivered, overhead)];
            assert_eq!(rows[0].verdict(), Verdict::TooShort);
            assert_eq!(missed(&rows), None);
            let table = table(&rows, true);
            assert!(table.contains("99.9900 / 13  too short "), "{table}");
            assert!(table.contains("Too short: bars are of 60 s, "), "{table}");
        }
        assert_eq!(judged_after("61 s", 1.0, 0.1).verdict(), Verdict::Holds);
    }

    #[test]
    fn every_row_is_as_long_as_its_bar_and_too_short_if_quick() {
        for row in &ROWS {
            let quick: Vec<String> = row.quick.iter().map(|text| (*text).to_owned()).collect();
            let [whole, quick] = [Vec::new(), quick].map(|settings| {
                let scenario = Scenario::parse(row.name, row.scenario, &settings).unwrap();
                scenario.duration
            });
            assert_eq!((whole, quick), (BAR_SPAN, Duration::from_secs(10)));
        }
    }
}
