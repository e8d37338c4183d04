//! Schedulers that bind one packet after the other, each to one path.

use core::fmt::Debug;

use anabranch_core::scheduler::{
    Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SendQueue, cheapest, fastest,
};
use anabranch_core::{PathId, PathSet, PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

use super::binding::count_bound;

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
        cheapest(packet, paths, |path| {
            path.preferred(self.cost(now, packet, path))
        })
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        PathCost::on_event(self, now, event);
    }
}

/// How long a packet of `bytes` bytes takes to the receiver: half the latest round-trip time, and
/// the queue before it at the drain rate (Zhang & Lei eq. 14; the session counts the packet too).
/// Of a path of which nothing is known, what its forecast says.
pub fn transfer_cost(path: &PathView, bytes: u64) -> Duration {
    let one_way = path.rtt.latest.map(|rtt| rtt / 2);
    one_way.unwrap_or(path.forecast.transit) + path.drain_rate().time_for(path.queued_bytes + bytes)
}

/// The path's bandwidth, for those that share by it.
pub(super) fn preferred_bandwidth(path: &PathView) -> DataRate {
    path.preferred_rate(path.bandwidth)
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
