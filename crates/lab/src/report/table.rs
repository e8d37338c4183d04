//! The report as aligned text.

use std::collections::BTreeMap;
use std::fmt::Write;

use anabranch_core::SendReason;

use super::{ExpectationReport, Report, Spread};
use crate::metrics::{METRICS, Traffic, Unit};

/// Returns the report as text. With several runs, a number is the median, followed by the least and
/// the largest.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let scenario = &report.scenario;
    writeln!(text, "{}", scenario.title).expect("a String takes everything");
    let seeds: Vec<String> = report.runs.iter().map(|run| run.seed.to_string()).collect();
    let window = format!(
        "{:.0}-{:.0} s",
        scenario.statistics_from_s, scenario.statistics_to_s
    );
    writeln!(
        text,
        "{} s simulated, statistics over {window}, {} {}{}\n",
        scenario.duration_s,
        if seeds.len() == 1 { "seed" } else { "seeds" },
        seeds.join(", "),
        if seeds.len() == 1 {
            ""
        } else {
            ": median (min-max)"
        },
    )
    .expect("a String takes everything");
    text.push_str(&grid(&flow_rows(report)));
    text.push('\n');
    text.push_str(&grid(&frame_rows(report)));
    text.push('\n');
    text.push_str(&grid(&path_rows(report)));
    text.push('\n');
    if let Some(rows) = reason_rows(report) {
        text.push_str(&grid(&rows));
        text.push('\n');
    }
    text.push_str(&grid(&link_rows(report)));
    let is_shared = report
        .runs
        .first()
        .is_some_and(|run| run.statistics.flows.len() > 1);
    if is_shared && let Some(jain) = spread(report, "jain", None) {
        writeln!(
            text,
            "\nJain's index {}",
            cell(Some(jain), |value| format!("{value:.3}"))
        )
        .expect("a String takes everything");
    }
    if !report.expectations.is_empty() {
        text.push('\n');
        text.push_str(&grid(&expectation_rows(report)));
    }
    for run in &report.runs {
        writeln!(text, "trace hash {} (seed {})", run.trace_hash, run.seed)
            .expect("a String takes everything");
    }
    if report.are_seeds_alike() {
        writeln!(
            text,
            "all seeds gave the same result: nothing is left to chance here; `start-jitter` varies \
             when flows begin"
        )
        .expect("a String takes everything");
    }
    text
}

type Rows = Vec<Vec<String>>;

/// Returns rows of equal length as text, the first of them the heading; columns are aligned,
/// numbers to the right.
pub fn grid(rows: &[Vec<String>]) -> String {
    let column_count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..column_count)
        .map(|column| {
            let counts = rows.iter().map(|row| row[column].chars().count());
            counts.max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            match column {
                0 => write!(line, "{gap}{cell:<width$}"),
                _ => write!(line, "{gap}{cell:>width$}"),
            }
            .expect("a String takes everything");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn spread(report: &Report, metric: &str, subject: Option<&str>) -> Option<Spread> {
    report
        .summary
        .iter()
        .find(|entry| entry.metric == metric && entry.subject.as_deref() == subject)
        .map(|entry| entry.spread)
}

/// Returns a value over all runs: itself if they agree, else median and range.
pub fn cell(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    let Some(Spread { median, min, max }) = spread else {
        return "-".to_owned();
    };
    let (median, min, max) = (format(median), format(min), format(max));
    if min == max {
        median
    } else {
        format!("{median} ({min}-{max})")
    }
}

/// Returns a number without its unit, which stands in the heading.
pub(crate) fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => format!("{:.2}", value * 100.0),
        Unit::Milliseconds => format!("{value:.1}"),
        Unit::BitsPerSecond => format!("{:.0}", value / 1e3),
        Unit::Bytes => format!("{:.1}", value / 1e3),
        Unit::Number if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::Number => format!("{value:.3}"),
    }
}

/// Returns the unit's name, which [`in_unit`] leaves out.
pub(crate) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "%",
        Unit::Milliseconds => "ms",
        Unit::BitsPerSecond => "kbit/s",
        Unit::Bytes => "kB",
        Unit::Number => "",
    }
}

/// Returns the expectations that were not met, as in the table.
pub(crate) fn broken_expectations(report: &Report) -> String {
    let mut rows = expectation_rows(report);
    let mut is_met = report
        .expectations
        .iter()
        .map(|expectation| expectation.is_met);
    // The heading stays.
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        index == 1 || is_met.next() == Some(false)
    });
    grid(&rows)
}

/// Returns a row for each subject and a column for each metric.
fn metric_rows(
    report: &Report,
    subjects: &[(Option<&str>, String)],
    columns: &[(&str, &str)],
) -> Rows {
    let mut rows: Rows = subjects
        .iter()
        .map(|(_, label)| vec![label.clone()])
        .collect();
    for (_, metric) in columns {
        let unit = METRICS
            .iter()
            .find(|known| known.name == *metric)
            .expect("the table asks for known metrics")
            .unit;
        let entries = report
            .summary
            .iter()
            .filter(|entry| entry.metric == *metric);
        let spreads: BTreeMap<Option<&str>, Spread> = entries
            .map(|entry| (entry.subject.as_deref(), entry.spread))
            .collect();
        for ((subject, _), row) in subjects.iter().zip(&mut rows) {
            let spread = spreads.get(subject).copied();
            row.push(cell(spread, |value| in_unit(value, unit)));
        }
    }
    rows
}

fn flow_subjects(report: &Report) -> Vec<(Option<&str>, String)> {
    let flows = report
        .runs
        .first()
        .map_or(&[][..], |run| &run.statistics.flows);
    let mut subjects: Vec<_> = flows
        .iter()
        .map(|flow| {
            let label = format!("{} ({})", flow.name, flow.controller);
            (Some(flow.name.as_str()), label)
        })
        .collect();
    if subjects.len() > 1 {
        subjects.push((None, "all flows".to_owned()));
    }
    subjects
}

fn with_heading(first: &str, columns: &[(&str, &str)], rows: Rows) -> Rows {
    let heading = columns.iter().map(|(heading, _)| (*heading).to_owned());
    std::iter::once(std::iter::once(first.to_owned()).chain(heading).collect())
        .chain(rows)
        .collect()
}

fn flow_rows(report: &Report) -> Rows {
    let columns = [
        ("throughput kbit/s", "throughput"),
        ("goodput kbit/s", "goodput"),
        ("variation", "rate-variation"),
        ("loss %", "loss"),
        ("resent %", "retransmissions"),
        ("padding %", "padding"),
        ("delay ms", "delay-mean"),
        ("p50", "delay-p50"),
        ("p95", "delay-p95"),
        ("p99", "delay-p99"),
    ];
    with_heading(
        "flow",
        &columns,
        metric_rows(report, &flow_subjects(report), &columns),
    )
}

fn frame_rows(report: &Report) -> Rows {
    let columns = [
        ("captured", "frames-captured"),
        ("complete", "frames-complete"),
        ("late", "frames-late"),
        ("dropped", "frames-dropped"),
        ("complete on time %", "frames-complete-on-time"),
        ("decodable on time %", "frames-decodable-on-time"),
        ("delay ms", "frame-delay-mean"),
        ("p50", "frame-delay-p50"),
        ("p95", "frame-delay-p95"),
        ("p99", "frame-delay-p99"),
        ("max", "frame-delay-max"),
        ("longest gap ms", "longest-gap"),
    ];
    with_heading(
        "frames",
        &columns,
        metric_rows(report, &flow_subjects(report), &columns),
    )
}

/// Unit of a column, and its value of a path.
type PathColumn = (Unit, fn(&Traffic) -> Option<f64>);

/// Columns of the table of paths, behind the paths' names.
const PATH_COLUMNS: [PathColumn; 6] = [
    (Unit::BitsPerSecond, |path| {
        Some(path.throughput_bits_per_second)
    }),
    (Unit::BitsPerSecond, |path| Some(path.media_bits_per_second)),
    (Unit::Share, |path| path.loss_ratio),
    (Unit::Number, |path| Some(path.packets_retransmitted as f64)),
    (Unit::Milliseconds, |path| {
        path.delay_ms.map(|delay| delay.mean)
    }),
    (Unit::Milliseconds, |path| {
        path.delay_ms.map(|delay| delay.p95)
    }),
];

/// Returns the rows of paths. Paths are no subjects of metrics, so the rows come from the runs
/// themselves.
fn path_rows(report: &Report) -> Rows {
    let heading = [
        "path",
        "throughput kbit/s",
        "media kbit/s",
        "loss %",
        "resent",
        "delay ms",
        "p95",
    ];
    let mut rows = vec![row(&heading)];
    let flows = report
        .runs
        .first()
        .map_or(&[][..], |run| &run.statistics.flows);
    for (flow_index, flow) in flows.iter().enumerate() {
        for (path_index, path) in flow.paths.iter().enumerate() {
            let cells = PATH_COLUMNS.map(|(unit, read)| {
                let values = report.runs.iter().filter_map(|run| {
                    read(&run.statistics.flows[flow_index].paths[path_index].traffic)
                });
                cell(Spread::of(values), |value| in_unit(value, unit))
            });
            let label = format!("{} over {}", flow.name, path.route);
            rows.push(std::iter::once(label).chain(cells).collect());
        }
    }
    rows
}

/// Returns the packets by path and reason; `None` if no session sent any.
fn reason_rows(report: &Report) -> Option<Rows> {
    let flows = report.runs.iter().flat_map(|run| &run.statistics.flows);
    let occurring = flows.flat_map(|flow| &flow.traffic.reasons);
    let reasons: Vec<_> = SendReason::ALL
        .into_iter()
        .filter(|reason| occurring.clone().any(|of| of.reason == reason.name()))
        .collect();
    let heading = reasons.iter().map(|reason| reason.to_string());
    let mut rows = vec![
        std::iter::once("packets sent".to_owned())
            .chain(heading)
            .collect(),
    ];
    for (flow_index, flow) in report.runs.first()?.statistics.flows.iter().enumerate() {
        for (path_index, path) in flow.paths.iter().enumerate() {
            let cells = reasons.iter().map(|reason| {
                let packets = report.runs.iter().map(|run| {
                    let traffic = &run.statistics.flows[flow_index].paths[path_index].traffic;
                    let mut of_path = traffic.reasons.iter();
                    let of_reason = of_path.find(|of| of.reason == reason.name());
                    of_reason.map_or(0.0, |of| of.packets as f64)
                });
                cell(Spread::of(packets), |count| in_unit(count, Unit::Number))
            });
            let label = format!("{} over {}", flow.name, path.route);
            rows.push(std::iter::once(label).chain(cells).collect());
        }
    }
    (!reasons.is_empty()).then_some(rows)
}

fn link_rows(report: &Report) -> Rows {
    let mut columns = vec![
        ("utilisation %", "utilisation"),
        ("kbit/s", "link-throughput"),
        ("queue mean kB", "queue-mean"),
        ("max kB", "queue-max"),
        ("wait ms", "queue-wait-mean"),
        ("dropped: queue", "drops-queue-full"),
        ("chance", "drops-random-loss"),
        ("outage", "drops-outage"),
        ("early", "drops-early"),
        ("marked", "marked"),
    ];
    let links = report
        .runs
        .first()
        .map_or(&[][..], |run| &run.statistics.links);
    // Few links have an MTU.
    if links.iter().any(|link| link.packets_dropped.too_large > 0) {
        columns.insert(columns.len() - 1, ("too large", "drops-too-large"));
    }
    let subjects: Vec<_> = links
        .iter()
        .map(|link| (Some(link.name.as_str()), link.name.clone()))
        .collect();
    with_heading("link", &columns, metric_rows(report, &subjects, &columns))
}

fn expectation_rows(report: &Report) -> Rows {
    let mut rows = vec![row(&[
        "expected", "bounds", "time s", "measured", "verdict",
    ])];
    for expectation in &report.expectations {
        let ExpectationReport {
            metric,
            subject,
            min,
            max,
            from_s,
            to_s,
            outside_s,
            ..
        } = expectation;
        let unit = METRICS
            .iter()
            .find(|known| known.name == *metric)
            .map_or(Unit::Number, |known| known.unit);
        let bounds = match [min, max].map(|bound| bound.map(|bound| written(bound, unit))) {
            [Some(min), Some(max)] => format!("{min} to {max}"),
            [Some(min), None] => format!(">= {min}"),
            [None, Some(max)] => format!("<= {max}"),
            [None, None] => String::new(),
        };
        let outside = outside_s.map_or(String::new(), |[from, to]| format!(" not {from}-{to}"));
        let measured = Spread::of(expectation.values.iter().copied().flatten());
        rows.push(vec![
            subject.as_ref().map_or((*metric).to_owned(), |subject| {
                format!("{metric}.{subject}")
            }),
            bounds,
            format!("{from_s}-{to_s}{outside}"),
            cell(measured, |value| written(value, unit)),
            if expectation.is_met { "ok" } else { "BROKEN" }.to_owned(),
        ]);
    }
    rows
}

/// Returns a number with its unit.
pub fn written(value: f64, unit: Unit) -> String {
    let number = in_unit(value, unit);
    format!("{number} {}", unit_name(unit))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [row(&["a", "long heading"]), row(&["longer name", "1"])];
        assert_eq!(
            grid(&rows),
            "a            long heading\nlonger name             1\n"
        );
    }

    #[test]
    fn runs_that_agree_need_no_range() {
        for ((min, max), expected) in [((1.9, 2.1), "2"), ((1.0, 4.0), "2 (1-4)")] {
            let spread = Spread {
                median: 2.0,
                min,
                max,
            };
            assert_eq!(cell(Some(spread), |value| format!("{value:.0}")), expected);
        }
        assert_eq!(cell(None, |value| format!("{value:.0}")), "-");
    }
}
