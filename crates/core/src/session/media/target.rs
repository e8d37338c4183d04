//! Target bitrate of the encoder.

use anabranch_units::{DataRate, Instant};

use super::MediaSession;
use crate::config::{PaddingPolicy, SourceLimits};
use crate::media::{self, Bandwidth, Demand};
use crate::path::Path;
use crate::path_view::PathState;
use crate::session::Event;

impl MediaSession {
    /// Sets the encoder's target to the paths' bandwidth, by the present views.
    pub(super) fn update_target(&mut self, now: Instant) {
        let (bandwidth, backlog_bytes) = match self.content.scheduler.is_redundant() {
            true => self.best_bandwidth(),
            false => self.bandwidth_of_all(),
        };
        let rates = self
            .paths_in_service()
            .map(|path| path.control().target_rate);
        let rate = rates.fold(DataRate::ZERO, |sum, rate| sum + rate);
        self.content.probing.on_rate(now, rate);
        let overhead = self.record_bandwidth(bandwidth, backlog_bytes);
        let demand = Demand::new(bandwidth, backlog_bytes, overhead);
        if self.content.demand.replace(demand) == Some(demand) {
            return;
        }
        let target = media::target_bitrate(&self.config.media, &demand);
        let before = self.content.target_bitrate.bits_per_second();
        self.content.target_bitrate = target;
        // A change of a percent is not worth an encoder's attention.
        if target.bits_per_second().abs_diff(before) * 100 > before {
            self.report_target(target);
        }
    }

    #[cold]
    fn report_target(&mut self, target: DataRate) {
        match self.events.back_mut() {
            Some(Event::TargetBitrate(last)) => *last = target,
            _ => self.events.push_back(Event::TargetBitrate(target)),
        }
    }

    /// Returns the bandwidth of the paths in service together, and the backlog.
    fn bandwidth_of_all(&self) -> (Bandwidth, u64) {
        let fraction = self.content.target_fraction;
        let mut backlog_bytes = self.backlog_bytes();
        let rates = self.paths_in_service().map(|path| {
            let (rate, backed_up_bytes) = self.carried(path);
            if backed_up_bytes > 0 {
                let most = media::most_drained_bytes(fraction, rate);
                backlog_bytes += backed_up_bytes.min(most);
            }
            rate
        });
        let bandwidth = Bandwidth::of(&self.config.media, fraction, rates);
        (bandwidth, backlog_bytes)
    }

    /// Returns the bandwidth of the best path, and its backlog: the others' queues are full of
    /// copies.
    #[cold]
    fn best_bandwidth(&self) -> (Bandwidth, u64) {
        let best = self
            .paths_in_service()
            .max_by_key(|path| self.carried(path).0);
        let queued_bytes = best.map_or(0, Path::queued_bytes);
        let rates = best.into_iter().map(|path| self.carried(path).0);
        let bandwidth = Bandwidth::of(&self.config.media, self.content.target_fraction, rates);
        let waiting_bytes = self.content.send_buffer.waiting_bytes();
        (bandwidth, waiting_bytes + queued_bytes)
    }

    fn paths_in_service(&self) -> impl Iterator<Item = &Path> {
        let is_saving = self.are_metered_in_reserve();
        self.paths.iter().filter(move |path| {
            path.state() == PathState::Active
                && path.control().is_usable
                && !(is_saving && path.is_metered())
        })
    }

    /// Returns a path's bandwidth, and its backlog in the network. The backlog of an only path is
    /// left out: no other path could carry it, and it drains by the margin of the encoder's share.
    fn carried(&self, path: &Path) -> (DataRate, u64) {
        let forecast = &self.views[path.id.index()].forecast;
        match self.paths.len() {
            1 => (path.carried_rate(forecast), 0),
            _ => (forecast.rate, forecast.backed_up_bytes),
        }
    }

    /// Reports to the controllers the rate of a source that does not follow the target.
    pub(super) fn report_source_rate(&mut self, now: Instant, frame_bytes: usize) {
        let media = &self.config.media;
        if media.source != SourceLimits::Fixed || media.endpoint.is_bare() {
            return;
        }
        let rate = self.content.source_rate.on_frame(now, frame_bytes);
        let is_saving = self.are_metered_in_reserve();
        let takes_part =
            |path: &Path| path.state() == PathState::Active && !(path.is_metered() && is_saving);
        let path_count = match self.content.scheduler.is_redundant() {
            true => 1,
            false => self.paths.iter().filter(|path| takes_part(path)).count(),
        };
        let share = rate.mul_f64(1.0 / path_count.max(1) as f64);
        for path in self.paths.iter_mut().filter(|path| takes_part(path)) {
            path.on_source_rate(share);
        }
    }

    /// Returns whether more bandwidth than the estimate would be of use.
    pub(super) fn is_more_bandwidth_useful(&self) -> bool {
        match self.config.media.source {
            SourceLimits::Adaptive { max, .. } if self.content.target_bitrate < max => {
                let target = self.content.target_bitrate;
                self.config.padding != PaddingPolicy::Earned
                    || self.content.probing.is_target_used(target)
                    || self.is_unmetered_bandwidth_wanted()
            }
            _ => self.is_unmetered_bandwidth_wanted(),
        }
    }
}
