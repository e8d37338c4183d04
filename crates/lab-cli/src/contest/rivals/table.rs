//! The results of `contest --rivals` as text, Markdown, CSV and JSON.

use core::fmt::Write;

use anabranch_lab::Spread;
use serde_json::json;

use super::rows::Row;
use super::summary::{COLUMNS, Run, Summary, summaries};
use super::transport::{TRANSPORTS, Transport};

/// A contest that has ended.
#[derive(Debug)]
pub(super) struct Results {
    /// Command line that repeats it.
    pub(super) command: String,
    pub(super) rows: Vec<Row>,
    pub(super) runs: Vec<Run>,
    /// Programs and their versions.
    pub(super) versions: Vec<(String, String)>,
    /// Rows and transports that did not run, with reasons.
    pub(super) skipped: Vec<Skipped>,
    /// The machine, and its load before and after.
    pub(super) machine: String,
}

/// A transport that did not run on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) row: &'static str,
    pub(super) transport: Transport,
    pub(super) reason: String,
}

/// Explanation of the columns, below every table.
const LEGEND: &str = "\
Delivered: share of the packets that came at any time. Whole: share of the pictures whose last
packet came within the latency, the network's delay and a picture's interval. Decodable: of those,
pictures whose references were in time, too. Overhead: bytes of IP on the links above the stream
there, and all bytes back, as shares of the stream. Delays are of packets: 50th, 95th and 99th
percentile. Silence: the longest time without a packet at the output. CPU: processor time of the
programs at both ends; the kernel's work for TCP outside of them does not count. Values are medians
of the judged runs; in brackets stands the worst one.";

impl Results {
    /// Returns a table for people, on a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:<20} {:<11} {:>9} {:>14} {:>15} {:>12} {:>19} {:>9} {:>7} {:>5}\n",
            "row",
            "transport",
            "delivered",
            "whole",
            "decodable",
            "overhead",
            "delay, ms",
            "silence",
            "CPU",
            "runs",
        );
        for summary in summaries(&self.runs) {
            let row = self.rows[summary.row_index].name;
            let cells = Cells::of(&summary);
            let _ = writeln!(
                text,
                "{row:<20} {:<11} {:>9} {:>14} {:>15} {:>12} {:>19} {:>9} {:>7} {:>5}",
                summary.transport.name(),
                cells.delivered,
                cells.whole,
                cells.decodable,
                cells.overhead,
                cells.delays,
                cells.silence,
                cells.processor,
                cells.runs,
            );
        }
        let _ = writeln!(text, "\n{LEGEND}\n");
        text.push_str(&self.remarks("", ""));
        text
    }

    /// Returns a table of decodable pictures and overhead by transport, the whole table, and the
    /// remarks.
    pub(super) fn markdown(&self) -> String {
        let summaries = summaries(&self.runs);
        let mut text = format!("`{}`\n\n", self.command);
        text.push_str(&self.short_table(&summaries));
        let _ = writeln!(
            text,
            "\n| row | transport | delivered | whole | decodable | overhead there + back | delay, \
             ms | silence, ms | CPU, s/Gbit | runs |\n|---|---|---|---|---|---|---|---|---|---|"
        );
        for summary in &summaries {
            let cells = Cells::of(summary);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                self.rows[summary.row_index].name,
                summary.transport.name(),
                cells.delivered,
                cells.whole,
                cells.decodable,
                cells.overhead,
                cells.delays,
                cells.silence,
                cells.processor,
                cells.runs,
            );
        }
        let _ = writeln!(text, "\n{LEGEND}\n");
        text.push_str(&self.remarks("- ", "`"));
        text
    }

    /// Returns a table with a line for each row and a column for each transport: decodable pictures
    /// and overhead in per cent.
    fn short_table(&self, summaries: &[Summary]) -> String {
        let transports: Vec<&Transport> = TRANSPORTS
            .iter()
            .filter(|transport| {
                let mut of_it = summaries.iter();
                of_it.any(|summary| summary.transport == **transport)
            })
            .collect();
        let names = transports.iter().map(|transport| transport.name());
        let mut text = format!(
            "| row | case | {} |\n|---|---|{}\n",
            names.collect::<Vec<_>>().join(" | "),
            "---|".repeat(transports.len())
        );
        for (index, row) in self.rows.iter().enumerate() {
            let mut of_row = summaries
                .iter()
                .filter(|summary| summary.row_index == index);
            if of_row.clone().next().is_none() {
                continue;
            }
            let _ = write!(text, "| {} | {}, {} |", row.name, row.case, row.latency);
            for transport in &transports {
                let summary = of_row
                    .clone()
                    .find(|summary| summary.transport == **transport);
                let _ = write!(text, " {} |", summary.map_or_else(none, in_brief));
            }
            text.push('\n');
            let _ = of_row.next();
        }
        text
    }

    /// Returns the skipped runs, the void ones, the versions and the machine.
    fn remarks(&self, bullet: &str, quote: &str) -> String {
        let mut text = String::new();
        for summary in summaries(&self.runs) {
            let row = self.rows[summary.row_index].name;
            for reason in &summary.reasons {
                let name = summary.transport.name();
                let _ = writeln!(text, "{bullet}row {row}, {name}: {reason}");
            }
        }
        for skipped in &self.skipped {
            let (row, name) = (skipped.row, skipped.transport.name());
            let _ = writeln!(
                text,
                "{bullet}row {row}, {name} left out: {}",
                skipped.reason
            );
        }
        for (name, version) in &self.versions {
            let _ = writeln!(text, "{bullet}{name}: {quote}{version}{quote}");
        }
        let _ = writeln!(text, "{bullet}{}", self.machine);
        text
    }

    /// Returns a line for each run.
    pub(super) fn csv(&self) -> String {
        let names = COLUMNS.map(|(name, _)| name).join(",");
        let mut text = format!("row,transport,seed,{names},not_judged\n");
        for run in &self.runs {
            let row = self.rows[run.row_index].name;
            let (transport, seed) = (run.transport.name(), run.seed.0);
            let (values, reason) = match &run.outcome {
                Ok(outcome) => {
                    let values = COLUMNS.map(|(_, of)| number(of(outcome)));
                    (values.join(","), outcome.not_judged.clone())
                }
                Err(reason) => (",".repeat(COLUMNS.len() - 1), Some(reason.clone())),
            };
            let reason = reason.unwrap_or_default().replace('"', "'");
            let _ = writeln!(text, "{row},{transport},{seed},{values},\"{reason}\"");
        }
        text
    }

    /// Returns all runs with all figures, the versions and the rows.
    pub(super) fn json(&self) -> String {
        let runs = self.runs.iter().map(|run| {
            let mut object = serde_json::Map::new();
            object.insert("row".to_owned(), json!(self.rows[run.row_index].name));
            object.insert("transport".to_owned(), json!(run.transport.name()));
            object.insert("seed".to_owned(), json!(run.seed.0));
            match &run.outcome {
                Ok(outcome) => {
                    for (name, of) in COLUMNS {
                        object.insert(name.to_owned(), json!(of(outcome)));
                    }
                    object.insert("not_judged".to_owned(), json!(outcome.not_judged));
                }
                Err(reason) => {
                    object.insert("failure".to_owned(), json!(reason));
                }
            }
            serde_json::Value::Object(object)
        });
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "case": row.case,
                "paths": row.routes.len(),
                "bitrate_bits_per_second": row.stream.bitrate.bits_per_second(),
                "latency_ms": row.latency.as_millis(),
                "budget_ms": row.budget.as_millis(),
            })
        });
        let skipped = self.skipped.iter().map(|skipped| {
            json!({
                "row": skipped.row,
                "transport": skipped.transport.name(),
                "reason": skipped.reason,
            })
        });
        let versions = self
            .versions
            .iter()
            .map(|(name, version)| (name.clone(), json!(version)));
        let document = json!({
            "command": self.command,
            "machine": self.machine,
            "versions": versions.collect::<serde_json::Map<_, _>>(),
            "rows": rows.collect::<Vec<_>>(),
            "runs": runs.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }
}

/// Returns a number of a file; nothing if there is none.
fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.6}")
    } else {
        String::new()
    }
}

fn none() -> String {
    "–".to_owned()
}

/// Cells of a table's line.
struct Cells {
    delivered: String,
    whole: String,
    decodable: String,
    overhead: String,
    delays: String,
    silence: String,
    processor: String,
    runs: String,
}

fn median(summary: &Summary, name: &str) -> Option<f64> {
    summary.spread(name).map(|spread| spread.median)
}

fn rounded(summary: &Summary, name: &str) -> String {
    median(summary, name).map_or_else(none, |value| format!("{value:.0}"))
}

fn per_cent(summary: &Summary, name: &str, digits: usize) -> String {
    let value = median(summary, name).map(|value| value * 100.0);
    value.map_or_else(none, |value| format!("{value:.digits$}"))
}

impl Cells {
    fn of(summary: &Summary) -> Cells {
        let delays =
            ["delay_p50_ms", "delay_p95_ms", "delay_p99_ms"].map(|name| rounded(summary, name));
        let (run_count, judged_count) = (summary.run_count, summary.judged_count);
        let processor = median(summary, "cpu_s_per_gbit");
        Cells {
            delivered: per_cent(summary, "delivered", 2),
            whole: with_worst(summary.spread("whole")),
            decodable: with_worst(summary.spread("decodable")),
            overhead: format!(
                "{} + {}",
                per_cent(summary, "overhead_there", 1),
                per_cent(summary, "overhead_back", 1)
            ),
            delays: delays.join(" / "),
            silence: rounded(summary, "silence_ms"),
            processor: processor.map_or_else(none, |seconds| format!("{seconds:.2}")),
            runs: if judged_count == run_count {
                run_count.to_string()
            } else {
                format!("{judged_count} of {run_count}")
            },
        }
    }
}

/// Returns a median and the worst value in per cent.
fn with_worst(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, .. }) = spread else {
        return none();
    };
    format!("{:.2} ({:.2})", median * 100.0, min * 100.0)
}

/// Returns decodable pictures, and overhead there and back, in per cent.
fn in_brief(summary: &Summary) -> String {
    let columns = ["decodable", "overhead_there", "overhead_back"];
    let [Some(decodable), Some(there), Some(back)] =
        columns.map(|name| summary.spread(name).map(|spread| spread.median * 100.0))
    else {
        return none();
    };
    format!("{decodable:.2} / {:.1}", there + back)
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::super::summary::tests::run_of;
    use super::*;

    fn results() -> Results {
        let mut runs = vec![
            run_of(Transport::Anabranch, 1, 1.0, false),
            run_of(Transport::Anabranch, 2, 0.98, false),
            run_of(Transport::Rist, 1, 0.9, true),
            run_of(Transport::Srt, 1, 0.9, false),
        ];
        runs[3].outcome = Err("it said \"no\"".to_owned());
        Results {
            command: "anabranch-lab contest --rivals".to_owned(),
            rows: rows::all().unwrap(),
            runs,
            versions: vec![("kernel".to_owned(), "6.18".to_owned())],
            skipped: vec![Skipped {
                row: "1",
                transport: Transport::Mptcp,
                reason: "socat is not installed".to_owned(),
            }],
            machine: "2 processors".to_owned(),
        }
    }

    #[test]
    fn a_row_has_a_column_for_each_transport() {
        let text = results().markdown();
        for line in [
            "| row | case | Anabranch | SRT | RIST |",
            "| 1 | 1 % loss, 200 ms, 200 ms | 99.00 / 8.0 | – | – |",
            "- row 1, RIST: seed 1 not judged: links were 2.0 ms late",
            "- row 1, MPTCP left out: socat is not installed",
            "- kernel: `6.18`",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let line = "| 1 | Anabranch | 100.00 | 99.00 (98.00) | 99.00 (98.00) | 7.0 + 1.0 | 230 / \
                    231 / 240 | 41 | – | 2 |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| RIST | – | – | – | – + – |"), "{text}");
    }

    #[test]
    fn files_have_every_run() {
        let results = results();
        let csv = results.csv();
        assert_eq!(csv.lines().count(), 5);
        let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{csv}");
        assert!(csv.contains("1,SRT,1,,,,,,,,,,,,\"it said 'no'\""), "{csv}");
        let json: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
        assert_eq!(json["runs"][1]["decodable"], 0.98);
        assert_eq!(json["runs"][3]["failure"], "it said \"no\"");
        assert_eq!(json["runs"][2]["cpu_s_per_gbit"], serde_json::Value::Null);
        assert_eq!(json["versions"]["kernel"], "6.18");
        let text = results.text();
        assert!(text.contains("0 of 1") && text.contains("100.00"), "{text}");
    }
}
