//! Copies while no path answers: a share of the media, and no more.
//!
//! RFC 8085 §3.1 has a sender without feedback send no faster than with it. Copies are asked for by
//! the very silence that keeps their answers away, so each could ask for the next. While no path
//! answers, they are paid from an account that the media fills; the others wait for an answer.

use anabranch_units::Instant;

use super::MediaSession;
use crate::path::Path;
use crate::path_view::PathState;
use crate::scheduler::{PacketKind, PacketView};

impl MediaSession {
    /// Returns whether an answer is missing, and no path has shown since it was due that it lives.
    pub(super) fn is_unanswered(&self, now: Instant) -> bool {
        let Some(missed_at) = self.first_missed_answer_at(now) else {
            return false;
        };
        !self.paths.iter().any(|path| may_answer(path, missed_at, now))
    }

    /// Returns when the first answer was due that has not come by any path in use.
    fn first_missed_answer_at(&self, now: Instant) -> Option<Instant> {
        let in_use = self.paths.iter().filter(|path| path.state().is_usable());
        let due = in_use.filter_map(|path| path.recovery.answer_due_at());
        due.filter(|due_at| *due_at <= now).min()
    }

    /// Returns whether another copy of `bytes` bytes on the wire may be asked for by silence alone.
    pub(super) fn may_copy_blindly(&self, now: Instant, bytes: u32) -> bool {
        if !self.is_unanswered(now) {
            return true;
        }
        let waiting = self.content.send_buffer.waiting().iter();
        let again = waiting.take_while(|packet| is_again(packet));
        let bytes = again.map(|packet| packet.bytes).sum::<u32>() + bytes;
        self.content.budget.has_room_without_answer(bytes)
    }

    /// Returns whether copies wait though no path answers.
    pub(super) fn has_blind_copies(&self, now: Instant) -> bool {
        let first = self.content.send_buffer.waiting().first();
        first.is_some_and(is_again) && self.is_unanswered(now)
    }

    /// Returns how many of the packets that wait, from the first on, are held until a path answers.
    /// Copies of the newest frames, which have the most time left, are sent for the others.
    pub(super) fn held_copies(&self) -> usize {
        let waiting = self.content.send_buffer.waiting();
        let again_count = waiting.partition_point(is_again);
        let mut bytes = 0;
        let fits = |packet: &&PacketView| {
            bytes += packet.bytes;
            self.content.budget.has_room_without_answer(bytes)
        };
        let paid_count = waiting[..again_count].iter().rev().take_while(fits).count();
        again_count - paid_count
    }
}

/// Returns whether a path has answered since then, or has not been asked for long enough.
fn may_answer(path: &Path, missed_at: Instant, now: Instant) -> bool {
    if path.state() != PathState::Active {
        return false;
    }
    let is_heard = path.recovery.last_acked_at() > missed_at;
    let is_asked_since = |sent_at: Instant| {
        sent_at >= missed_at && sent_at + path.recovery.usual_answer_time() > now
    };
    is_heard || path.recovery.oldest_sent_at().is_none_or(is_asked_since)
}

fn is_again(packet: &PacketView) -> bool {
    packet.kind() == PacketKind::Retransmission
}
