//! Policies for copies of a stream's segments in flight: one file for each published algorithm.

mod linux;
mod xlink;

use anabranch_core::reinjection::ReinjectorFactory;
use anabranch_core::{PathView, Reinjection};
use anabranch_units::Duration;

/// An entry of [`REINJECTIONS`].
pub type ReinjectionEntry = (&'static str, fn() -> Reinjection);

/// All policies by their names: none, ours, and the published ones.
pub const REINJECTIONS: [ReinjectionEntry; 4] = [
    ("off", || Reinjection::Off),
    ("linux", linux_reinjection),
    ("tail", || Reinjection::Tail),
    ("xlink", xlink_reinjection),
];

/// Returns Linux's reinjection: when the peer's window is full, a slower path that holds the
/// awaited segment is penalised. If it is much slower or its window is tiny, a path that could send
/// takes a copy (Raiciu et al., NSDI 2012, §4.2, and Linux's `mptcp_sched.c`).
pub fn linux_reinjection() -> Reinjection {
    Reinjection::By(ReinjectorFactory::new("linux", linux::build))
}

/// Returns XLINK's reinjection: when nothing else is to be sent, and for the start, while the
/// viewer's play time left is short (Zheng et al., SIGCOMM 2021, and
/// [`on_play_time_left`](anabranch_core::StreamSession::on_play_time_left)).
pub fn xlink_reinjection() -> Reinjection {
    Reinjection::By(ReinjectorFactory::new("xlink", xlink::build))
}

/// Returns whether a path could send a packet at once.
fn is_open(view: &PathView) -> bool {
    view.is_in_service() && view.sendable_bytes > 0
}

/// Returns the path's smoothed round-trip time, or a usual one before its first sample.
fn rtt(view: &PathView) -> Duration {
    view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT)
}
