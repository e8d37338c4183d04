use anabranch_units::Duration;

use super::super::tests::{buffer_of, id};
use super::*;
use crate::fragment::FrameId;

const NOW: Instant = Instant::ZERO;
/// Deadline of frames captured now.
const DUE_MILLIS: u64 = 500;

/// Returns prospects with this chance of the copies in flight, known after 100 ms. Another copy
/// arrives after `arrives_after_millis`.
fn outlook(chance: f64, arrives_after_millis: u64) -> Outlook {
    Outlook {
        now: NOW,
        chance,
        known_after: Duration::from_millis(100),
        arrives_after: Duration::from_millis(arrives_after_millis),
        delay_margin: Duration::ZERO,
        loss_reported_after: Duration::from_millis(100),
    }
}

/// Returns the verdict on a fragment in flight, of a frame of this importance.
fn verdict(importance: Importance, chance: f64, arrives_after_millis: u64) -> Verdict {
    let mut buffer = buffer_of(importance);
    let outlook = outlook(chance, arrives_after_millis);
    buffer.reconsider(id(0, 1), SendReason::LastTry, &outlook)
}

#[test]
fn a_chance_that_is_enough_asks_for_nothing() {
    for importance in [Importance::Key, Importance::Reference] {
        assert_eq!(verdict(importance, 0.999, DUE_MILLIS), Verdict::Settled);
        assert_eq!(verdict(importance, 0.998, DUE_MILLIS), Verdict::SendCopy);
    }
    for (chance, expected) in [(0.5, Verdict::Settled), (0.49, Verdict::SendCopy)] {
        let disposable = verdict(Importance::Disposable, chance, DUE_MILLIS);
        assert_eq!(disposable, expected, "{chance}");
    }
}

#[test]
fn probable_arrival_delays_a_copy_while_time_is_left() {
    let early = verdict(Importance::Reference, 0.5, 400);
    assert_eq!(early, Verdict::Settled);
    let late = verdict(Importance::Reference, 0.5, 401);
    assert_eq!(late, Verdict::SendCopy, "the last moment");
}

#[test]
fn hopeless_fragment_is_copied_at_once() {
    assert_eq!(verdict(Importance::Reference, 0.0, 10), Verdict::SendCopy);
}

#[test]
fn late_fragment_is_given_up_unless_in_flight() {
    let late = outlook(0.0, DUE_MILLIS + 1);
    let mut buffer = buffer_of(Importance::Reference);
    let in_flight = buffer.reconsider(id(0, 1), SendReason::PathCongested, &late);
    assert_eq!(in_flight, Verdict::Settled, "it may arrive yet");
    buffer.on_lost(id(0, 1), PathId(0));
    let lost = buffer.reconsider(id(0, 1), SendReason::Lost, &late);
    assert_eq!(lost, Verdict::GiveUp);
    // Others need a key frame at any age.
    assert_eq!(
        verdict(Importance::Key, 0.0, DUE_MILLIS + 1),
        Verdict::SendCopy
    );
}

#[test]
fn of_a_fragment_that_waits_or_has_arrived_there_is_nothing_to_decide() {
    let mut buffer = buffer_of(Importance::Reference);
    let none = outlook(0.0, 10);
    buffer.queue_retransmission(id(0, 1), PathSet::EMPTY, SendReason::Lost);
    buffer.on_acked(FrameId(0), 2, PathId(0));
    for fragment in [1, 2] {
        let id = id(0, fragment);
        assert!(buffer.copies_in_flight(id).is_none());
        let verdict = buffer.reconsider(id, SendReason::Lost, &none);
        assert_eq!(verdict, Verdict::Settled);
    }
    assert!(
        buffer.copies_in_flight(id(7, 0)).is_none(),
        "there is no such frame"
    );
}

#[test]
fn where_copies_were_lost_and_how_many_fly_is_known() {
    let mut buffer = buffer_of(Importance::Reference);
    let (a, b) = (PathId(0), PathId(1));
    for path in [b, b, b] {
        buffer.on_sent(FrameId(0), 1, path, SendReason::LastTrySamePath);
    }
    buffer.on_lost(id(0, 1), a);
    for copies in [2, 1] {
        buffer.on_lost(id(0, 1), b);
        let copies_in_flight = buffer.copies_in_flight(id(0, 1)).unwrap();
        assert_eq!(copies_in_flight.in_flight_on, PathSet::only(b));
        assert_eq!(copies_in_flight.copies_on(b), copies);
        assert_eq!(copies_in_flight.copies_on(a), 0);
        assert_eq!(copies_in_flight.lost_on, [a, b].into_iter().collect());
    }
}
