//! Policies of forward error correction: one file for each, and their common parts.

mod adaptive;
#[cfg(test)]
mod contract;
mod fixed;
mod frame;
mod pace;
mod registry;
mod webrtc;
mod window;

use anabranch_core::{Forecast, PathView};
use anabranch_fec::{
    KEY_FRAME_RESIDUAL, LossModel, MAX_WINDOW, OTHER_FRAME_RESIDUAL, repair_count,
};
use anabranch_units::Duration;

pub use registry::{FEC_DEFAULT, FEC_POLICIES, FecPolicyEntry, UnknownFecPolicy, fec_policy};

/// Most repairs for a symbol, over time.
const MAX_OVERHEAD: f64 = 0.5;
/// Number of repairs that may be sent ahead of that: a window of the largest overhead.
const MAX_AHEAD: f64 = 64.0;

/// A path that carries less of media than this, one packet in a hundred, hardly matters to it.
const MIN_MEDIA_SHARE: f64 = 0.01;

/// Keeps repairs below a share of the symbols.
#[derive(Debug)]
struct Allowance {
    max_overhead: f64,
    repairs: f64,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::of(MAX_OVERHEAD)
    }
}

impl Allowance {
    /// Creates an allowance of `max_overhead` repairs per symbol, over time.
    fn of(max_overhead: f64) -> Self {
        Allowance {
            max_overhead,
            repairs: MAX_AHEAD * max_overhead / MAX_OVERHEAD,
        }
    }

    /// Adds the allowance of `symbol_count` queued symbols.
    fn earn(&mut self, symbol_count: u16) {
        let earned = f64::from(symbol_count) * self.max_overhead;
        let ahead = MAX_AHEAD * self.max_overhead / MAX_OVERHEAD;
        self.repairs = (self.repairs + earned).min(ahead.max(earned));
    }

    /// Spends and returns as many of these repairs as are allowed.
    fn spend(&mut self, repairs: u16) -> u16 {
        let allowed = repairs.min(self.repairs as u16);
        self.repairs -= f64::from(allowed);
        allowed
    }
}

/// Returns the share of blocks that may stay incomplete.
fn residual(is_key: bool) -> f64 {
    if is_key {
        KEY_FRAME_RESIDUAL
    } else {
        OTHER_FRAME_RESIDUAL
    }
}

/// Iterates over the paths that carry media, with their shares of it in the last few seconds. If
/// none of those is left, the shares follow bandwidth. Losses or delays of other paths do not
/// concern media.
fn carriers(paths: &[PathView]) -> impl Iterator<Item = (&PathView, f64)> + Clone {
    let ready = paths.iter().filter(|path| path.is_in_service());
    let is_known = ready.clone().map(carried_share).sum::<f64>() > 0.0;
    let weights = ready.map(move |path| {
        let weight = if is_known {
            carried_share(path)
        } else {
            path.bandwidth.bits_per_second().max(1) as f64
        };
        (path, weight)
    });
    let total: f64 = weights.clone().map(|(_, weight)| weight).sum();
    let shares = weights.map(move |(path, weight)| (path, weight / total));
    shares.filter(|(_, share)| *share > 0.0)
}

/// Returns the share of media that the path carries; zero if it hardly matters.
fn carried_share(path: &PathView) -> f64 {
    if path.risk.media_share >= MIN_MEDIA_SHARE {
        path.risk.media_share
    } else {
        0.0
    }
}

/// Returns the losses of media: each path's worst of the last ten seconds, weighted by its share of
/// media. Bursts are weighted in the same way.
fn losses(paths: &[PathView]) -> LossModel {
    let (mut ratio, mut weighted_burst) = (0.0, 0.0);
    for (path, share) in carriers(paths) {
        let lost = share * path.risk.recent_max_loss;
        ratio += lost;
        weighted_burst += lost * (1.0 + (path.risk.loss_burst_packets.max(1.0) - 1.0) * share);
    }
    LossModel {
        ratio,
        burst_packets: if ratio > 0.0 {
            weighted_burst / ratio
        } else {
            1.0
        },
    }
}

/// Returns the number of repairs for a frame of its own, which is several blocks if it is larger
/// than a window.
fn frame_repairs(symbol_count: u16, losses: LossModel, residual: f64) -> u16 {
    let blocks = symbol_count.div_ceil(MAX_WINDOW).max(1);
    let of_block = repair_count(symbol_count.div_ceil(blocks), losses, residual);
    of_block.saturating_mul(blocks).min(symbol_count)
}

/// Returns the longest round-trip time of the paths that carry media; `None` before the first is
/// known.
fn longest_rtt(paths: &[PathView]) -> Option<Duration> {
    let rtts = carriers(paths).filter_map(|(path, _)| path.rtt.smoothed);
    rtts.max()
}

/// Returns the forecast of the farthest path that carries media.
fn farthest(paths: &[PathView]) -> Forecast {
    let forecasts = carriers(paths).map(|(path, _)| path.forecast);
    let farthest = forecasts.max_by_key(|forecast| forecast.arrival_after(Duration::ZERO));
    farthest.unwrap_or_default()
}
