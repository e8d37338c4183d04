//! What the demo says of two runs, without and with forward error correction.

use core::fmt::Write;
use core::ops::Range;

use anabranch_units::{Duration, Instant, percentile};

use super::judge::longest_gap_in;
use super::ledger::FrameRecord;
use super::network::{OUTAGE_AT, RETURN_AT};
use super::recording::Recording;
use super::view::milliseconds;

/// What still counts as the outage after the link is back.
const SETTLING: Duration = Duration::from_secs(1);

/// Whoever talks does not notice so much, one way (ITU-T G.114).
pub(super) const CONVERSATION: Duration = Duration::from_millis(150);

/// The two runs, and what they were judged by.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    /// The policy's name.
    pub(super) fec: &'a str,
    pub(super) without: &'a Recording,
    pub(super) with: &'a Recording,
    /// At random, on each link.
    pub(super) loss_percent: f64,
}

/// What a viewer saw of the frames that were taken in some spans.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    taken_count: usize,
    on_time_count: usize,
    /// Within which 99 % of the frames that came had come.
    delay: Option<Duration>,
    longest_gap: Option<Duration>,
}

impl Seen {
    fn of(recording: &Recording, spans: &[Range<Instant>]) -> Seen {
        let frames = recording.frames.iter();
        let frames: Vec<&FrameRecord> = frames
            .filter(|frame| spans.iter().any(|span| span.contains(&frame.captured_at)))
            .collect();
        let on_time = |frame: &&&FrameRecord| {
            frame.is_displayable
                && frame
                    .delay()
                    .is_some_and(|delay| delay <= recording.deadline)
        };
        let mut delays: Vec<Duration> = frames.iter().filter_map(|frame| frame.delay()).collect();
        delays.sort_unstable();
        let gaps = spans
            .iter()
            .filter_map(|span| longest_gap_in(recording, span));
        Seen {
            taken_count: frames.len(),
            on_time_count: frames.iter().filter(on_time).count(),
            delay: percentile(&delays, 99),
            longest_gap: gaps.map(|(gap, _)| gap).max(),
        }
    }

    /// How many of the pictures were on time.
    fn share(&self) -> String {
        let share = self.on_time_count as f64 / self.taken_count.max(1) as f64;
        format!("{:.1} %", share * 100.0)
    }
}

impl Comparison<'_> {
    /// A table: what the outage and the random losses cost in either run, and what the repairs do.
    pub(super) fn table(&self) -> String {
        let end = self.without.ended_at.max(self.with.ended_at);
        let outage = OUTAGE_AT..RETURN_AT + SETTLING;
        let rest = [Instant::ZERO..outage.start, outage.end..end.max(outage.end)];
        let loss = self.loss_percent;
        let mut text = self.heading(end);
        let heads = ["without FEC".to_owned(), self.fec.to_owned()];
        row(&mut text, "", heads);
        self.write_seen(&mut text, &format!("{loss} % random loss"), &rest);
        if end > OUTAGE_AT {
            self.write_seen(&mut text, "outage, and 1 s after it", &[outage]);
        }
        let all = Instant::ZERO..end;
        let seen = [self.without, self.with].map(|run| {
            let seen = Seen::of(run, core::slice::from_ref(&all));
            seen.share()
        });
        row(&mut text, "all pictures on time", seen);
        self.write_cost(&mut text);
        text
    }

    /// What was run, and what counts as on time.
    fn heading(&self, end: Instant) -> String {
        let loss = self.loss_percent;
        let outage = match end > OUTAGE_AT {
            true => "; Wi-Fi is\ngone from 10 s to 15 s",
            false => "",
        };
        let deadline = self.with.deadline;
        let talk = match deadline <= CONVERSATION {
            true => ", as talking wants it",
            false => "",
        };
        format!(
            "\nThe same links twice. Each loses {loss} % of its packets at random all the time\
             {outage}.\nA picture is on time up to {deadline} after its capture{talk}.\nSo short \
             a run is one draw of chance, and whatever else this machine does has a part\nin it; \
             --seed draws anew.\n\n"
        )
    }

    fn write_seen(&self, text: &mut String, what: &str, spans: &[Range<Instant>]) {
        let runs = [self.without, self.with];
        let seen = runs.map(|run| Seen::of(run, spans));
        row(text, what, seen.each_ref().map(|_| String::new()));
        let missing = |seen: &Seen| format!("{}", seen.taken_count - seen.on_time_count);
        row(text, "  pictures on time", seen.each_ref().map(Seen::share));
        row(
            text,
            "  late, missing or broken",
            seen.each_ref().map(missing),
        );
        let delay = |seen: &Seen| milliseconds(seen.delay);
        row(text, "  99 % there within", seen.each_ref().map(delay));
        let gap = |seen: &Seen| milliseconds(seen.longest_gap);
        row(text, "  longest still picture", seen.each_ref().map(gap));
    }

    fn write_cost(&self, text: &mut String) {
        let runs = [self.without, self.with];
        let last = |run: &Recording| run.samples.last().cloned();
        let cells = |of: &dyn Fn(&Recording) -> Option<String>| {
            runs.map(|run| of(run).unwrap_or_else(|| "–".to_owned()))
        };
        row(text, "what it takes", runs.map(|_| String::new()));
        let repairs = cells(&|run| Some(format!("{:.1} %", last(run)?.repair_share() * 100.0)));
        row(text, "  repairs, of all else sent", repairs);
        let recovered = cells(&|run| Some(last(run)?.recovered_packets.to_string()));
        row(text, "  lost packets computed from repairs", recovered);
        let again = cells(&|run| {
            let last = last(run)?;
            let again = last.paths.iter().map(|path| path.retransmitted_packets);
            Some(again.sum::<u64>().to_string())
        });
        row(text, "  packets sent again", again);
        let video = cells(&|run| {
            let rate = run.video_rate(run.started_at, run.ended_at);
            Some(format!("{:.2} Mbit/s", rate.megabits_per_second()))
        });
        row(text, "  video, which makes room for repairs", video);
    }
}

fn row(text: &mut String, what: &str, [without, with]: [String; 2]) {
    let line = format!("{what:<42}{without:>14}{with:>14}");
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::recording::testing::flawless;
    use super::*;

    #[test]
    fn losses_and_the_outage_are_told_apart() {
        let (mut without, mut with) = (flawless(), flawless());
        for run in [&mut without, &mut with] {
            run.deadline = Duration::from_millis(150);
        }
        // Taken at 4.1 s and at 12.1 s.
        without.frames[100].delivered_at = None;
        without.frames[100].is_displayable = false;
        without.frames[300].delivered_at = Some(Instant::from_millis(12_400));
        let last = with.samples.last_mut().unwrap();
        last.recovered_packets = 77;
        last.paths[0].sent_bytes = 1_100;
        last.paths[0].repair_bytes = 100;
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
            "longest still picture 270 ms 40 ms",
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
