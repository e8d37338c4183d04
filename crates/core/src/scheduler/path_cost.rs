//! Schedulers that are one cost per path.

use core::fmt::Debug;

use anabranch_units::{Duration, Instant};

use super::{Assignment, PacketKind, PacketView, Scheduler, SendQueue};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::session_view::SessionView;

/// What sending a packet on a path costs; the cheapest path gets it.
pub trait PathCost: Debug + Send {
    /// The cost of `packet` on `path`, whose [`PathView::queued_bytes`] counts what has been bound
    /// in this call too. Only the order of costs matters.
    fn cost(&mut self, now: Instant, packet: &PacketView, path: &PathView) -> Duration;

    /// `packet` has been bound to `path`.
    fn on_bound(&mut self, _packet: &PacketView, _path: &PathView) {}
}

/// How long a packet of `bytes` bytes takes to the receiver: half the latest round-trip time, and
/// the queue before it at the drain rate (Zhang & Lei eq. 14; the session counts the packet
/// too).
pub fn transfer_cost(path: &PathView, bytes: u64) -> Duration {
    path.latest_rtt.unwrap_or(PathView::UNKNOWN_RTT) / 2
        + path.drain_rate().time_for(path.queued_bytes + bytes)
}

/// Makes a [`Scheduler`] of a [`PathCost`].
#[derive(Debug)]
pub struct ByPathCost<C> {
    cost: C,
    paths: Vec<PathView>,
}

impl<C: PathCost> ByPathCost<C> {
    /// The scheduler that `cost` implies.
    pub fn new(cost: C) -> Self {
        ByPathCost {
            cost,
            paths: Vec::new(),
        }
    }
}

impl<C: PathCost> Scheduler for ByPathCost<C> {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.paths.clear();
        self.paths.extend_from_slice(paths);
        for (index, packet) in queue.iter() {
            let bytes = u64::from(packet.bytes);
            let chosen = match packet.kind {
                PacketKind::Retransmission => fastest(packet, &self.paths),
                PacketKind::Source => candidates(packet, &self.paths)
                    .min_by_key(|path| self.cost.cost(now, packet, path))
                    .map(|path| path.id),
            };
            let Some(id) = chosen else { return };
            let path = &mut self.paths[id.index()];
            if packet.kind == PacketKind::Source {
                self.cost.on_bound(packet, path);
            }
            path.queued_bytes += bytes;
            out.push(Assignment {
                index,
                paths: PathSet::only(id),
            });
        }
    }
}

/// The paths that `packet` may take: the active ones that it need not avoid, else any active one,
/// else any usable one (better a suspect path than none).
pub(super) fn candidates<'a>(
    packet: &PacketView,
    paths: &'a [PathView],
) -> impl Iterator<Item = &'a PathView> {
    let avoid = packet.avoid;
    let rank = move |path: &PathView| match path.state {
        PathState::Active if !avoid.contains(path.id) => 0,
        PathState::Active => 1,
        PathState::Suspect => 2,
        PathState::Out | PathState::Removed => 3,
    };
    let best = paths.iter().map(rank).min().unwrap_or(3);
    paths
        .iter()
        .filter(move |path| rank(path) == best && best < 3)
}

/// The path that delivers `packet` first, for what does not follow a scheduler's own rule:
/// retransmissions (`docs/algorithms.md`).
pub(super) fn fastest(packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
    candidates(packet, paths)
        .min_by_key(|path| transfer_cost(path, u64::from(packet.bytes)))
        .map(|path| path.id)
}
