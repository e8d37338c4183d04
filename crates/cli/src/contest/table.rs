//! The contest's table.

use core::fmt::Write;

use anabranch_lab::Scenario;

use super::rows::Row;

/// What one run came to; shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Packets there within the latency budget.
    pub(super) delivered: f64,
    /// Bytes on the wire, both ways, above the payload.
    pub(super) overhead: f64,
}

/// A row, its figures, and whether they keep its bar.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    row: &'a Row,
    /// One a seed.
    figures: Vec<Figures>,
    least_delivered: f64,
    most_overhead: Option<f64>,
}

impl<'a> Judged<'a> {
    /// # Panics
    /// Without figures.
    pub(super) fn new(row: &'a Row, scenario: &Scenario, figures: Vec<Figures>) -> Self {
        assert!(!figures.is_empty(), "no run of row {}", row.name);
        let bound = |name: &str| {
            let mut expected = scenario.expectations.iter();
            expected.find(|expected| expected.metric.name == name)
        };
        Judged {
            row,
            figures,
            least_delivered: bound("frames-on-time")
                .and_then(|expected| expected.min)
                .unwrap_or(0.0),
            most_overhead: bound("overhead").and_then(|expected| expected.max),
        }
    }

    /// The median of a figure.
    fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        let mut values: Vec<f64> = self.figures.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        if values.len() % 2 == 1 {
            values[half]
        } else {
            f64::midpoint(values[half - 1], values[half])
        }
    }

    fn worst(&self) -> Figures {
        let worse = |worst: Figures, one: &Figures| Figures {
            delivered: worst.delivered.min(one.delivered),
            overhead: worst.overhead.max(one.overhead),
        };
        self.figures.iter().fold(self.figures[0], worse)
    }

    /// Whether every seed keeps the bar.
    fn holds(&self) -> bool {
        let worst = self.worst();
        worst.delivered >= self.least_delivered
            && self.most_overhead.is_none_or(|most| worst.overhead <= most)
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

/// The table, for people.
pub(super) fn table(rows: &[Judged<'_>], is_real: bool) -> String {
    let world = if is_real {
        "real sockets, encrypted"
    } else {
        "simulated"
    };
    let mut text = format!(
        "% delivered within the latency budget / % of bytes on the wire above the payload \
         ({world})\n\
         {:<3} {:<36} {:>15} {:>15} {:>13} {:>8}  {:<12} {:<20} {:<16} {}\n",
        "row", "case", "median", "worst", "bar", "", "SRT", "RIST", "SRTLA", "noq"
    );
    let pair = |figures: Figures| {
        format!(
            "{:.3} / {:.2}",
            figures.delivered * 100.0,
            figures.overhead * 100.0
        )
    };
    for judged in rows {
        let median = Figures {
            delivered: judged.median(|one| one.delivered),
            overhead: judged.median(|one| one.overhead),
        };
        let row = judged.row;
        let verdict = if judged.holds() { "holds" } else { "differs" };
        let _ = writeln!(
            text,
            "{:<3} {:<36} {:>15} {:>15} {:>13} {verdict:>8}  {:<12} {:<20} {:<16} {}",
            row.name,
            row.case,
            pair(median),
            pair(judged.worst()),
            judged.bar(),
            row.srt,
            row.rist,
            row.srtla,
            row.noq
        );
    }
    text.push_str(
        "Others: measured in 2026 through an emulator of the same kind; SRT and RIST without \
         encryption,\nand row 6 of theirs is one case.\n",
    );
    text
}

/// Which of the rows the table says differ from their bars; `None` if none does.
pub(super) fn missed(rows: &[Judged<'_>]) -> Option<String> {
    let missed = rows.iter().filter(|judged| !judged.holds());
    let names: Vec<&str> = missed.map(|judged| judged.row.name).collect();
    let (count, names) = (names.len(), names.join(", "));
    (count > 0).then(|| format!("bars missed in {count} of {} rows: {names}", rows.len()))
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn judged(delivered: f64, overhead: f64) -> Judged<'static> {
        let row = &ROWS[1];
        let scenario = Scenario::parse(row.name, row.scenario, &[]).unwrap();
        Judged::new(
            row,
            &scenario,
            vec![
                Figures {
                    delivered: 1.0,
                    overhead: 0.1,
                },
                Figures {
                    delivered,
                    overhead,
                },
            ],
        )
    }

    #[test]
    fn the_worst_seed_decides_by_both_figures() {
        assert!(judged(0.9999, 0.13).holds());
        assert!(!judged(0.9998, 0.13).holds());
        assert!(!judged(0.9999, 0.131).holds());
        assert_eq!(judged(1.0, 0.1).bar(), "99.9900 / 13");
    }

    #[test]
    fn the_rows_that_differ_in_the_table_are_named() {
        let (holds, differs) = (judged(1.0, 0.1), judged(0.5, 0.1));
        assert_eq!(missed(&[judged(1.0, 0.1)]), None);
        let rows = [holds, differs];
        let said = missed(&rows).unwrap();
        assert_eq!(said, "bars missed in 1 of 2 rows: 2");
        let table = table(&rows, false);
        let verdicts = ["holds", "differs"].map(|word| table.matches(word).count());
        assert_eq!(verdicts, [1, 1], "{table}");
    }

    #[test]
    fn every_row_is_a_scenario_quick_or_not() {
        for row in &ROWS {
            let quick: Vec<String> = row.quick.iter().map(|text| (*text).to_owned()).collect();
            for settings in [Vec::new(), quick] {
                Scenario::parse(row.name, row.scenario, &settings).unwrap();
            }
        }
    }
}
