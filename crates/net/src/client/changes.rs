//! Changes of a client that its owner makes while it runs.

use anabranch_core::{PathOptions, SourceLimits};
use anabranch_units::{DataRate, Duration, Instant};

use super::ClientRole;
use super::path_manager::Change;
use crate::load::{Frames, Load};

impl<L: Load> ClientRole<L> {
    /// Sets whether the user pays for a path by volume, in later sessions, too.
    pub(crate) fn set_metered(&mut self, now: Instant, index: usize, is_metered: bool) {
        self.change_options(now, index, |options| options.is_metered = is_metered);
    }

    /// Sets the limit of a path's rate, in later sessions, too.
    pub(crate) fn set_max_rate(&mut self, now: Instant, index: usize, max: Option<DataRate>) {
        self.change_options(now, index, |options| options.max_rate = max);
    }

    /// Sets whether a path has a cap, in later sessions, too.
    pub(crate) fn set_capped(&mut self, now: Instant, index: usize, is_capped: bool) {
        self.change_options(now, index, |options| options.is_capped = is_capped);
    }

    fn change_options(
        &mut self,
        now: Instant,
        index: usize,
        change: impl FnOnce(&mut PathOptions),
    ) {
        let Some(managed) = self.paths.get_mut(index) else {
            return;
        };
        change(&mut managed.path.options);
        let options = managed.path.options;
        if let Some(driver) = &mut self.driver {
            driver.set_options(now, index, options);
        }
    }

    /// Closes a path's port, or opens it again.
    pub(crate) fn switch_path(&mut self, index: usize, is_on: bool) {
        if index < self.paths.count() {
            self.paths.push_change(Change::Switch(index, is_on));
        }
    }

    /// Changes the latency of this session and of later ones.
    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.config.latency = Some(latency);
        if let Some(driver) = &mut self.driver
            && !self.config.keeps_deadline
        {
            driver.set_latency(latency);
        }
    }
}

impl ClientRole<Frames> {
    /// Changes the limits of the encoder, in this session and later ones.
    pub(crate) fn set_source(&mut self, source: SourceLimits) {
        self.config.transport.media.source = source;
        if let Some(driver) = &mut self.driver {
            driver.set_source(source);
        }
    }
}
