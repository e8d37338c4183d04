//! Frames on their way from the session to the output, kept back until they are due.

use std::collections::VecDeque;

use anabranch_core::ReceivedFrame;
use anabranch_units::{Importance, Instant};
use anabranch_video::player::{Fate, JitterBuffer, PeerClock, Player, PlayerFrame};

/// What a viewer's player would do with the frames: when each is due. All frames go out, also those
/// that cannot be decoded: what to make of them is the player's to say.
#[derive(Debug)]
pub(crate) struct Playout {
    buffer: JitterBuffer,
    player: Player,
    peer_clock: PeerClock,
    /// In the order of their times.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    last_due_at: Instant,
}

impl Playout {
    /// A session begins.
    pub(crate) fn new(buffer: JitterBuffer, now: Instant) -> Self {
        Playout {
            buffer,
            player: Player::new(buffer, now),
            peer_clock: PeerClock::default(),
            waiting: VecDeque::new(),
            last_due_at: now,
        }
    }

    /// Takes the next frame in order.
    pub(crate) fn push(&mut self, now: Instant, frame: ReceivedFrame) {
        let played = PlayerFrame {
            importance: frame.importance,
            captured_at: self.peer_clock.captured_at(frame.captured_at, now),
            is_complete: true,
        };
        let due_at = match self.player.on_frame(now, played) {
            Fate::Displayed(display) => display.at,
            Fate::Undecodable | Fate::Lost => now,
        };
        // One that cannot be displayed passes with those before it.
        self.last_due_at = self.last_due_at.max(due_at);
        self.waiting.push_back((self.last_due_at, frame.bytes));
    }

    /// A frame was given up; what it was is unknown, so it may have been a reference.
    pub(crate) fn on_dropped(&mut self, now: Instant) {
        let lost = PlayerFrame {
            importance: Importance::Reference,
            captured_at: now,
            is_complete: false,
        };
        self.player.on_frame(now, lost);
    }

    /// When the next frame is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// The next frame, if it is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_at()? > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, bytes)| bytes)
    }

    /// What the viewer saw, in a line.
    pub(crate) fn summary(&self, now: Instant) -> String {
        let mut player = self.player.clone();
        player.finish(now);
        let counts = player.counts();
        let delay = player.delay().map_or(String::new(), |delay| {
            format!(", {:.0} ms at the end", delay.as_millis_f64())
        });
        format!(
            "jitter buffer {}{delay}: {} frames in time, {} late, {} of them skipped; {} \
             undecodable, {} lost; {} freezes, {:.2} s in all",
            self.buffer,
            counts.displayed + counts.skipped - counts.late,
            counts.late,
            counts.skipped,
            counts.undecodable,
            counts.lost,
            counts.freezes,
            counts.freeze_time.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::FrameId;
    use anabranch_units::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Frame `id` of 25 a second, by a clock that is an hour ahead.
    fn frame(id: u64, importance: Importance) -> ReceivedFrame {
        let captured_at = Instant::from_secs(3_600) + Duration::from_millis(40 * id);
        ReceivedFrame {
            id: FrameId(id),
            importance,
            captured_at,
            size_bytes: 1,
            bytes: vec![id as u8],
            first_at: at(0),
            completed_at: at(0),
        }
    }

    #[test]
    fn frames_leave_evenly_that_came_unevenly() {
        let mut playout = Playout::new("200 ms".parse().unwrap(), at(1_000));
        for (id, came_at) in [(0, 1_000), (1, 1_190), (2, 1_200)] {
            playout.push(at(came_at), frame(id, Importance::key_if(id == 0)));
        }
        for (due_at, id) in [(1_200, 0), (1_240, 1), (1_280, 2)] {
            assert_eq!(playout.next_at(), Some(at(due_at)));
            assert_eq!(playout.pop(at(due_at - 1)), None);
            assert_eq!(playout.pop(at(due_at)), Some(vec![id]));
        }
        assert_eq!(playout.next_at(), None);
        let summary = playout.summary(at(1_300));
        assert!(summary.starts_with("jitter buffer 200 ms"), "{summary}");
        assert!(summary.contains("3 frames in time, 0 late"), "{summary}");
    }

    #[test]
    fn frames_that_cannot_be_displayed_stay_in_order() {
        let mut playout = Playout::new(JitterBuffer::Fixed(Duration::from_millis(100)), at(0));
        playout.push(at(50), frame(0, Importance::Key));
        playout.on_dropped(at(60));
        playout.push(at(130), frame(2, Importance::Reference));
        playout.push(at(140), frame(3, Importance::Key));
        assert_eq!(playout.pop(at(150)), Some(vec![0]));
        assert_eq!(playout.pop(at(150)), Some(vec![2]));
        assert_eq!(playout.next_at(), Some(at(50 + 120 + 100 - 30)));
        assert!(playout.summary(at(300)).contains("1 undecodable, 1 lost"));
    }

    #[test]
    fn without_a_buffer_frames_are_due_as_they_come() {
        let mut playout = Playout::new(JitterBuffer::Off, at(0));
        playout.push(at(70), frame(0, Importance::Key));
        assert_eq!(playout.pop(at(70)), Some(vec![0]));
    }
}
