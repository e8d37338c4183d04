//! Copies for the viewer: [`crate::Reinjection::Xlink`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::reinjector::{Reinjector, rtt};
use crate::config::Reinjection;
use crate::path_view::{PathId, PathView};
use crate::stream::xlink;

impl StreamSession {
    /// Updates the viewer's remaining play time `left` at `now`, without further data;
    /// [`Reinjection::Xlink`] follows it. Returns whether there may be something to send.
    pub fn on_play_time_left(&mut self, now: Instant, left: Duration) -> bool {
        if self.config.stream.reinjection != Reinjection::Xlink {
            return false;
        }
        self.content.feedback.on_play_time_left(now, left);
        let is_wanted = self
            .content
            .feedback
            .wants_copies(now, longest_delivery(&self.views));
        if is_wanted {
            self.content.request_scheduling();
        }
        is_wanted
    }
}

impl Reinjector<'_> {
    /// Reinjects the start of the stream once all of it has been sent: its segments in flight go
    /// before later data.
    pub(super) fn reinject_start(&mut self) -> bool {
        let send = &self.stream.send;
        let is_in_flight = send.acked_offset() < xlink::START_BYTES
            && send.next_offset() > 0
            && !send.has_unsent_below(xlink::START_BYTES);
        is_in_flight && self.reinject_all_below(xlink::START_BYTES)
    }

    /// Copies segments in flight below an offset to other paths with room, nearest first, if the
    /// viewer needs it: no copy in flight counts. Returns whether it copied any.
    pub(super) fn reinject_all_below(&mut self, offset: u64) -> bool {
        let longest = longest_delivery(self.views);
        if !self.stream.feedback.wants_copies(self.now, longest) {
            return false;
        }
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let open = self.views.iter().filter(could_send);
        let mut open: Vec<(Duration, PathId)> = open.map(|view| (rtt(view), view.id)).collect();
        open.sort_unstable();
        let mut is_any = false;
        for (_, by) in open {
            is_any |= self.copy_in_flight(by, offset, |_, _| None);
        }
        is_any
    }
}

/// Returns the longest round trip, with its variation, of the paths that have packets in flight.
fn longest_delivery(views: &[PathView]) -> Duration {
    let carrying = views.iter().filter(|view| view.bytes_in_flight > 0);
    let times = carrying.map(|view| rtt(view) + view.rtt.variation);
    times.max().unwrap_or(Duration::ZERO)
}
