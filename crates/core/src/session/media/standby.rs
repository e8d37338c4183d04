//! Which paths stand by: metered ones, while the others suffice.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::standby::{Standby, Unmetered};

impl MediaSession {
    /// Handles a path that has joined, metered or not.
    pub(super) fn on_path_joined(&mut self, now: Instant, is_metered: bool) {
        if is_metered {
            self.content
                .standby
                .get_or_insert_with(|| Box::new(Standby::new(now)));
        }
    }

    /// Returns whether metered paths stand by. Never while all others are silent.
    pub(super) fn are_metered_in_reserve(&self) -> bool {
        let is_other = |path: &Path| !path.is_metered() && path.state() == PathState::Active;
        self.content
            .standby
            .as_deref()
            .is_some_and(Standby::is_in_reserve)
            && self.paths.iter().any(is_other)
    }

    /// Returns whether the path stands by.
    pub(super) fn is_standby(&self, id: PathId) -> bool {
        self.paths[id.index()].is_metered() && self.are_metered_in_reserve()
    }

    /// Returns whether bandwidth of unmetered paths is worth probing for, since metered ones carry
    /// traffic that it could replace.
    pub(super) fn is_unmetered_bandwidth_wanted(&self) -> bool {
        self.content
            .standby
            .as_ref()
            .is_some_and(|standby| standby.is_bandwidth_wanted())
    }

    /// Updates the choice of metered paths by the present views, in which it is marked.
    pub(super) fn update_standby(&mut self, now: Instant) {
        let Some(standby) = &mut self.content.standby else {
            return;
        };
        let mut unmetered = Unmetered {
            queueing_delay: Duration::MAX,
            ..Unmetered::default()
        };
        for path in &self.paths {
            if !path.is_metered() && path.state() == PathState::Active {
                unmetered.path_count += 1;
                let forecast = &self.views[path.id.index()].forecast;
                let queueing_delay = unmetered.queueing_delay.min(forecast.queueing_delay);
                unmetered.queueing_delay = queueing_delay;
                unmetered.queued_bytes += path.queued_bytes() + forecast.backed_up_bytes;
                if path.control().is_usable {
                    unmetered.bandwidth += forecast.rate;
                }
            }
        }
        let media = &self.config.media;
        if standby.update(now, media.source, media.deadline, &unmetered) {
            self.content.is_schedule_due = true;
            self.mark_standby();
        }
    }

    /// Marks in the views the paths that stand by, by their controllers or as metered ones.
    pub(super) fn mark_standby(&mut self) {
        let is_saving = self.are_metered_in_reserve();
        for (view, path) in self.views.iter_mut().zip(&self.paths) {
            view.is_standby = !path.control().is_usable || is_saving && path.is_metered();
        }
    }
}
