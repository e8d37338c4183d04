//! Schedulers that deal a whole frame at once.

use core::fmt::Debug;

use anabranch_core::scheduler::{PacketView, SchedulerEvent, eligible_paths, fastest};
use anabranch_core::{FrameId, PathId, PathView};
use anabranch_units::Instant;

use super::PathChoice;

/// Deals the packets of a frame to paths.
pub(super) trait FrameDeal: Debug + Send {
    /// Appends the path of each of the `packet_count` packets, first to last, of a frame that is
    /// bound from now on; `packet` is the first of them. If it appends too few, the rest take the
    /// path that delivers first. `paths`, never empty, are the usable ones.
    fn deal(
        &mut self,
        now: Instant,
        packet: &PacketView,
        paths: &[PathView],
        turns: &mut Vec<PathId>,
    );

    /// As [`anabranch_core::scheduler::Scheduler::on_event`].
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}
}

/// Makes a [`PathChoice`] of a [`FrameDeal`].
#[derive(Debug)]
pub(super) struct FrameWise<D> {
    deal: D,
    /// The frame that `turns` is for.
    frame: Option<FrameId>,
    /// The paths of the frame's packets, and the number of those used.
    turns: Vec<PathId>,
    taken_count: usize,
    usable: Vec<PathView>,
}

impl<D: FrameDeal> FrameWise<D> {
    pub(super) fn new(deal: D) -> Self {
        FrameWise {
            deal,
            frame: None,
            turns: Vec::new(),
            taken_count: 0,
            usable: Vec::new(),
        }
    }
}

impl<D: FrameDeal> PathChoice for FrameWise<D> {
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let fastest = fastest(packet, paths)?;
        if self.frame != Some(packet.frame) {
            self.frame = Some(packet.frame);
            self.usable.clear();
            self.usable.extend(eligible_paths(packet, paths));
            self.turns.clear();
            self.taken_count = 0;
            self.deal.deal(now, packet, &self.usable, &mut self.turns);
            self.turns.truncate(usize::from(packet.fragment_count));
        }
        let dealt = self.turns.get(self.taken_count).copied();
        self.taken_count += 1;
        // A path that has become unusable since the frame was dealt loses its turns to the fastest.
        let turn = dealt.filter(|id| eligible_paths(packet, paths).any(|path| path.id == *id));
        Some(turn.unwrap_or(fastest))
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        self.deal.on_event(now, event);
    }
}

/// Interleaves paths like the classic weighted round robin of load balancers. It serves every path
/// whose load reaches a mark, which sinks from the largest load to one, beginning with path number
/// `first`. `load` returns the load of the path at an index, in packets.
pub(super) fn interleave(
    paths: &[PathView],
    first: u8,
    load: impl Fn(usize) -> u64,
    turns: &mut Vec<PathId>,
) {
    let largest = (0..paths.len()).map(&load).max().unwrap_or(0);
    for mark in (1..=largest).rev() {
        for turn in 0..paths.len() {
            let index = (usize::from(first) + turn) % paths.len();
            if load(index) >= mark {
                turns.push(paths[index].id);
            }
        }
    }
}
