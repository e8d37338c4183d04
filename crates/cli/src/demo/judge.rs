//! The demo's promises, and whether a run kept them.

use core::ops::Range;

use anabranch_units::{DataRate, Duration, Instant};

use super::ledger::{Check, FrameRecord, mean};
use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use super::recording::{Recording, Source};

/// Share of all captured frames that come within the deadline.
const COMPLETE_SHARE: f64 = 0.995;
/// The mean frame delay outside the outage, where the deadline leaves so much.
const MEAN_DELAY: Duration = Duration::from_millis(150);
/// How soon the returned link carries video.
const RETURN_WITHIN: Duration = Duration::from_secs(1);
/// What still counts as the outage after the link is back.
const SETTLING: Duration = Duration::from_secs(1);

/// A promise and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) text: String,
    pub(super) measured: String,
    pub(super) verdict: Verdict,
}

/// What became of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Broken,
    /// The run cannot tell.
    NotJudged,
}

impl Verdict {
    fn kept_if(is_kept: bool) -> Self {
        match is_kept {
            true => Verdict::Kept,
            false => Verdict::Broken,
        }
    }
}

/// Judges a run by the promises for its source.
pub(super) fn judge(recording: &Recording) -> Vec<Promise> {
    let delay_or_none = match recording.source {
        Source::Camera => Some(mean_delay(recording)),
        // What a fixed bitrate does to the delay is the file's affair.
        Source::File => None,
    };
    [completeness(recording), longest_gap(recording)]
        .into_iter()
        .chain([link_return(recording)])
        .chain(delay_or_none)
        .chain([content(recording)])
        .collect()
}

/// How many promises are broken.
pub(super) fn broken_count(promises: &[Promise]) -> usize {
    let is_broken = |promise: &&Promise| promise.verdict == Verdict::Broken;
    promises.iter().filter(is_broken).count()
}

/// What no transport can do is nobody's promise: a link that takes longer than the deadline, and
/// is alone for a while; a file that is faster than the links. The reason, if it is so.
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

/// Whether a file asks more of the links than they carry.
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

fn completeness(recording: &Recording) -> Promise {
    let deadline = recording.deadline;
    let text = format!("at least 99.5 % of frames complete within {deadline} of capture");
    let all_count = recording.frames.len();
    let in_time = |frame: &&FrameRecord| frame.delay().is_some_and(|delay| delay <= deadline);
    let in_time_count = recording.frames.iter().filter(in_time).count();
    let share = in_time_count as f64 / all_count.max(1) as f64;
    let measured = format!("{:.2} %: {in_time_count} of {all_count}", share * 100.0);
    judged_if_possible(recording, text, measured, share >= COMPLETE_SHARE)
}

fn longest_gap(recording: &Recording) -> Promise {
    let deadline = recording.deadline;
    let text = format!("no gap above {deadline} between displayable frames");
    let whole = Instant::ZERO..recording.ended_at.max(Instant::from_millis(1));
    let Some((gap, from)) = longest_gap_in(recording, &whole) else {
        return Promise {
            text,
            measured: "no frame was displayable".to_owned(),
            verdict: Verdict::Broken,
        };
    };
    let measured = format!(
        "the longest was {:.0} ms, from {:.2} s on",
        gap.as_millis_f64(),
        from.as_secs_f64()
    );
    judged_if_possible(recording, text, measured, gap <= deadline)
}

/// The longest time that one picture stood still, of those that began in `span`, and since when;
/// `None` if no picture came then.
pub(super) fn longest_gap_in(
    recording: &Recording,
    span: &Range<Instant>,
) -> Option<(Duration, Instant)> {
    let mut shown_at = recording
        .frames
        .iter()
        .filter(|frame| frame.is_displayable)
        .filter_map(|frame| frame.delivered_at);
    let mut last_at = shown_at.next()?;
    // A picture that stands still until the end is a gap too.
    let gaps = shown_at.chain([recording.ended_at]).map(|at| {
        let gap = (at.saturating_since(last_at), last_at);
        last_at = last_at.max(at);
        gap
    });
    gaps.filter(|(_, from)| span.contains(from)).max()
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
    let promise = |measured: String, verdict| Promise {
        text: format!("the returned link carries video again within {RETURN_WITHIN}"),
        measured,
        verdict,
    };
    let video_bytes =
        |sample: &super::recording::Sample| sample.paths[FAILING].received_media_bytes;
    let (before, after): (Vec<_>, Vec<_>) = recording
        .samples
        .iter()
        .partition(|sample| sample.at <= RETURN_AT);
    let back_at = before.last().and_then(|last| {
        after
            .iter()
            .find(|sample| video_bytes(sample) > video_bytes(last))
            .map(|sample| sample.at)
    });
    match back_at {
        Some(at) => {
            let after = at - RETURN_AT;
            let measured = format!("after {:.0} ms", after.as_millis_f64());
            promise(measured, Verdict::kept_if(after <= RETURN_WITHIN))
        }
        None if recording.reaches(RETURN_AT + RETURN_WITHIN) => {
            promise("never".to_owned(), Verdict::Broken)
        }
        None => promise(
            format!("the run ended before {}", RETURN_AT + RETURN_WITHIN),
            Verdict::NotJudged,
        ),
    }
}

/// Whether a frame met neither the outage nor what followed.
pub(super) fn is_outside_outage(captured_at: Instant, delivered_at: Instant) -> bool {
    delivered_at < OUTAGE_AT || captured_at >= RETURN_AT + SETTLING
}

fn mean_delay(recording: &Recording) -> Promise {
    let most = MEAN_DELAY.min(recording.deadline);
    let text = format!("mean frame delay at most {most} outside the outage and 1 s after it");
    let delays: Vec<Duration> = recording
        .frames
        .iter()
        .filter(|frame| {
            frame
                .delivered_at
                .is_some_and(|at| is_outside_outage(frame.captured_at, at))
        })
        .filter_map(FrameRecord::delay)
        .collect();
    match mean(&delays) {
        Some(mean) => Promise {
            text,
            measured: format!("{:.1} ms", mean.as_millis_f64()),
            verdict: Verdict::kept_if(mean <= most),
        },
        None => Promise {
            text,
            measured: "no frame came".to_owned(),
            verdict: Verdict::Broken,
        },
    }
}

fn content(recording: &Recording) -> Promise {
    let count = |check| {
        let frames = recording.frames.iter();
        frames.filter(|frame| frame.check == Some(check)).count()
    };
    let right = count(Check::Right);
    let wrong = count(Check::Wrong);
    let undecodable = count(Check::Undecodable);
    let (text, measured) = match recording.source {
        Source::Camera => (
            "the number burnt into each displayable picture is its frame's",
            format!("{right} right, {wrong} wrong, {undecodable} not decodable"),
        ),
        Source::File => (
            "what comes is byte for byte what was sent",
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
