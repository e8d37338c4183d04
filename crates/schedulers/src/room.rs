//! Common part of schedulers that wait for a window: they choose among the paths that have room for
//! a packet, and hold it while none has.

use core::cmp::Ordering;
use core::fmt::Debug;

use anabranch_core::scheduler::{
    Assignment, PacketKind, PacketView, Scheduler, SendQueue, eligible_paths,
};
use anabranch_core::{PathId, PathSet, PathView, SessionView};
use anabranch_units::{Duration, Instant};

use super::binding::Binding;

/// Returns the paths that `packet` may take and that have room for it now. A path that is suspect
/// or in reserve does not replace an active one without room.
pub(super) fn with_room<'a>(
    packet: &PacketView,
    paths: &'a [PathView],
) -> impl Iterator<Item = &'a PathView> + Clone {
    let bytes = u64::from(packet.bytes);
    eligible_paths(packet, paths).filter(move |path| path.sendable_bytes >= bytes)
}

/// Returns the smoothed round-trip time with the user's preference; 100 ms while unknown.
pub(super) fn rtt(path: &PathView) -> Duration {
    path.preferred(path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT))
}

/// Returns the mean deviation of round-trip times; zero while unknown.
pub(super) fn variation(path: &PathView) -> Duration {
    let known = path.rtt.smoothed.map(|_| path.rtt.variation);
    known.unwrap_or_default()
}

/// Returns the window in bytes; without a window, the bytes that the controller sends in a round
/// trip.
pub(super) fn window_bytes(path: &PathView) -> u64 {
    let rtt = path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT);
    path.congestion_window
        .unwrap_or_else(|| path.drain_rate().bytes_in(rtt))
}

/// Returns the path of the least round-trip time, of equal ones the first.
pub(super) fn least_rtt<'a>(paths: impl Iterator<Item = &'a PathView>) -> Option<&'a PathView> {
    paths.min_by_key(|path| rtt(path))
}

/// Returns the path of the most `merit`; of equal ones that of the least round-trip time, of these
/// the first.
pub(super) fn most<'a, M: PartialOrd>(
    paths: impl Iterator<Item = &'a PathView>,
    merit: impl Fn(&PathView) -> M,
) -> Option<&'a PathView> {
    paths.min_by(|a, b| {
        let by_merit = merit(b).partial_cmp(&merit(a)).unwrap_or(Ordering::Equal);
        by_merit.then(rtt(a).cmp(&rtt(b)))
    })
}

/// Chooses the path of one packet, as [`PathChoice`](super::PathChoice) does, by all data of the
/// session that waits.
pub(super) trait SessionChoice: Debug + Send {
    /// Begins a call: `paths` and `session` are as the session shows them, `queue` waits. The
    /// session may omit calls while no path has room, if the choice
    /// [`holds_alike`](Self::holds_alike) and packets are in flight on all paths.
    fn begin(
        &mut self,
        _now: Instant,
        _queue: &SendQueue<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
    }

    /// Whether it chooses the path of retransmissions as well.
    fn is_of_retransmissions(&self) -> bool {
        false
    }

    /// Whether it holds each packet for which no path has room, and each that differs from a held
    /// one only in its place in the queue. It is not asked about such packets.
    fn holds_alike(&self) -> bool {
        false
    }

    /// Returns the path for `packet`; `None` holds it. Packets bound in this call count in `paths`.
    fn choose(
        &mut self,
        packet: &PacketView,
        session: &SessionView,
        paths: &[PathView],
    ) -> Option<PathId>;
}

/// Makes a scheduler of a [`SessionChoice`]. Retransmissions follow the session's rule, the path
/// that delivers first, unless they are its choice too.
#[derive(Debug, Default)]
pub(super) struct BySession<C> {
    choice: C,
    binding: Binding,
}

impl<C: SessionChoice> Scheduler for BySession<C> {
    fn needs_room(&self) -> bool {
        self.choice.holds_alike() && self.choice.is_of_retransmissions()
    }

    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        fn fits(packet: &PacketView, most: u64) -> bool {
            u64::from(packet.bytes) <= most
        }

        self.binding.begin(paths);
        self.choice.begin(now, queue, session, paths);
        let mut held: Option<&PacketView> = None;
        for (index, packet) in queue.iter() {
            if held.is_some_and(|held| are_alike(held, packet)) {
                continue;
            }
            let is_own = packet.kind() == PacketKind::Source || self.choice.is_of_retransmissions();
            let chosen = if is_own {
                self.choice.choose(packet, session, &self.binding.paths)
            } else {
                self.binding.by_rule(packet)
            };
            if let Some(id) = chosen {
                self.binding.bind(index, packet, PathSet::only(id), out);
                held = None;
            } else if self.choice.holds_alike() {
                let most = self
                    .binding
                    .paths
                    .iter()
                    .map(|path| path.sendable_bytes)
                    .max()
                    .unwrap_or_default();
                if is_own && (most == 0 || !queue.iter().any(|(_, packet)| fits(packet, most))) {
                    break;
                }
                held = Some(packet);
            }
        }
    }
}

fn are_alike(a: &PacketView, b: &PacketView) -> bool {
    (a.bytes, a.reason, a.avoid, a.in_flight_on) == (b.bytes, b.reason, b.avoid, b.in_flight_on)
}
