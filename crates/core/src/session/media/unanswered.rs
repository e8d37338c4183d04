//! Copies while no path answers: a share of the media, and no more.
//!
//! RFC 8085 §3.1 has a sender without feedback send no faster than with it. Copies are asked for by
//! the very silence that keeps their answers away, so each could ask for the next. While no path
//! answers, they are paid from an account that the media fills; the others wait for an answer.

use anabranch_units::Instant;

use crate::fec::Budget;
use crate::path::Path;
use crate::path_view::PathState;
use crate::scheduler::{PacketKind, PacketView};
use crate::send_reason::SendReason;
use crate::session::questions::Questions;

/// Returns whether an answer is missing, and no path has shown since it was due that it lives.
fn is_unanswered(paths: &[Path], now: Instant) -> bool {
    let Some(missed_at) = first_missed_answer_at(paths, now) else {
        return false;
    };
    !paths.iter().any(|path| answers(path, missed_at, now))
}

/// Returns when the first answer was due that has not come.
fn first_missed_answer_at(paths: &[Path], now: Instant) -> Option<Instant> {
    paths
        .iter()
        .filter_map(|path| match path.state() {
            PathState::Active | PathState::Suspect => path
                .recovery
                .answer_due_at()
                .filter(|due_at| *due_at <= now),
            PathState::Out => path.liveness.silent_since(),
            PathState::Removed => None,
        })
        .min()
}

/// Returns whether another copy of `bytes` bytes on the wire may be asked for by silence alone,
/// though these packets wait.
pub(super) fn may_copy_blindly(
    now: Instant,
    paths: &[Path],
    waiting: &[PacketView],
    budget: &Budget,
    bytes: u32,
) -> bool {
    if !is_unanswered(paths, now) {
        return true;
    }
    let retransmitted = waiting
        .iter()
        .take_while(|packet| is_retransmission(packet));
    let bytes = retransmitted.map(|packet| packet.bytes).sum::<u32>() + bytes;
    budget.has_room_without_answer(bytes)
}

/// Returns whether copies wait though no path answers.
pub(super) fn has_blind_copies(now: Instant, paths: &[Path], waiting: &[PacketView]) -> bool {
    waiting.first().is_some_and(is_retransmission) && is_unanswered(paths, now)
}

/// Returns the number of waiting packets, from the first on, that are held until a path answers.
/// Copies of the newest frames, which have the most time left, are sent for the others.
pub(super) fn held_copies(waiting: &[PacketView], budget: &Budget) -> usize {
    let retransmission_count = waiting.partition_point(is_retransmission);
    let mut bytes = 0;
    let paid_count = waiting[..retransmission_count]
        .iter()
        .rev()
        .take_while(|packet| {
            bytes += packet.bytes;
            budget.has_room_without_answer(bytes)
        })
        .count();
    retransmission_count - paid_count
}

/// Asks the other paths whether they answer, if none has shown it: the copies that are held then
/// leave one round trip later, and not with the next report.
pub(super) fn ask_for_life(now: Instant, paths: &mut [Path], questions: &mut Questions) {
    if !is_unanswered(paths, now) {
        return;
    }
    for path in paths {
        if path.state() == PathState::Active && path.expected_response.is_none() {
            questions.ask(path, SendReason::PathChallenge);
        }
    }
}

/// Returns whether a path has answered since then or a moment ago, and misses no answer itself.
fn answers(path: &Path, missed_at: Instant, now: Instant) -> bool {
    let recovery = &path.recovery;
    let is_heard = recovery.last_acked_at() > missed_at || recovery.is_just_heard(now);
    path.state() == PathState::Active
        && is_heard
        && recovery.answer_due_at().is_none_or(|due_at| due_at > now)
}

fn is_retransmission(packet: &PacketView) -> bool {
    packet.kind() == PacketKind::Retransmission
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;

    use super::*;
    use crate::fragment::FrameId;
    use crate::path_view::PathSet;

    #[test]
    fn copies_of_the_newest_frames_are_sent_blind() {
        fn copy(number: u64, bytes: u32) -> PacketView {
            PacketView {
                frame: FrameId(number),
                fragment: 0,
                fragment_count: 1,
                reason: SendReason::Lost,
                importance: Importance::Reference,
                bytes,
                deadline: None,
                in_flight_on: PathSet::EMPTY,
                avoid: PathSet::EMPTY,
            }
        }
        let budget = Budget::new(Instant::ZERO);
        let mut room = 0;
        while budget.has_room_without_answer(room + 1) {
            room += 1;
        }
        // The oldest one needs all of the room, each other a third.
        let waiting = [copy(1, room), copy(2, room / 3), copy(3, room / 3)];
        assert_eq!(held_copies(&waiting, &budget), 1);
        let waiting = [copy(1, room / 3), copy(2, room / 3), copy(3, room)];
        assert_eq!(held_copies(&waiting, &budget), 2);
    }
}
