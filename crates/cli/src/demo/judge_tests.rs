//! Tests of each promise, kept and broken.

use core::ops::Range;

use anabranch_units::{Importance, Instant};

use super::super::network::SETTLED_AT;
use super::super::recording::testing::flawless;
use super::*;

/// Returns the verdict on the promise whose text contains `part`.
fn verdict(recording: &Recording, part: &str) -> Verdict {
    let promises = judge(recording);
    let mut found = promises
        .iter()
        .filter(|promise| promise.text.contains(part));
    let promise = found.next().expect("such a promise");
    assert!(found.next().is_none(), "one promise only");
    promise.verdict
}

/// Returns the index of the first frame captured at `at` or later.
fn frame_at(recording: &Recording, at: Instant) -> usize {
    recording
        .frames
        .partition_point(|frame| frame.captured_at < at)
}

/// Loses the first of some frames, so that none of them can be displayed. The next frame is a key
/// frame.
fn break_chain(recording: &mut Recording, frames: Range<usize>) {
    recording.frames[frames.start].delivered_at = None;
    recording.frames[frames.end].importance = Importance::Key;
    for frame in &mut recording.frames[frames] {
        frame.importance = Importance::Reference;
    }
}

#[test]
fn a_flawless_run_keeps_all_promises() {
    let promises = judge(&flawless());
    assert_eq!(promises.len(), 5);
    for promise in &promises {
        assert_eq!(promise.verdict, Verdict::Kept, "{promise:?}");
    }
    assert_eq!(broken_count(&promises), 0);
}

#[test]
fn late_frames_and_lost_frames_break_the_promise() {
    let mut recording = flawless();
    for frame in [100, 200, 300, 400] {
        recording.frames[frame].importance = Importance::Disposable;
    }
    recording.frames[100].delivered_at = None;
    recording.frames[200].delivered_at =
        Some(recording.frames[200].captured_at + Duration::from_millis(501));
    recording.frames[300].delivered_at = None;
    assert_eq!(verdict(&recording, "99.5 %"), Verdict::Kept);
    recording.frames[400].delivered_at = None;
    assert_eq!(verdict(&recording, "99.5 %"), Verdict::Broken);
    assert_eq!(broken_count(&judge(&recording)), 1);
}

#[test]
fn promises_are_for_the_deadline_that_was_asked_for() {
    let mut recording = flawless();
    for (millis, expected) in [(69, Verdict::Broken), (70, Verdict::Kept)] {
        recording.deadline = Duration::from_millis(millis);
        for (part, verdict) in [
            (format!("decodable within {millis} ms of"), expected),
            (format!("no gap above {millis} ms"), Verdict::Kept),
            (format!("mean frame delay at most {millis} ms"), expected),
        ] {
            assert_eq!(self::verdict(&recording, &part), verdict, "{part}");
        }
    }
    // 12 frames missing: a gap of 520 ms.
    break_chain(&mut recording, 100..112);
    for (deadline, expected) in [("500 ms", Verdict::Broken), ("2 s", Verdict::Kept)] {
        recording.deadline = deadline.parse().unwrap();
        assert_eq!(verdict(&recording, &format!("above {deadline}")), expected);
        assert_eq!(
            verdict(&recording, "mean frame delay at most 150 ms"),
            Verdict::Kept
        );
    }
}

#[test]
fn a_deadline_that_the_link_left_in_the_outage_cannot_keep_is_not_judged() {
    let mut recording = flawless();
    recording.deadline = LINKS[1].delay;
    for part in ["99.5 %", "no gap"] {
        assert_eq!(verdict(&recording, part), Verdict::NotJudged);
    }
    let promises = judge(&recording);
    let reason = "LTE, alone in the outage, takes 50 ms one way";
    assert!(promises[0].measured.ends_with(reason), "{promises:?}");
    recording.ended_at = Instant::from_secs(9);
    assert_eq!(verdict(&recording, "99.5 %"), Verdict::Broken);
}

#[test]
fn frames_that_cannot_be_displayed_make_a_gap() {
    let mut recording = flawless();
    let first = frame_at(&recording, Instant::from_secs(10));
    // 12 frames missing: 13 intervals of 40 ms.
    break_chain(&mut recording, first..first + 11);
    assert_eq!(verdict(&recording, "gap"), Verdict::Kept);
    break_chain(&mut recording, first..first + 12);
    assert_eq!(verdict(&recording, "gap"), Verdict::Broken);
    // All frames but the first one arrived.
    assert_eq!(recording.frame_statistics(recording.whole()).dropped, 1);
}

#[test]
fn a_picture_that_stands_still_to_the_end_is_a_gap() {
    let mut recording = flawless();
    let first = frame_at(&recording, Instant::from_secs(29));
    for frame in &mut recording.frames[first..] {
        frame.delivered_at = None;
    }
    assert_eq!(verdict(&recording, "gap"), Verdict::Broken);
}

#[test]
fn without_any_picture_the_gap_is_broken() {
    let mut recording = flawless();
    recording.frames.clear();
    assert_eq!(verdict(&recording, "gap"), Verdict::Broken);
    assert_eq!(verdict(&recording, "mean"), Verdict::Broken);
    assert_eq!(verdict(&recording, "burnt"), Verdict::Broken);
}

#[test]
fn padding_is_no_return_of_the_link() {
    let mut recording = flawless();
    let (before, after): (Vec<_>, Vec<_>) = recording
        .samples
        .iter_mut()
        .partition(|sample| sample.at <= RETURN_AT);
    let bytes = before.last().unwrap().received[FAILING].media_bytes;
    for sample in after {
        if sample.at <= RETURN_AT + RETURN_WITHIN {
            sample.received[FAILING].media_bytes = bytes;
        }
    }
    assert_eq!(verdict(&recording, "returned"), Verdict::Broken);
}

#[test]
fn the_return_is_not_judged_where_the_run_ends_before() {
    let mut recording = flawless();
    recording.ended_at = Instant::from_secs(15);
    recording
        .samples
        .retain(|sample| sample.at <= Instant::from_secs(15));
    assert_eq!(verdict(&recording, "returned"), Verdict::NotJudged);
    recording.ended_at = Instant::from_secs(16);
    assert_eq!(verdict(&recording, "returned"), Verdict::Broken);
}

#[test]
fn delays_in_the_outage_do_not_count_and_others_do() {
    let delay = Duration::from_millis(400);
    let mut recording = flawless();
    let during = frame_at(&recording, OUTAGE_AT)..frame_at(&recording, SETTLED_AT);
    for frame in &mut recording.frames[during.clone()] {
        frame.delivered_at = Some(frame.captured_at + delay);
    }
    assert_eq!(verdict(&recording, "mean"), Verdict::Kept);
    for frame in &mut recording.frames[during.end..] {
        frame.delivered_at = Some(frame.captured_at + delay);
    }
    assert_eq!(verdict(&recording, "mean"), Verdict::Broken);
}

#[test]
fn one_wrong_picture_breaks_the_promise() {
    for check in [Check::Wrong, Check::Undecodable] {
        let mut recording = flawless();
        recording.frames[33].check = Some(check);
        assert_eq!(verdict(&recording, "burnt"), Verdict::Broken);
        recording.source = Source::File;
        assert_eq!(verdict(&recording, "byte for byte"), Verdict::Broken);
    }
}

#[test]
fn a_file_that_the_links_cannot_carry_is_promised_nothing() {
    let mut recording = flawless();
    recording.source = Source::File;
    for frame in &mut recording.frames {
        frame.delivered_at = None;
        frame.payload_bytes = 16_000;
    }
    // 3.2 Mbit/s: too much for the remaining link.
    assert_eq!(verdict(&recording, "99.5 %"), Verdict::NotJudged);
    for frame in &mut recording.frames {
        frame.payload_bytes = 10_000;
    }
    assert_eq!(verdict(&recording, "99.5 %"), Verdict::Broken);
}
