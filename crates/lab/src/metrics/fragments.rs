//! Follows packets of media from their frame's capture to the arrival of the first copy.

use std::collections::VecDeque;

use anabranch_core::PathId;
use anabranch_sim::{FragmentId, FrameEvent};
use anabranch_units::{Duration, Instant};

/// Packets of a flow's frames that have been captured and whose outcome is not known.
#[derive(Clone, Debug)]
pub(super) struct FragmentTrails {
    /// Trails of the followed frames, in order and without gaps, as frames are numbered; then
    /// unused ones for later frames.
    frames: VecDeque<FrameTrail>,
    followed_count: usize,
    /// Index of the first frame.
    first_index: u64,
    /// Arrived packet that is farthest in the media.
    farthest: Option<FragmentId>,
    /// Whether there are paths to switch between.
    has_paths: bool,
    last_path: Option<PathId>,
}

#[derive(Clone, Debug, Default)]
struct FrameTrail {
    captured_at: Instant,
    /// By fragment; the list grows when one is seen.
    fragments: Vec<Trail>,
}

/// Progress of a packet.
#[derive(Clone, Copy, Debug, Default)]
enum Trail {
    #[default]
    Unseen,
    /// Recorded only if there are paths to switch between.
    Sent,
    Arrived(Instant),
}

impl Trail {
    fn arrived_at(self) -> Option<Instant> {
        match self {
            Trail::Unseen | Trail::Sent => None,
            Trail::Arrived(at) => Some(at),
        }
    }
}

/// Arrival of the first copy of a packet of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentArrival {
    /// Time since its frame's capture.
    pub(super) took: Duration,
    /// Whether a packet that is later in the media has arrived before it.
    pub(super) is_out_of_order: bool,
    /// Times since the arrivals of its neighbours in the frame, as far as they have arrived.
    pub(super) gaps: [Option<Duration>; 2],
}

impl FragmentTrails {
    /// Returns the trails of a flow over `path_count` paths.
    pub(super) fn new(path_count: usize) -> Self {
        FragmentTrails {
            frames: VecDeque::new(),
            followed_count: 0,
            first_index: 0,
            farthest: None,
            has_paths: path_count > 1,
            last_path: None,
        }
    }

    pub(super) fn on_captured(&mut self, frame: &FrameEvent) {
        let expected = self.first_index + self.followed_count as u64;
        debug_assert!(self.followed_count == 0 || frame.index == expected);
        if self.followed_count == 0 {
            self.first_index = frame.index;
        }
        if self.followed_count == self.frames.len() {
            self.frames.push_back(FrameTrail::default());
        }
        self.frames[self.followed_count].captured_at = frame.captured_at;
        self.followed_count += 1;
    }

    /// Removes the oldest frame, whose outcome is known.
    pub(super) fn on_outcome(&mut self, frame: &FrameEvent) {
        while self.followed_count > 0 && self.first_index <= frame.index {
            self.frames[0].fragments.clear();
            self.frames.rotate_left(1);
            self.first_index += 1;
            self.followed_count -= 1;
        }
    }

    /// Handles a packet that is sent. Returns whether it is a new one on another path than the one
    /// before.
    pub(super) fn on_sent(&mut self, id: FragmentId, path: PathId) -> bool {
        if !self.has_paths {
            return false;
        }
        let Some(frame) = self.frame(id) else {
            return false;
        };
        let trail = frame.trail(id);
        let Trail::Unseen = trail else {
            return false;
        };
        *trail = Trail::Sent;
        let last = self.last_path.replace(path);
        last.is_some_and(|last| last != path)
    }

    /// Handles an arrived packet; `None`: another copy has arrived before, or its frame's outcome
    /// is known.
    pub(super) fn on_arrived(&mut self, now: Instant, id: FragmentId) -> Option<FragmentArrival> {
        fn gap(
            neighbour: Option<usize>,
            now: Instant,
            frame_fragments: &[Trail],
        ) -> Option<Duration> {
            let neighbour = frame_fragments.get(neighbour?)?;
            Some(now - neighbour.arrived_at()?)
        }

        let frame = self.frame(id)?;
        let trail = frame.trail(id);
        if let Trail::Arrived(_) = std::mem::replace(trail, Trail::Arrived(now)) {
            return None;
        }
        let index = usize::from(id.fragment);
        let gaps = [
            gap(index.checked_sub(1), now, &frame.fragments),
            gap(Some(index + 1), now, &frame.fragments),
        ];
        let took = now.saturating_since(frame.captured_at);
        let is_out_of_order = self.farthest > Some(id);
        self.farthest = self.farthest.max(Some(id));
        Some(FragmentArrival {
            took,
            is_out_of_order,
            gaps,
        })
    }

    fn frame(&mut self, id: FragmentId) -> Option<&mut FrameTrail> {
        let ahead = u64::from(id.frame).checked_sub(self.first_index)?;
        let ahead = usize::try_from(ahead).ok()?;
        let is_followed = ahead < self.followed_count;
        is_followed.then(|| &mut self.frames[ahead])
    }
}

impl FrameTrail {
    fn trail(&mut self, id: FragmentId) -> &mut Trail {
        let index = usize::from(id.fragment);
        if self.fragments.len() <= index {
            self.fragments.resize(index + 1, Trail::default());
        }
        &mut self.fragments[index]
    }
}

#[cfg(test)]
mod tests {
    use anabranch_sim::FlowId;
    use anabranch_units::Importance;

    use super::*;

    fn frame(index: u64) -> FrameEvent {
        FrameEvent {
            flow: FlowId(0),
            index,
            captured_at: Instant::from_millis(40 * index),
            size_bytes: 4_000,
            importance: Importance::Reference,
        }
    }

    fn id(frame: u32, fragment: u16) -> FragmentId {
        FragmentId { frame, fragment }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn gaps_are_between_consecutive_packets_of_a_frame_in_either_order() {
        fn arrive(millis: u64, id: FragmentId, trails: &mut FragmentTrails) -> FragmentArrival {
            trails.on_arrived(Instant::from_millis(millis), id).unwrap()
        }

        let mut trails = FragmentTrails::new(2);
        trails.on_captured(&frame(1));
        trails.on_captured(&frame(2));
        let first = arrive(100, id(1, 0), &mut trails);
        assert_eq!((first.took, first.gaps), (ms(60), [None, None]));
        assert_eq!(arrive(107, id(1, 2), &mut trails).gaps, [None, None]);
        assert!(!arrive(108, id(2, 0), &mut trails).is_out_of_order);
        let middle = arrive(110, id(1, 1), &mut trails);
        assert_eq!(middle.gaps, [Some(ms(10)), Some(ms(3))]);
        assert!(middle.is_out_of_order);
    }

    #[test]
    fn copies_and_packets_of_frames_that_are_over_do_not_count() {
        let mut trails = FragmentTrails::new(2);
        trails.on_captured(&frame(0));
        trails.on_captured(&frame(1));
        let now = Instant::from_millis(50);
        assert!(trails.on_arrived(now, id(0, 0)).is_some());
        assert!(trails.on_arrived(now, id(0, 0)).is_none());
        trails.on_outcome(&frame(0));
        assert!(trails.on_arrived(now, id(0, 1)).is_none());
        assert!(trails.on_arrived(now, id(1, 0)).is_some());
    }

    #[test]
    fn a_switch_is_a_new_packet_on_another_path_than_the_one_before() {
        fn send(fragment: u16, path: u8, trails: &mut FragmentTrails) -> bool {
            trails.on_sent(id(0, fragment), PathId(path))
        }

        let mut trails = FragmentTrails::new(2);
        trails.on_captured(&frame(0));
        let switches = [
            send(0, 0, &mut trails),
            send(1, 0, &mut trails),
            send(2, 1, &mut trails),
            // Another copy, which is no new packet.
            send(0, 0, &mut trails),
            send(3, 1, &mut trails),
            send(4, 0, &mut trails),
        ];
        assert_eq!(switches, [false, false, true, false, false, true]);
    }
}
