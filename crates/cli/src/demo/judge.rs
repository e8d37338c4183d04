//! The demo's promises, and the verdicts on a run.

use anabranch_units::{DataRate, Duration};

use super::ledger::Check;
use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use super::recording::{Recording, Sample, Source, on_time};

/// Promised share of captured frames that are decodable within the deadline.
const DECODABLE_SHARE: f64 = 0.995;
/// Promised mean frame delay outside the outage, if the deadline is longer.
const MEAN_DELAY: Duration = Duration::from_millis(150);
/// Promised time until the returned link carries video.
const RETURN_WITHIN: Duration = Duration::from_secs(1);

/// A promise and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) text: String,
    pub(super) measured: String,
    pub(super) verdict: Verdict,
}

/// Verdict on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Broken,
    /// The run does not allow a verdict.
    NotJudged,
}

impl Verdict {
    /// Returns the verdict's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Broken => "BROKEN",
            Verdict::NotJudged => "not judged",
        }
    }

    fn kept_if(is_kept: bool) -> Self {
        if is_kept {
            Verdict::Kept
        } else {
            Verdict::Broken
        }
    }
}

/// Judges a run by the promises for its source.
pub(super) fn judge(recording: &Recording) -> Vec<Promise> {
    let delay_or_none = match recording.source {
        Source::Camera => Some(mean_delay(recording)),
        // The bitrate of a file determines its delay.
        Source::File => None,
    };
    [decodability(recording), longest_gap(recording)]
        .into_iter()
        .chain([link_return(recording)])
        .chain(delay_or_none)
        .chain([content(recording)])
        .collect()
}

/// Returns the number of broken promises.
pub(super) fn broken_count(promises: &[Promise]) -> usize {
    promises
        .iter()
        .filter(|promise| promise.verdict == Verdict::Broken)
        .count()
}

/// Returns the reason why no transport could keep the promises, if there is one. Either the
/// remaining link's delay exceeds the deadline, or the file exceeds the links' rate.
fn impossibility(recording: &Recording) -> Option<String> {
    let deadline = recording.deadline;
    let left = LINKS
        .iter()
        .enumerate()
        .filter(|(link, _)| *link != FAILING);
    let nearest = left.map(|(_, link)| link).min_by_key(|link| link.delay)?;
    if nearest.delay >= deadline && recording.reaches(OUTAGE_AT) {
        return Some(format!(
            "{}, alone in the outage, takes {} one way",
            nearest.name, nearest.delay
        ));
    }
    match recording.source {
        Source::Camera => None,
        Source::File => overload(recording),
    }
}

/// Returns a reason if the file's bitrate exceeds the links' rate.
fn overload(recording: &Recording) -> Option<String> {
    let all: DataRate = LINKS.iter().map(|link| link.rate).sum();
    let left = all.saturating_sub(LINKS[FAILING].rate);
    let to = recording.ended_at;
    let outage_end = RETURN_AT.min(to);
    let whole = recording.video_rate(recording.started_at, to);
    let during = recording.video_rate(OUTAGE_AT.min(outage_end), outage_end);
    if whole > all {
        Some(format!(
            "the file has {}, both links {all}",
            megabits(whole)
        ))
    } else if during > left {
        Some(format!(
            "the file has {} in the outage, the other link {left}",
            megabits(during)
        ))
    } else {
        None
    }
}

fn megabits(rate: DataRate) -> String {
    format!("{:.2} Mbit/s", rate.megabits_per_second())
}

fn decodability(recording: &Recording) -> Promise {
    let deadline = recording.deadline;
    let text = format!("at least 99.5 % of frames decodable within {deadline} of capture");
    let statistics = recording.frame_statistics(recording.whole());
    let share = statistics.decodable_on_time_ratio.unwrap_or(0.0);
    let (on_time, all) = (on_time(&statistics), statistics.captured);
    let measured = format!("{:.2} %: {on_time} of {all}", share * 100.0);
    judged_if_possible(recording, text, measured, share >= DECODABLE_SHARE)
}

fn longest_gap(recording: &Recording) -> Promise {
    let deadline = recording.deadline;
    let text = format!("no gap above {deadline} between displayable frames");
    let statistics = recording.frame_statistics(recording.whole());
    let (Some(gap), Some(from)) = (statistics.longest_gap_ms, statistics.longest_gap_from_s) else {
        return Promise {
            text,
            measured: "no frame was displayable".to_owned(),
            verdict: Verdict::Broken,
        };
    };
    let measured = format!("the longest was {gap:.0} ms, from {from:.2} s on");
    judged_if_possible(recording, text, measured, gap <= deadline.as_millis_f64())
}

fn judged_if_possible(
    recording: &Recording,
    text: String,
    measured: String,
    is_kept: bool,
) -> Promise {
    match impossibility(recording) {
        Some(reason) => Promise {
            text,
            measured: format!("{measured}; {reason}"),
            verdict: Verdict::NotJudged,
        },
        None => Promise {
            text,
            measured,
            verdict: Verdict::kept_if(is_kept),
        },
    }
}

fn link_return(recording: &Recording) -> Promise {
    let (before, after): (Vec<&Sample>, Vec<&Sample>) = recording
        .samples
        .iter()
        .partition(|sample| sample.at <= RETURN_AT);
    let back_at = before.last().and_then(|last| {
        after
            .iter()
            .find(|sample| {
                sample.received[FAILING].media_bytes > last.received[FAILING].media_bytes
            })
            .map(|sample| sample.at)
    });
    let (measured, verdict) = match back_at {
        Some(at) => {
            let after = at - RETURN_AT;
            let measured = format!("after {:.0} ms", after.as_millis_f64());
            (measured, Verdict::kept_if(after <= RETURN_WITHIN))
        }
        None if recording.reaches(RETURN_AT + RETURN_WITHIN) => {
            ("never".to_owned(), Verdict::Broken)
        }
        None => (
            format!("the run ended before {}", RETURN_AT + RETURN_WITHIN),
            Verdict::NotJudged,
        ),
    };
    Promise {
        text: format!("the returned link carries video again within {RETURN_WITHIN}"),
        measured,
        verdict,
    }
}

fn mean_delay(recording: &Recording) -> Promise {
    let most = MEAN_DELAY.min(recording.deadline);
    let text = format!("mean frame delay at most {most} outside the outage and 1 s after it");
    match recording
        .frame_statistics(recording.outside_outage())
        .delay_ms
    {
        Some(delay) => Promise {
            text,
            measured: format!("{:.1} ms", delay.mean),
            verdict: Verdict::kept_if(delay.mean <= most.as_millis_f64()),
        },
        None => Promise {
            text,
            measured: "no frame came".to_owned(),
            verdict: Verdict::Broken,
        },
    }
}

/// Returns the number of frames whose content was found to be so.
fn count(recording: &Recording, check: Check) -> usize {
    let frames = recording.frames.iter();
    frames.filter(|frame| frame.check == Some(check)).count()
}

fn content(recording: &Recording) -> Promise {
    let right = count(recording, Check::Right);
    let wrong = count(recording, Check::Wrong);
    let undecodable = count(recording, Check::Undecodable);
    let (text, measured) = match recording.source {
        Source::Camera => (
            "the number burnt into each displayable picture is its frame's",
            format!("{right} right, {wrong} wrong, {undecodable} not decodable"),
        ),
        Source::File => (
            "received units are byte for byte the sent ones",
            format!("{right} units identical, {wrong} not"),
        ),
    };
    Promise {
        text: text.to_owned(),
        measured,
        verdict: Verdict::kept_if(right > 0 && wrong + undecodable == 0),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
