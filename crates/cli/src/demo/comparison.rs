//! The report on two runs, without and with forward error correction.

use core::fmt::Write;

use anabranch_lab::metrics::{FrameStatistics, Window};
use anabranch_units::{Duration, Instant};

use super::network::OUTAGE_AT;
use super::recording::Recording;
use crate::summary::repair_share;

/// Longest one-way delay that people in a conversation do not notice (ITU-T G.114).
pub(super) const CONVERSATION: Duration = Duration::from_millis(150);

/// The two runs and their settings.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    /// Name of the policy.
    pub(super) fec: &'a str,
    pub(super) without: &'a Recording,
    pub(super) with: &'a Recording,
    /// Random loss on each link, in percent.
    pub(super) loss_percent: f64,
}

impl Comparison<'_> {
    /// Returns a table with the cost of the outage and of random losses in each run, and the effect
    /// of the repairs.
    pub(super) fn table(&self) -> String {
        let end = self.without.ended_at.max(self.with.ended_at);
        let loss = self.loss_percent;
        let mut text = self.heading(end);
        let heads = ["without FEC".to_owned(), self.fec.to_owned()];
        row(&mut text, "", heads);
        let rest = format!("{loss} % random loss");
        self.write_frames(&mut text, &rest, Recording::outside_outage);
        if end > OUTAGE_AT {
            self.write_frames(&mut text, "outage, and 1 s after it", Recording::outage);
        }
        let runs = [self.without, self.with];
        let shares = runs.map(|run| share(&run.frame_statistics(run.whole())));
        row(&mut text, "all pictures on time", shares);
        self.write_cost(&mut text);
        text
    }

    /// Returns a description of the runs, and the definition of "on time".
    fn heading(&self, end: Instant) -> String {
        let loss = self.loss_percent;
        let outage = if end > OUTAGE_AT {
            "; Wi-Fi is\ngone from 10 s to 15 s"
        } else {
            ""
        };
        let deadline = self.with.deadline;
        let talk = if deadline <= CONVERSATION {
            ", as a conversation needs it"
        } else {
            ""
        };
        format!(
            "\nThe same links twice. Each loses {loss} % of its packets at random all the time\
             {outage}.\nA picture is on time up to {deadline} after its capture{talk}.\nSuch a \
             short run is one sample, and the load of this machine affects it.\n--seed selects \
             another sample.\n\n"
        )
    }

    fn write_frames(&self, text: &mut String, what: &str, window: fn(&Recording) -> Window) {
        let runs = [self.without, self.with];
        let statistics = runs.map(|run| run.frame_statistics(window(run)));
        row(text, what, statistics.each_ref().map(|_| String::new()));
        row(text, "  pictures on time", statistics.each_ref().map(share));
        row(
            text,
            "  late, missing or broken",
            statistics.each_ref().map(|statistics| {
                let missing = 1.0 - statistics.decodable_on_time_ratio.unwrap_or(1.0);
                format!("{:.0}", missing * statistics.captured as f64)
            }),
        );
        row(
            text,
            "  99 % there within",
            statistics
                .each_ref()
                .map(|statistics| milliseconds(statistics.delay_ms.map(|delay| delay.p99))),
        );
        row(
            text,
            "  longest still picture",
            statistics
                .each_ref()
                .map(|statistics| milliseconds(statistics.longest_gap_ms)),
        );
    }

    fn write_cost(&self, text: &mut String) {
        let runs = [self.without, self.with];
        row(text, "the cost", runs.map(|_| String::new()));
        let repairs = runs.map(|run| format!("{:.1} %", repair_share(&run.sent()) * 100.0));
        row(text, "  repairs, of all else sent", repairs);
        let recovered = runs.map(|run| run.receiver.session.recovered_fragments.to_string());
        row(text, "  lost packets computed from repairs", recovered);
        let retransmitted = runs.map(|run| run.sent().retransmitted_packets.to_string());
        row(text, "  packets sent again", retransmitted);
        let video = runs.map(|run| {
            let rate = run.video_rate(run.started_at, run.ended_at);
            format!("{:.2} Mbit/s", rate.megabits_per_second())
        });
        row(text, "  video, which makes room for repairs", video);
    }
}

/// Returns the share of captured pictures that were decodable on time.
fn milliseconds(span: Option<f64>) -> String {
    span.map_or("–".to_owned(), |span| format!("{span:.0} ms"))
}

fn share(statistics: &FrameStatistics) -> String {
    let share = statistics.decodable_on_time_ratio.unwrap_or(0.0);
    format!("{:.1} %", share * 100.0)
}

fn row(text: &mut String, what: &str, [without, with]: [String; 2]) {
    let line = format!("{what:<42}{without:>14}{with:>14}");
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::recording::testing::flawless;
    use super::*;
    use anabranch_net::PathSnapshot;
    use anabranch_units::Importance;

    #[test]
    fn losses_and_outage_are_separate() {
        let (mut without, mut with) = (flawless(), flawless());
        for run in [&mut without, &mut with] {
            run.deadline = Duration::from_millis(150);
        }
        // Captured at 4.1 s and at 12.1 s.
        without.frames[100].delivered_at = None;
        without.frames[100].importance = Importance::Disposable;
        without.frames[300].delivered_at = Some(Instant::from_millis(12_255));
        with.receiver.session.recovered_fragments = 77;
        let mut path = PathSnapshot::default();
        path.counters.sent_bytes = 1_100;
        path.counters.repair_bytes = 100;
        with.sender.paths.push(path);
        let comparison = Comparison {
            fec: "adaptive",
            without: &without,
            with: &with,
            loss_percent: 2.0,
        };
        let table = comparison.table();
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "2 % random loss",
            "late, missing or broken 1 0",
            "longest still picture 80 ms 40 ms",
            "outage, and 1 s after it",
            "pictures on time 99.3 % 100.0 %",
            "longest still picture 125 ms 40 ms",
            "all pictures on time 99.7 % 100.0 %",
            "repairs, of all else sent 0.0 % 10.0 %",
            "lost packets computed from repairs 0 77",
        ] {
            assert!(
                lines.iter().any(|found| found == line),
                "{line:?} in\n{table}"
            );
        }
    }
}
