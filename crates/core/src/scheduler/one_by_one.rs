//! Schedulers that bind one packet after the other, each to one path.

use core::fmt::Debug;

use anabranch_units::{Duration, Instant};

use super::binding::count_bound;
use super::{Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::session_view::SessionView;

/// Chooses the path of one packet.
pub trait PathChoice: Debug + Send {
    /// The path for `packet`, which is sent for the first time; `None` holds it. What has been
    /// bound in this call counts in [`PathView::queued_bytes`] and [`PathView::sendable_bytes`]
    /// already.
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId>;

    /// As [`Scheduler::on_event`].
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}
}

/// What sending a packet on a path costs. The cheapest path gets it: every cost is a
/// [`PathChoice`].
pub trait PathCost: Debug + Send {
    /// The cost of `packet` on `path`. Only the order of costs matters.
    fn cost(&mut self, now: Instant, packet: &PacketView, path: &PathView) -> Duration;

    /// As [`Scheduler::on_event`].
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}
}

impl<C: PathCost> PathChoice for C {
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        candidates(packet, paths)
            .min_by_key(|path| self.cost(now, packet, path))
            .map(|path| path.id)
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        PathCost::on_event(self, now, event);
    }
}

/// How long a packet of `bytes` bytes takes to the receiver: half the latest round-trip time, and
/// the queue before it at the drain rate (Zhang & Lei eq. 14; the session counts the packet too).
pub fn transfer_cost(path: &PathView, bytes: u64) -> Duration {
    path.expected_rtt() / 2 + path.drain_rate().time_for(path.queued_bytes + bytes)
}

/// How long a retransmission of `bytes` bytes takes: only those before it delay it.
pub fn retransmission_cost(path: &PathView, bytes: u64) -> Duration {
    path.expected_rtt() / 2
        + path
            .drain_rate()
            .time_for(path.queued_retransmission_bytes + bytes)
}

/// Makes a [`Scheduler`] of a [`PathChoice`]. Retransmissions follow the session's own rule, the
/// path that delivers first.
#[derive(Debug)]
pub struct OneByOne<C> {
    choice: C,
    /// The paths as they are with what the present call has bound.
    paths: Vec<PathView>,
}

impl<C: PathChoice> OneByOne<C> {
    /// The scheduler that `choice` implies.
    pub fn new(choice: C) -> Self {
        OneByOne {
            choice,
            paths: Vec::new(),
        }
    }

    /// Binds what waits to `paths`, in which it counts then.
    fn bind(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        paths: &mut [PathView],
        out: &mut Vec<Assignment>,
    ) {
        for (index, packet) in queue.iter() {
            let chosen = match packet.kind() {
                PacketKind::Source => self.choice.choose(now, packet, paths),
                _ => fastest(packet, paths),
            };
            if let Some(id) = chosen {
                let bound_to = PathSet::only(id);
                count_bound(packet, bound_to, paths);
                out.push(Assignment {
                    index,
                    paths: bound_to,
                    proofs: PathSet::EMPTY,
                });
            }
        }
    }
}

impl<C: PathChoice> Scheduler for OneByOne<C> {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        match paths {
            // Of a single path no list is kept: one on the stack is in the cache.
            [only] => self.bind(now, queue, &mut [*only], out),
            _ => {
                let mut views = core::mem::take(&mut self.paths);
                views.clear();
                views.extend_from_slice(paths);
                self.bind(now, queue, &mut views, out);
                self.paths = views;
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        self.choice.on_event(now, event);
    }
}

/// The paths that `packet` may take: the active ones that it need not avoid, else any active one,
/// else those held in reserve, else any usable one (better a suspect path than none).
pub(super) fn candidates<'a>(
    packet: &PacketView,
    paths: &'a [PathView],
) -> impl Iterator<Item = &'a PathView> + Clone {
    best_of(paths, packet.avoid)
}

/// The paths that a packet may take from which nothing has been lost yet.
pub(super) fn usable(paths: &[PathView]) -> impl Iterator<Item = &PathView> + Clone {
    best_of(paths, PathSet::EMPTY)
}

fn best_of(paths: &[PathView], avoid: PathSet) -> impl Iterator<Item = &PathView> + Clone {
    let rank = move |path: &PathView| match path.state {
        PathState::Active if path.is_standby => 2,
        PathState::Active if !avoid.contains(path.id) => 0,
        PathState::Active => 1,
        PathState::Suspect => 3,
        PathState::Out | PathState::Removed => 4,
    };
    let best = paths.iter().map(rank).min().unwrap_or(4);
    paths
        .iter()
        .filter(move |path| rank(path) == best && best < 4)
}

/// The path that delivers `packet`, a retransmission, first.
pub(crate) fn fastest(packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
    candidates(packet, paths)
        .min_by_key(|path| retransmission_cost(path, u64::from(packet.bytes)))
        .map(|path| path.id)
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::*;

    #[test]
    fn only_what_is_bound_to_be_sent_again_delays_a_retransmission() {
        let path = PathView {
            latest_rtt: Some(Duration::from_millis(60)),
            bandwidth: DataRate::from_megabits_per_second(8),
            pacing_rate: None,
            queued_bytes: 50_000,
            queued_retransmission_bytes: 2_000,
            ..PathView::default()
        };
        // A kilobyte takes a millisecond.
        assert_eq!(transfer_cost(&path, 1_000), Duration::from_millis(81));
        assert_eq!(retransmission_cost(&path, 1_000), Duration::from_millis(33));
    }
}
