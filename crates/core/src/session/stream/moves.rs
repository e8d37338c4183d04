//! Bound segments move to the path that delivers them first.

use anabranch_units::Duration;

use super::StreamSession;
use crate::forecast::Priority;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;

impl StreamSession {
    /// Moves bound packets to the path with room that delivers a packet first, if they would arrive
    /// later elsewhere. Used when no new data can be bound, since the limit is reached. Returns
    /// whether it moved any.
    pub(super) fn rebind_later_ones(&mut self) -> bool {
        self.earliest().is_some_and(|by| self.move_later_ones(by))
    }

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
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let views = self.views.iter().filter(could_send);
        let earliest = views.min_by_key(|view| latest_arrival(view, 0));
        earliest.map(|view| view.id)
    }

    /// Binds to a path, as far as it has room, packets that wait for others' windows or pacers and
    /// would arrive later there, the last first. Returns whether it moved any.
    pub(super) fn move_later_ones(&mut self, by: PathId) -> bool {
        let to = &self.views[by.index()];
        let (mut bytes, mut moved) = (0, Vec::new());
        for view in self.views.iter().filter(|view| view.id != by) {
            let from = &self.paths[view.id.index()];
            let leaves_at_once =
                view.pacing_rate.is_none() && from.has_window_beyond(from.queued_bytes());
            if leaves_at_once || view.sendable_bytes > 0 {
                continue;
            }
            let first = moved.len();
            let mut queued_bytes = view.queued_bytes;
            for packet in from.bound_sources().rev() {
                let with_it = bytes + u64::from(packet.bytes);
                let is_later = latest_arrival(to, with_it) < view.forecast.arrival(queued_bytes);
                let is_only_copy = self.content.send.is_bound_once(packet.frame.0);
                if !is_later || !is_only_copy || with_it > to.sendable_bytes {
                    break;
                }
                queued_bytes -= u64::from(packet.bytes);
                bytes = with_it;
                moved.push((view.id, *packet));
            }
            moved[first..].reverse();
        }
        for (from, packet) in &moved {
            self.paths[from.index()].unbind_frame(packet.frame);
            self.views[from.index()].queued_bytes -= u64::from(packet.bytes);
            self.bind_to(by, *packet);
        }
        !moved.is_empty()
    }
}

/// Returns the latest arrival of `bytes` more bytes that are bound to a path now.
pub(super) fn latest_arrival(view: &PathView, bytes: u64) -> Duration {
    view.arrival(Priority::New, bytes) + view.forecast.delay_margin
}
