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
    /// Returns the path for `packet`, which is sent for the first time; `None` holds it. Packets
    /// bound in this call already count in [`PathView::queued_bytes`] and
    /// [`PathView::sendable_bytes`].
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId>;

    /// As [`Scheduler::on_event`].
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}
}

/// Cost of sending a packet on a path. The cheapest path gets the packet: every cost is a
/// [`PathChoice`].
pub trait PathCost: Debug + Send {
    /// Returns the cost of `packet` on `path`. Only the order of costs matters.
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

/// Returns the time of a packet of `bytes` bytes to the receiver: half the latest round-trip time,
/// and the queue before it at the drain rate (Zhang & Lei eq. 14; the session counts the packet
/// too). For an unknown path the forecast's transit replaces the round-trip time.
pub fn transfer_cost(path: &PathView, bytes: u64) -> Duration {
    let one_way = path.rtt.latest.map(|rtt| rtt / 2);
    one_way.unwrap_or(path.forecast.one_way_delay)
        + path.drain_rate().time_for(path.queued_bytes + bytes)
}

/// Returns the path's bandwidth with the user's preference, for schedulers that share by it.
pub(super) fn preferred_bandwidth(path: &PathView) -> DataRate {
    path.preferred_rate(path.bandwidth)
}

/// Makes a [`Scheduler`] of a [`PathChoice`]. Retransmissions follow the session's own rule, the
/// path that delivers first.
#[derive(Debug)]
pub struct OneByOne<C> {
    choice: C,
    /// The paths with the packets that the present call has bound.
    paths: Vec<PathView>,
}

impl<C: PathChoice> OneByOne<C> {
    /// Returns the scheduler of `choice`.
    pub fn new(choice: C) -> Self {
        OneByOne {
            choice,
            paths: Vec::new(),
        }
    }

    /// Binds the queued packets to `paths`, and counts them there.
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
            // A single path needs no list: one on the stack is in the cache.
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
