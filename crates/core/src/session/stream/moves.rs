//! Bound segments move to the path that delivers them first.

use super::placement::{Placement, latest_arrival};
use crate::path_view::PathId;

impl Placement<'_> {
    /// Moves bound packets to the path with room that delivers a packet first, if they would arrive
    /// later elsewhere. Used when no new data can be bound, since the limit is reached. Returns
    /// whether it moved any.
    pub(super) fn rebind_later_ones(&mut self) -> bool {
        self.earliest().is_some_and(|by| self.move_later_ones(by))
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
                let is_only_copy = self.stream.send.is_bound_once(packet.frame.0);
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
