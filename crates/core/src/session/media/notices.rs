//! Notices about given-up frames, so that the receiver does not wait for them.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::media::FrameId;
use crate::path::Path;
use crate::path_view::PathId;
use crate::session::Event;
use crate::session::output::Output;
use crate::wire;

/// Number of notices per frame, on one usable path after the other. If all are lost, the receiver
/// only waits until its budget expires.
const REPETITIONS: u8 = 3;
/// Interval of these notices.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most ranges that wait; the oldest make way.
const MAX_RANGES: usize = 32;

/// Notices that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct Notices {
    ranges: VecDeque<Range>,
    next_at: Instant,
    /// Counts notices, so that paths take turns.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    count: u64,
    repetitions: u8,
}

impl Notices {
    /// Reports a given-up frame to the application, and queues the notice for the receiver.
    pub(super) fn on_given_up(&mut self, now: Instant, frame: FrameId, output: &mut Output) {
        output.counters.frames_late += 1;
        output.events.push_back(Event::late(frame));
        self.add(now, frame);
    }

    fn add(&mut self, now: Instant, frame: FrameId) {
        if self.ranges.is_empty() {
            self.next_at = self.next_at.max(now);
        }
        if let Some(last) = self.ranges.back_mut()
            && last.repetitions == REPETITIONS
            && last.first + last.count == frame.0
        {
            last.count += 1;
            return;
        }
        if self.ranges.len() == MAX_RANGES {
            self.ranges.pop_front();
        }
        self.ranges.push_back(Range {
            first: frame.0,
            count: 1,
            repetitions: REPETITIONS,
        });
    }

    /// Returns when the next notice is due, and on which path.
    #[inline]
    pub(super) fn due(&self, paths: &[Path]) -> Option<(Instant, PathId)> {
        // The usual case is none.
        if self.ranges.is_empty() {
            None
        } else {
            self.next(paths)
        }
    }

    /// Returns the path on which a notice is due now.
    #[inline]
    pub(super) fn due_on(&self, now: Instant, paths: &[Path]) -> Option<PathId> {
        let (at, path) = self.due(paths)?;
        (at <= now).then_some(path)
    }

    #[cold]
    fn next(&self, paths: &[Path]) -> Option<(Instant, PathId)> {
        let mut usable = paths.iter().filter(|path| path.state().is_usable());
        let turn = self.turn.checked_rem(usable.clone().count())?;
        let path = usable.nth(turn)?;
        Some((self.next_at, path.id))
    }

    /// Writes a notice of each range.
    pub(super) fn write(&mut self, now: Instant, buf: &mut Vec<u8>) {
        for range in &mut self.ranges {
            wire::write_frames_given_up(FrameId(range.first), range.count, buf);
            range.repetitions -= 1;
        }
        self.ranges.retain(|range| range.repetitions > 0);
        self.next_at = now + INTERVAL;
        self.turn = self.turn.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_is_sent_three_times() {
        let mut notices = Notices::default();
        let now = Instant::from_millis(5);
        for frame in [3, 4, 5, 9] {
            notices.add(now, FrameId(frame));
        }
        let mut lengths = Vec::new();
        while !notices.ranges.is_empty() {
            let mut buf = Vec::new();
            notices.write(now, &mut buf);
            lengths.push(buf.len());
        }
        // Type, first and count of two ranges.
        assert_eq!(lengths, [6, 6, 6]);
    }
}
