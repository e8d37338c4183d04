//! Frame delays of a run, their lower bounds, and their parts.
//!
//! The bound pours each frame of the run, in its size on the wire, over all paths as a fluid, from
//! its capture on and, link by link, from when the frame before it has left. The links' rates are
//! known beforehand, nothing is lost by chance, and no time is lost waiting for a report. So no
//! choice of paths is better while frames leave in order, each as soon as it can. A single frame
//! may still be faster in a run: the one before it may be given up, overtaken, or kept on a slower
//! path.
//!
//! The paths' prices are not in it: a metered path is poured over as any other.

mod fluid_model;
mod frames;
mod parts;
mod supply;

use anabranch_core::PathId;
use anabranch_units::{Duration, Instant, Seed, percentile};

use crate::metrics::least_delay;
use crate::run::{RunError, build_world, with_starts};
use crate::scenario::{FlowSpec, RouteSpec, Scenario};
use fluid_model::{FluidModel, Load};
use frames::{FrameLog, FrameRecord};
pub use parts::Parts;
pub(crate) use supply::Supply;

/// Frames of a flow in a run that count: those of the scenario's statistics window whose deadline
/// is before the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameDelays {
    /// In the order of capture.
    pub frames: Vec<FrameDelay>,
    /// Whether other flows share the flow's links; the bounds ignore them.
    pub has_cross_traffic: bool,
}

/// Times of a frame from capture to completion, beyond the fastest path's propagation. A frame that
/// is never complete takes at least its deadline, as in the metric `frame-delay-all-excess-p95`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDelay {
    /// Time at which the source produced it.
    pub captured_at: Instant,
    /// Delay in the run.
    pub actual: Duration,
    /// Delay as a fluid behind all frames before it.
    pub bound: Duration,
    /// Delay as a fluid if there is no other frame: no run is faster.
    pub alone: Duration,
    /// Parts of `actual`; `None`: it was not complete, or a repair completed it.
    pub parts: Option<Parts>,
}

/// Returns the flow of media with the most paths, the first of several.
pub fn main_flow(scenario: &Scenario) -> Option<usize> {
    (0..scenario.flows.len())
        .filter(|flow| scenario.flows[*flow].media().is_some())
        .rev()
        .max_by_key(|flow| scenario.flows[*flow].paths.len())
}

/// Runs a scenario, and follows the frames of the flow of this index.
///
/// # Errors
/// A [`RunError`] if the scenario cannot be run.
pub fn frame_delays(scenario: &Scenario, flow: usize, seed: u64) -> Result<FrameDelays, RunError> {
    let scenario = &with_starts(scenario, Seed(seed));
    let mut world = build_world(scenario, Seed(seed), 1, false)?;
    let mut frame_log = FrameLog::of(flow);
    world.run_until(Instant::ZERO + scenario.duration, &mut frame_log);
    Ok(FrameDelays {
        frames: judged(scenario, &scenario.flows[flow], &frame_log.frames),
        has_cross_traffic: has_cross_traffic(scenario, flow),
    })
}

/// Returns the share of a flow's media, in bytes, that its links carry within the deadline, as a
/// fluid. Media flows in the order of capture, each frame from its capture on, and late media is
/// left out. No larger share of the frames can be decoded in time while the omitted frames are no
/// larger than the others: without its key frame, no frame of a group of pictures can be decoded.
///
/// # Errors
/// A [`RunError`] if the scenario cannot be run.
pub fn carried_share(scenario: &Scenario, flow: usize, seed: u64) -> Result<f64, RunError> {
    let scenario = &with_starts(scenario, Seed(seed));
    let mut world = build_world(scenario, Seed(seed), 1, false)?;
    let mut frame_log = FrameLog::of(flow);
    world.run_until(Instant::ZERO + scenario.duration, &mut frame_log);
    let spec = &scenario.flows[flow];
    let Some(media) = spec.media() else {
        return Ok(1.0);
    };
    let deadline = media.config.media.deadline;
    let loads = loads(&frame_log.frames, u32::from(media.config.fragment_bytes));
    let shares = FluidModel::of(scenario, spec).shares_in_time(&loads, deadline);
    let judged = frame_log
        .frames
        .iter()
        .zip(&loads)
        .zip(shares)
        .filter(|((frame, _), _)| is_judged(scenario, frame, deadline));
    let (mut carried, mut wire_bytes) = (0.0, 0.0);
    for ((_, load), share) in judged {
        carried += share * load.wire_bytes as f64;
        wire_bytes += load.wire_bytes as f64;
    }
    Ok(if wire_bytes == 0.0 {
        1.0
    } else {
        carried / wire_bytes
    })
}

/// Returns whether a frame counts. It does if it is captured in the time of the statistics, and its
/// deadline is not after the end.
fn is_judged(scenario: &Scenario, frame: &FrameRecord, deadline: Duration) -> bool {
    let end = Instant::ZERO + scenario.duration;
    frame.captured_at + deadline <= end && scenario.statistics.contains(frame.captured_at)
}

fn judged(scenario: &Scenario, flow: &FlowSpec, frames: &[FrameRecord]) -> Vec<FrameDelay> {
    let Some(media) = flow.media() else {
        return Vec::new();
    };
    let deadline = media.config.media.deadline;
    let model = FluidModel::of(scenario, flow);
    let loads = loads(frames, u32::from(media.config.fragment_bytes));
    let arrivals = model.clone().arrivals(&loads);
    let least = path_delays(scenario, flow).min().unwrap_or(Duration::ZERO);
    let all = frames.iter().zip(&loads).zip(arrivals);
    all.filter(|((frame, _), _)| is_judged(scenario, frame, deadline))
        .map(|((frame, load), arrival)| {
            let arrival_alone = model.clone().arrivals(&[*load])[0];
            let [bound, alone] = [arrival, arrival_alone].map(|arrival| {
                let delay = arrival.map_or(deadline, |at| at - frame.captured_at);
                delay.saturating_sub(least)
            });
            FrameDelay {
                captured_at: frame.captured_at,
                actual: frame.delay(deadline).saturating_sub(least),
                bound,
                alone,
                parts: frame.completing().map(|last| {
                    let delay = path_delay(scenario, flow, last.path);
                    Parts::of(frame.captured_at, last, delay, least)
                }),
            }
        })
        .collect()
}

/// Returns the frames with their sizes on the wire.
fn loads(frames: &[FrameRecord], fragment_bytes: u32) -> Vec<Load> {
    let extra = frames
        .iter()
        .flat_map(|frame| frame.extra_bytes(fragment_bytes));
    let extra_bytes = extra.min().unwrap_or(0);
    frames
        .iter()
        .map(|frame| Load {
            captured_at: frame.captured_at,
            wire_bytes: frame.all_wire_bytes(fragment_bytes, extra_bytes),
        })
        .collect()
}

fn path_delays(scenario: &Scenario, flow: &FlowSpec) -> impl Iterator<Item = Duration> {
    (0..flow.paths.len()).map(|path| path_delay(scenario, flow, PathId(path as u8)))
}

/// Returns a path's least propagation delay.
fn path_delay(scenario: &Scenario, flow: &FlowSpec, path: PathId) -> Duration {
    let route = &scenario.routes[flow.paths[path.index()].route];
    let links = route.forward.iter().map(|link| &scenario.links[*link]);
    links.map(|link| least_delay(&link.config)).sum()
}

fn routes<'a>(scenario: &'a Scenario, flow: &'a FlowSpec) -> impl Iterator<Item = &'a RouteSpec> {
    flow.paths.iter().map(|path| &scenario.routes[path.route])
}

/// Whether another flow sends packets, in either direction, over a link of this one's paths.
fn has_cross_traffic(scenario: &Scenario, flow: usize) -> bool {
    let own: Vec<&RouteSpec> = routes(scenario, &scenario.flows[flow]).collect();
    let mut others = scenario
        .flows
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != flow);
    others.any(|(_, other)| {
        let mut links =
            routes(scenario, other).flat_map(|route| route.forward.iter().chain(&route.reverse));
        links.any(|link| own.iter().any(|route| route.forward.contains(link)))
    })
}

/// Fractions between which frames are near the 95th percentile.
const ABOUT_P95: (f64, f64) = (0.94, 0.96);

impl FrameDelays {
    /// Returns the 95th percentile of the frames' delays; `None` without frames.
    pub fn actual_p95(&self) -> Option<Duration> {
        percentile_95(self.frames.iter().map(|frame| frame.actual))
    }

    /// Returns the 95th percentile of the bound; `None` without frames, or if other flows have an
    /// unknown share of the links.
    pub fn bound_p95(&self) -> Option<Duration> {
        let bounds = self.frames.iter().map(|frame| frame.bound);
        if self.has_cross_traffic {
            None
        } else {
            percentile_95(bounds)
        }
    }

    /// Returns the mean parts of the frames between the 94th and the 96th percentile; `None` if no
    /// packet completed any of them.
    pub fn parts_about_p95(&self) -> Option<Parts> {
        let mut frames: Vec<&FrameDelay> = self.frames.iter().collect();
        frames.sort_by_key(|frame| frame.actual);
        let [first, last] = [ABOUT_P95.0, ABOUT_P95.1]
            .map(|fraction| (fraction * frames.len() as f64).ceil() as usize);
        let about = frames.get(first.max(1) - 1..last)?;
        let parts: Vec<Parts> = about.iter().filter_map(|frame| frame.parts).collect();
        Parts::mean(&parts)
    }
}

fn percentile_95(spans: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut spans: Vec<Duration> = spans.collect();
    spans.sort();
    percentile(&spans, 95)
}

#[cfg(test)]
mod tests;
