//! Which paths stand by: metered ones, while the others suffice.

use anabranch_units::{DataRate, Duration, Instant};

use super::Media;
use crate::config::MediaConfig;
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::session::are_present;
use crate::standby::{self, Unmetered};

impl Media {
    /// Marks in the views the paths that stand by. With forward error correction, losses need no
    /// other copy.
    pub(super) fn mark_standby(&self, paths: &[Path], views: &mut [PathView]) {
        self.standby.mark(paths, views);
        if self.fec_sender.is_none() {
            let waiting_bytes = self.send_buffer.waiting_bytes();
            let deadline = self.send_buffer.deadline();
            for id in spoilers(paths, views, deadline, waiting_bytes).iter() {
                views[id.index()].is_standby = true;
            }
        }
    }

    /// Updates the choice of metered paths by the present views, in which it is marked.
    pub(super) fn update_standby(
        &mut self,
        now: Instant,
        media: &MediaConfig,
        paths: &[Path],
        views: &mut [PathView],
    ) {
        let media_rate = self.probing.media_rate();
        if self.standby.update(now, paths, views, media, media_rate) {
            self.mark_standby(paths, views);
            self.binding.request();
        }
    }
}

/// Inverse of the share of their slack within which the other paths must deliver all that waits.
const SHARE_OF_SLACK: u64 = 2;

/// Returns the paths that lose packets too late for another copy, if the others can carry all that
/// waits. One lost packet then costs its frame, and all that need it.
fn spoilers(paths: &[Path], views: &[PathView], deadline: Duration, waiting_bytes: u64) -> PathSet {
    if paths.len() < 2 {
        return PathSet::EMPTY;
    }
    let nearest = views
        .iter()
        .filter(|view| view.is_in_service())
        .map(|view| view.forecast.empty_arrival())
        .min();
    let Some(nearest) = nearest else {
        return PathSet::EMPTY;
    };
    let spoilers: PathSet = paths
        .iter()
        .zip(views)
        .filter(|(path, view)| {
            let known_after = path.recovery.loss_delay();
            path.may_be_spoiler()
                && view.risk.recent_max_loss > 0.0
                && known_after + nearest > deadline
        })
        .map(|(path, _)| path.id)
        .collect();
    if spoilers.is_empty() {
        return PathSet::EMPTY;
    }
    let (mut queued_bytes, mut carried_bytes) = (waiting_bytes, 0);
    for view in views {
        if spoilers.contains(view.id) || !view.is_in_service() {
            continue;
        }
        let slack = deadline.saturating_sub(view.forecast.empty_arrival());
        queued_bytes += view.queued_bytes + view.forecast.backed_up_bytes;
        carried_bytes += view.drain_rate().bytes_in(slack / SHARE_OF_SLACK);
    }
    if carried_bytes > queued_bytes {
        spoilers
    } else {
        PathSet::EMPTY
    }
}

/// Metered paths of a session, and whether they stand by.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// `None` if the session has never had a metered path.
    decision: Option<Box<standby::Standby>>,
}

impl Standby {
    /// Handles a path that has joined, metered or not.
    pub(super) fn on_path_joined(&mut self, is_metered: bool) {
        if is_metered {
            self.decision
                .get_or_insert_with(|| Box::new(standby::Standby::new()));
        }
    }

    /// Returns whether the session has ever had a metered path.
    pub(super) fn has_metered(&self) -> bool {
        self.decision.is_some()
    }

    /// Returns whether metered paths stand by. Never while all others are silent.
    pub(super) fn are_metered_in_reserve(&self, paths: &[Path]) -> bool {
        self.decision
            .as_deref()
            .is_some_and(standby::Standby::is_in_reserve)
            && (paths.iter()).any(|path| !path.is_metered() && path.state() == PathState::Active)
    }

    /// Returns whether the path stands by.
    pub(super) fn is_standby(&self, paths: &[Path], id: PathId) -> bool {
        paths[id.index()].is_metered() && self.are_metered_in_reserve(paths)
    }

    /// Marks in the views the paths that stand by, by their controllers or as metered ones.
    fn mark(&self, paths: &[Path], views: &mut [PathView]) {
        let is_saving = self.are_metered_in_reserve(paths);
        for (view, path) in views.iter_mut().zip(paths) {
            view.is_standby = !path.control().is_usable || is_saving && path.is_metered();
        }
    }

    /// Returns whether bandwidth of unmetered paths is worth probing for, since metered ones carry
    /// traffic that it could replace.
    pub(super) fn is_unmetered_bandwidth_wanted(&self) -> bool {
        let decision = self.decision.as_deref();
        decision.is_some_and(standby::Standby::is_bandwidth_wanted)
    }

    /// Updates the choice of metered paths by the state of all paths. Returns whether it has
    /// changed.
    pub(super) fn update(
        &mut self,
        now: Instant,
        paths: &[Path],
        views: &[PathView],
        media: &MediaConfig,
        media_rate: DataRate,
    ) -> bool {
        debug_assert!(are_present(views, paths, now));
        let Some(decision) = &mut self.decision else {
            return false;
        };
        let mut unmetered = Unmetered {
            queueing_delay: Duration::MAX,
            ..Unmetered::default()
        };
        for path in paths {
            if !path.is_metered() && path.state() == PathState::Active {
                unmetered.path_count += 1;
                let forecast = &views[path.id.index()].forecast;
                let queueing_delay = unmetered.queueing_delay.min(forecast.queueing_delay);
                unmetered.queueing_delay = queueing_delay;
                unmetered.queued_bytes += path.queued_bytes() + forecast.backed_up_bytes;
                if path.control().is_usable {
                    unmetered.bandwidth += forecast.rate;
                }
            }
        }
        let needed = standby::needed(media.source, media_rate);
        decision.update(now, needed, media.deadline, &unmetered)
    }
}
