//! Target bitrate of the encoder, and the rate of sources that do not follow it.

use anabranch_units::{DataRate, Duration, Instant};

use super::Media;
use crate::config::{Config, SourceLimits};
use crate::fec::Budget;
use crate::media::{self, Bandwidth, Demand, SourceRate};
use crate::path::Path;
use crate::path_view::{PathState, PathView};
use crate::sender_rules::SenderRule;

/// The encoder's target, and the source's rate.
#[derive(Debug)]
pub(super) struct Target {
    bitrate: DataRate,
    /// Encoder's share of the paths' bandwidth.
    fraction: f64,
    /// Inputs of the last target.
    pub(super) demand: Option<Demand>,
    /// Rate of a source that does not follow the target.
    source_rate: SourceRate,
}

/// Paths as the target sees them at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity<'a> {
    pub(super) paths: &'a [Path],
    pub(super) views: &'a [PathView],
    /// Whether metered paths stand by.
    pub(super) is_saving: bool,
    /// Whether every packet goes to every path.
    pub(super) is_redundant: bool,
    /// Bytes that wait to be bound to a path.
    pub(super) waiting_bytes: u64,
}

impl<'a> Capacity<'a> {
    /// Returns the sum of the rates that the controllers ask for.
    pub(super) fn target_rate(&self) -> DataRate {
        let rates = self.in_service().map(|path| path.control().target_rate);
        rates.fold(DataRate::ZERO, |sum, rate| sum + rate)
    }

    fn in_service(&self) -> impl Iterator<Item = &'a Path> {
        let is_saving = self.is_saving;
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
}

impl Target {
    /// Creates the target of a session whose packets have headers of `header_bytes`.
    pub(super) fn new(config: &Config, header_bytes: u32) -> Self {
        let payload_bytes = f64::from(config.fragment_bytes);
        let packet_bytes = u32::from(config.fragment_bytes) + config.overhead_bytes + header_bytes;
        let share = payload_bytes / f64::from(packet_bytes);
        let fraction = config.media.target_fraction;
        Target {
            bitrate: match config.media.source {
                SourceLimits::Fixed => DataRate::ZERO,
                SourceLimits::Adaptive { min, .. } => min,
            },
            fraction: fraction.unwrap_or_else(|| config.controller.rate().encoder_share(share)),
            demand: None,
            source_rate: SourceRate::new(config.media.deadline),
        }
    }

    pub(super) fn bitrate(&self) -> DataRate {
        self.bitrate
    }

    /// Returns the encoder's share of the paths' bandwidth.
    pub(super) fn fraction(&self) -> f64 {
        self.fraction
    }

    /// Sets the time after which frames are worthless.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.source_rate.set_deadline(deadline);
    }

    /// Continues the measurement of the source's rate by another session.
    pub(super) fn go_on_from(&mut self, before: &Target, deadline: Duration) {
        self.source_rate = before.source_rate;
        self.source_rate.set_deadline(deadline);
    }

    /// Counts a frame. Returns the source's rate, this frame included.
    pub(super) fn on_frame(&mut self, now: Instant, bytes: usize) -> DataRate {
        self.source_rate.on_frame(now, bytes)
    }

    /// Sets the target to the paths' present bandwidth. `repair_share` is the share of full packets
    /// that is payload if the session sends repairs, whose budget is updated too. Returns a target
    /// that the encoder has to learn.
    pub(super) fn update(
        &mut self,
        config: &Config,
        capacity: &Capacity<'_>,
        repair_share: Option<f64>,
        budget: &mut Budget,
    ) -> Option<DataRate> {
        let (bandwidth, backlog_bytes) = if capacity.is_redundant {
            self.best_bandwidth(config, capacity)
        } else {
            self.bandwidth_of_all(config, capacity)
        };
        if let Some(share) = repair_share {
            // A source that does not follow may fill the paths, one that does leaves a margin.
            budget.set_rate(match config.media.source {
                SourceLimits::Fixed => bandwidth.total.mul_f64(share),
                SourceLimits::Adaptive { .. } => media::target_total(bandwidth, backlog_bytes),
            });
        }
        let demand = Demand::new(bandwidth, backlog_bytes, budget.overhead());
        if self.demand.replace(demand) == Some(demand) {
            return None;
        }
        let target = media::target_bitrate(&config.media, &demand);
        let before = self.bitrate.bits_per_second();
        self.bitrate = target;
        // A change of a percent is not worth an encoder's attention.
        let is_notable = target.bits_per_second().abs_diff(before) * 100 > before;
        is_notable.then_some(target)
    }

    /// Returns the bandwidth of the paths in service together, and the backlog.
    fn bandwidth_of_all(&self, config: &Config, capacity: &Capacity<'_>) -> (Bandwidth, u64) {
        let bound_bytes: u64 = capacity.paths.iter().map(Path::queued_bytes).sum();
        let mut backlog_bytes = capacity.waiting_bytes + bound_bytes;
        let rates = capacity.in_service().map(|path| {
            let (rate, backed_up_bytes) = capacity.carried(path);
            if backed_up_bytes > 0 {
                let most = media::most_drained_bytes(self.fraction, rate);
                backlog_bytes += backed_up_bytes.min(most);
            }
            rate
        });
        let path_min = config.laboratory.path_target_min;
        let bandwidth = Bandwidth::of(path_min, self.fraction, rates);
        (bandwidth, backlog_bytes)
    }

    /// Returns the bandwidth of the best path, and its backlog: the others' queues are full of
    /// copies.
    #[cold]
    fn best_bandwidth(&self, config: &Config, capacity: &Capacity<'_>) -> (Bandwidth, u64) {
        let best = capacity
            .in_service()
            .max_by_key(|path| capacity.carried(path).0);
        let queued_bytes = best.map_or(0, Path::queued_bytes);
        let rates = best.into_iter().map(|path| capacity.carried(path).0);
        let path_min = config.laboratory.path_target_min;
        let bandwidth = Bandwidth::of(path_min, self.fraction, rates);
        (bandwidth, capacity.waiting_bytes + queued_bytes)
    }
}

impl Media {
    /// Reports the rate of a source of constant bitrate, which has made these bytes now, to the
    /// controllers.
    pub(super) fn report_source_bytes(
        &mut self,
        now: Instant,
        byte_count: usize,
        config: &Config,
        paths: &mut [Path],
    ) {
        let is_fixed = config.media.source == SourceLimits::Fixed;
        if !is_fixed || !config.laboratory.rules.has(SenderRule::SourceRate) {
            return;
        }
        let rate = self.target.on_frame(now, byte_count);
        let is_saving = self.standby.are_metered_in_reserve(paths);
        report_source_rate(rate, self.binding.is_redundant(), is_saving, paths);
    }
}

/// Reports to the controllers the rate of a source that does not follow the target.
fn report_source_rate(rate: DataRate, is_redundant: bool, is_saving: bool, paths: &mut [Path]) {
    let takes_part =
        |path: &Path| path.state() == PathState::Active && !(path.is_metered() && is_saving);
    let path_count = if is_redundant {
        1
    } else {
        paths.iter().filter(|path| takes_part(path)).count()
    };
    let share = rate.mul_f64(1.0 / path_count.max(1) as f64);
    for path in paths.iter_mut().filter(|path| takes_part(path)) {
        path.on_source_rate(share);
    }
}
