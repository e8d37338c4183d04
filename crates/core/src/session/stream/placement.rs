//! Places segments that have been bound or sent before on other paths: [`crate::Reinjection`] and
//! the first flight of a session.

use anabranch_units::{Duration, Instant};

use super::Stream;
use crate::config::Config;
use crate::forecast::Priority;
use crate::path::Path;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;
use crate::session::sizes::Sizes;

/// Paths and segments at one moment, by views that are up to date.
#[derive(Debug)]
pub(super) struct Placement<'a> {
    pub(super) now: Instant,
    pub(super) config: &'a Config,
    pub(super) sizes: &'a Sizes,
    pub(super) paths: &'a mut [Path],
    pub(super) views: &'a mut [PathView],
    pub(super) stream: &'a mut Stream,
}

impl Placement<'_> {
    /// Binds a packet to a path, and counts it in the view.
    pub(super) fn bind_to(&mut self, by: PathId, packet: PacketView) {
        self.paths[by.index()].bind_next(packet);
        let view = &mut self.views[by.index()];
        view.queued_bytes += u64::from(packet.bytes);
        view.sendable_bytes = match view.pacing_rate {
            Some(_) => 0,
            None => view.sendable_bytes.saturating_sub(u64::from(packet.bytes)),
        };
    }

    /// Returns the path with room that delivers a packet first.
    pub(super) fn earliest(&self) -> Option<PathId> {
        let views = self
            .views
            .iter()
            .filter(|view| view.is_in_service() && view.sendable_bytes > 0);
        let earliest = views.min_by_key(|view| latest_arrival(view, 0));
        earliest.map(|view| view.id)
    }
}

/// Returns the latest arrival of `bytes` more bytes that are bound to a path now.
pub(super) fn latest_arrival(view: &PathView, bytes: u64) -> Duration {
    view.arrival(Priority::New, bytes) + view.forecast.delay_margin
}
