//! Frames on their way from the session to the output, kept back until they are due.
//!
//! With a constant delay the bytes of a frame leave evenly, from when the frame before it was due
//! until it is due itself. So a stream of constant bitrate comes out as it went in, and its clock
//! references (PCR) with it; a picture that went in as a burst comes out spread over its interval.
//! Files get whole frames: nobody sees when they were written.

use std::collections::VecDeque;

use anabranch_core::ReceivedFrame;
use anabranch_units::{Duration, Importance, Instant};
use anabranch_video::player::{Fate, JitterBuffer, PeerClock, Player, PlayerFrame};

/// A piece is what leaves at a time: not less than a datagram's seven transport packets, …
const PIECE_BYTES: usize = 7 * PACKET_BYTES;
/// … of which each has so many bytes, …
const PACKET_BYTES: usize = 188;
/// … and not more often than this.
const SHORTEST_STEP: Duration = Duration::from_millis(1);
/// A frame that is due later than this after the one before follows a pause, and leaves at once.
const LONGEST_SPREAD: Duration = Duration::from_millis(250);
/// More bytes do not wait: the oldest leave before their time. It is the peer that chooses both
/// latency and rate.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What leaves at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Whole transport packets, if the frame is such.
    pub(crate) bytes: Vec<u8>,
    /// Whether a key frame begins with it.
    pub(crate) begins_key_frame: bool,
}

/// What a viewer's player would do with the frames: when each is due. All frames go out, also those
/// that cannot be decoded: what to make of them is the player's to say.
#[derive(Debug)]
pub(crate) struct Playout {
    buffer: JitterBuffer,
    is_spread: bool,
    player: Player,
    peer_clock: PeerClock,
    /// In the order of their times.
    waiting: VecDeque<Waiting>,
    /// Of all their bytes, also of those that have left.
    waiting_bytes: usize,
    last_due_at: Instant,
}

/// A frame that has not left, or not all of it.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    is_key: bool,
    /// How many bytes have left.
    gone: usize,
    /// Its first bytes leave at the one, and its last ones at the other.
    from: Instant,
    due_at: Instant,
}

impl Waiting {
    /// How many bytes leave at a time.
    fn step_bytes(&self) -> usize {
        let span = self.due_at.saturating_since(self.from);
        let steps = (span.as_nanos() / SHORTEST_STEP.as_nanos()).max(1) as usize;
        let least = self
            .bytes
            .len()
            .div_ceil(steps)
            .next_multiple_of(PACKET_BYTES);
        least.max(PIECE_BYTES)
    }

    /// When the next bytes leave: each at its place between first and last.
    fn next_at(&self) -> Instant {
        let span = self.due_at.saturating_since(self.from);
        let share = self.gone as f64 / self.bytes.len().max(1) as f64;
        self.from + span.mul_f64(share)
    }

    /// The bytes whose time has come.
    fn take(&mut self, now: Instant) -> Piece {
        let from = self.gone;
        let step = self.step_bytes();
        while self.gone < self.bytes.len() && self.next_at() <= now {
            self.gone = (self.gone + step).min(self.bytes.len());
        }
        Piece {
            bytes: self.bytes[from..self.gone].to_vec(),
            begins_key_frame: from == 0 && self.is_key,
        }
    }
}

impl Playout {
    /// A session begins. `is_spread`: whether somebody watches when the bytes of a frame leave.
    pub(crate) fn new(buffer: JitterBuffer, is_spread: bool, now: Instant) -> Self {
        Playout {
            buffer,
            is_spread: is_spread && matches!(buffer, JitterBuffer::Fixed(_)),
            player: Player::new(buffer, now),
            peer_clock: PeerClock::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_due_at: now,
        }
    }

    /// Takes the next frame in order.
    pub(crate) fn push(&mut self, now: Instant, frame: ReceivedFrame) {
        let clock = &mut self.peer_clock;
        let played = PlayerFrame {
            importance: frame.importance,
            captured_at: clock.captured_at(frame.captured_at, frame.first_at, now),
            is_complete: true,
        };
        let due_at = match self.player.on_frame(now, played) {
            Fate::Displayed(display) => display.at,
            Fate::Undecodable | Fate::Lost => now,
        };
        // One that cannot be displayed passes with those before it.
        let before = self.last_due_at;
        self.last_due_at = before.max(due_at);
        let due_at = self.last_due_at;
        let is_spread = self.is_spread && due_at.saturating_since(before) <= LONGEST_SPREAD;
        let from = if is_spread { before.max(now) } else { due_at };
        self.waiting_bytes += frame.bytes.len();
        self.waiting.push_back(Waiting {
            is_key: frame.importance.is_key(),
            bytes: frame.bytes,
            gone: 0,
            from: from.min(due_at),
            due_at,
        });
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

    /// When the next bytes are due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let next_at = self.waiting.front().map(Waiting::next_at);
        match self.waiting_bytes > MAX_WAITING_BYTES {
            true => next_at.map(|_| Instant::ZERO),
            false => next_at,
        }
    }

    /// The next bytes, if they are due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Piece> {
        let front = self.waiting.front_mut()?;
        if self.waiting_bytes > MAX_WAITING_BYTES {
            (front.from, front.due_at) = (front.from.min(now), front.due_at.min(now));
        }
        if front.next_at() > now {
            return None;
        }
        let piece = front.take(now);
        if front.gone == front.bytes.len() {
            self.waiting_bytes -= front.bytes.len();
            self.waiting.pop_front();
        }
        Some(piece)
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
            "playout {}{delay}: {} frames in time, {} late, {} of them skipped; {} \
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

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Frame `id` of 25 a second, by a clock that is an hour ahead.
    fn frame(id: u64, importance: Importance, size_bytes: usize) -> ReceivedFrame {
        let captured_at = Instant::from_secs(3_600) + Duration::from_millis(40 * id);
        ReceivedFrame {
            id: FrameId(id),
            importance,
            captured_at,
            size_bytes,
            bytes: vec![id as u8; size_bytes],
            first_at: at(0),
            completed_at: at(0),
        }
    }

    /// A frame comes, all of it at once.
    fn push(playout: &mut Playout, now: Instant, frame: ReceivedFrame) {
        let first_at = now;
        playout.push(now, ReceivedFrame { first_at, ..frame });
    }

    fn popped(playout: &mut Playout, now: Instant) -> Option<(u8, usize, bool)> {
        let piece = playout.pop(now)?;
        Some((piece.bytes[0], piece.bytes.len(), piece.begins_key_frame))
    }

    #[test]
    fn frames_leave_evenly_that_came_unevenly() {
        let buffer = JitterBuffer::Fixed(Duration::from_millis(200));
        let mut playout = Playout::new(buffer, true, at(800));
        for (id, came_at) in [(0, 1_000), (1, 1_190), (2, 1_200)] {
            let importance = Importance::key_if(id == 0);
            push(
                &mut playout,
                at(came_at),
                frame(id, importance, 4 * PIECE_BYTES),
            );
        }
        // After a pause, at once; then evenly over the interval.
        assert_eq!(playout.next_at(), Some(at(1_200)));
        assert_eq!(popped(&mut playout, at(1_199)), None);
        let all = 4 * PIECE_BYTES;
        assert_eq!(popped(&mut playout, at(1_200)), Some((0, all, true)));
        for (due_at, id) in [(1_200, 1), (1_240, 2)] {
            for quarter in 0..4 {
                let now = at(due_at + 10 * quarter);
                assert_eq!(playout.next_at(), Some(now));
                assert_eq!(popped(&mut playout, now), Some((id, PIECE_BYTES, false)));
            }
        }
        assert_eq!(playout.next_at(), None);
        let summary = playout.summary(at(1_300));
        assert!(summary.starts_with("playout 200 ms"), "{summary}");
        assert!(summary.contains("3 frames in time, 0 late"), "{summary}");
    }

    /// A frame that takes long to leave the sender is not late for that, nor does it make the
    /// latency longer than was asked for.
    #[test]
    fn the_latency_counts_from_the_first_packet() {
        let buffer = JitterBuffer::Fixed(Duration::from_millis(200));
        let mut playout = Playout::new(buffer, true, at(0));
        for id in 0..3 {
            let began = 1_000 + 40 * id;
            let first_at = at(began);
            let frame = frame(id, Importance::key_if(id == 0), 188);
            playout.push(at(began + 64), ReceivedFrame { first_at, ..frame });
        }
        assert_eq!(popped(&mut playout, at(1_200)), Some((0, 188, true)));
        assert_eq!(playout.next_at(), Some(at(1_200)));
    }

    #[test]
    fn what_comes_late_is_spread_over_what_is_left() {
        let buffer = JitterBuffer::Fixed(Duration::from_millis(100));
        let mut playout = Playout::new(buffer, true, at(0));
        push(&mut playout, at(50), frame(0, Importance::Key, 188));
        assert_eq!(popped(&mut playout, at(150)), Some((0, 188, true)));
        // Half of its interval has passed.
        push(
            &mut playout,
            at(170),
            frame(1, Importance::Reference, 2 * PIECE_BYTES),
        );
        assert_eq!(popped(&mut playout, at(170)), Some((1, PIECE_BYTES, false)));
        assert_eq!(playout.next_at(), Some(at(180)));
        assert_eq!(popped(&mut playout, at(180)), Some((1, PIECE_BYTES, false)));
    }

    #[test]
    fn a_large_frame_leaves_in_steps_of_a_millisecond() {
        let buffer = JitterBuffer::Fixed(Duration::from_millis(100));
        let mut playout = Playout::new(buffer, true, at(0));
        push(&mut playout, at(50), frame(0, Importance::Key, 188));
        push(
            &mut playout,
            at(90),
            frame(1, Importance::Reference, 2_000 * 188),
        );
        assert_eq!(popped(&mut playout, at(150)), Some((0, 188, true)));
        let mut count = 0;
        while let Some(next_at) = playout.next_at() {
            assert!(next_at <= at(190));
            let (_, bytes, _) = popped(&mut playout, next_at).unwrap();
            assert_eq!(bytes % 188, 0);
            count += 1;
        }
        assert_eq!(count, 40);
    }

    #[test]
    fn frames_that_cannot_be_displayed_stay_in_order() {
        let mut playout =
            Playout::new(JitterBuffer::Fixed(Duration::from_millis(100)), true, at(0));
        push(&mut playout, at(50), frame(0, Importance::Key, 1));
        playout.on_dropped(at(60));
        push(&mut playout, at(130), frame(2, Importance::Reference, 1));
        push(&mut playout, at(140), frame(3, Importance::Key, 1));
        assert_eq!(popped(&mut playout, at(150)), Some((0, 1, true)));
        assert_eq!(popped(&mut playout, at(150)), Some((2, 1, false)));
        assert_eq!(playout.next_at(), Some(at(150)));
        assert!(playout.summary(at(300)).contains("1 undecodable, 1 lost"));
    }

    #[test]
    fn memory_is_bounded_whatever_latency_and_rate() {
        let buffer = JitterBuffer::Fixed(Duration::from_secs(60));
        let mut playout = Playout::new(buffer, false, at(0));
        let (mut sent, mut written) = (0, 0);
        for id in 0..1_000 {
            let frame = frame(id, Importance::Key, 1 << 20);
            sent += frame.bytes.len();
            playout.push(at(40 * id), frame);
            while let Some(piece) = playout.pop(at(40 * id)) {
                written += piece.bytes.len();
            }
            assert!(sent - written <= MAX_WAITING_BYTES, "{id}");
        }
        assert!(playout.next_at() > Some(at(40_000)), "the rest has time");
    }

    #[test]
    fn without_a_buffer_frames_are_due_as_they_come() {
        let mut playout = Playout::new(JitterBuffer::Off, true, at(0));
        push(&mut playout, at(70), frame(0, Importance::Key, 5_000));
        assert_eq!(popped(&mut playout, at(70)), Some((0, 5_000, true)));
    }
}
