//! Phases of a flow between changes of its available rate, and the convergence time of its rate in
//! each: RFC 8867 §4 wants the convergence time of every change.

use std::collections::BTreeSet;

use anabranch_sim::GeneratorRate;
use anabranch_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::rates::RateSeries;
use super::statistics::FlowStatistics;
use super::window::Window;
use crate::scenario::{FlowKind, FlowSpec, Scenario};

/// Part of a flow's time in which nothing changes on its links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its beginning.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Time from its beginning until the received rate, over 1 s, stayed within 25 % of its mean
    /// over the phase's second half; `null`: it did not settle.
    pub convergence_time_ms: Option<f64>,
}

impl Phase {
    /// Returns the time that counts in means: a phase that does not settle takes all of its time.
    fn counted_ms(&self) -> f64 {
        let length_ms = (self.to_s - self.from_s) * 1e3;
        self.convergence_time_ms.unwrap_or(length_ms)
    }

    /// Returns the mean convergence time of several phases.
    pub(super) fn mean_ms(phases: &[Phase]) -> Option<f64> {
        let sum: f64 = phases.iter().map(Phase::counted_ms).sum();
        (!phases.is_empty()).then(|| sum / phases.len() as f64)
    }

    /// Returns the longest convergence time of several phases.
    pub(super) fn longest_ms(phases: &[Phase]) -> Option<f64> {
        phases.iter().map(Phase::counted_ms).max_by(f64::total_cmp)
    }

    /// Returns the share of phases that settle.
    pub(super) fn settled_share(phases: &[Phase]) -> Option<f64> {
        let settled = phases
            .iter()
            .filter(|phase| phase.convergence_time_ms.is_some());
        (!phases.is_empty()).then(|| settled.count() as f64 / phases.len() as f64)
    }
}

/// Records the phases of flows of adaptive media in their statistics.
pub(super) fn record_phases(
    flows: &mut [FlowStatistics],
    scenario: &Scenario,
    series: &[RateSeries],
    window: &Window,
    end: Instant,
) {
    let changes = Changes::of(scenario);
    let flows = flows.iter_mut().zip(&scenario.flows).zip(series);
    for ((statistics, flow), series) in flows.filter(|((_, flow), _)| flow.is_adaptive()) {
        statistics.phases = changes.phases(scenario, flow, series, window, flow.span(end));
    }
}

/// Shortest phase. In less, a mean over a second is no proof that the rate has settled.
const LEAST: Duration = Duration::from_secs(5);

/// By link, the times at which its available rate changes: at its own rate schedule, and when flows
/// over it start, stop, pause, resume, or send at another rate by schedule.
struct Changes(Vec<BTreeSet<Instant>>);

impl Changes {
    fn of(scenario: &Scenario) -> Changes {
        let schedule = |link: &crate::scenario::LinkSpec| {
            let changes = link.config.rate_schedule.iter();
            changes.map(|(at, _)| *at).collect()
        };
        let mut by_link: Vec<BTreeSet<Instant>> = scenario.links.iter().map(schedule).collect();
        for flow in &scenario.flows {
            let changes = changes_by(flow);
            for link in flow
                .paths
                .iter()
                .flat_map(|path| &scenario.routes[path.route].forward)
            {
                by_link[*link].extend(&changes);
            }
        }
        Changes(by_link)
    }

    /// Returns the phases of `flow`, which runs in `span`, within a window, except those in which
    /// it pauses.
    fn phases(
        &self,
        scenario: &Scenario,
        flow: &FlowSpec,
        series: &RateSeries,
        window: &Window,
        span: (Instant, Instant),
    ) -> Vec<Phase> {
        let (from, to) = (window.from.max(span.0), window.to.min(span.1));
        let routes = flow.paths.iter().map(|path| &scenario.routes[path.route]);
        let links = routes.flat_map(|route| route.forward.iter().chain(&route.reverse));
        let limited = links.filter(|link| {
            let config = &scenario.links[**link].config;
            config.rate.is_some() || config.trace.is_some()
        });
        let mut bounds: BTreeSet<Instant> =
            limited.flat_map(|link| &self.0[*link]).copied().collect();
        bounds.extend(window.outside.into_iter().flat_map(|(from, to)| [from, to]));
        bounds.retain(|at| from < *at && *at < to);
        bounds.extend([from, to]);
        let pauses = flow.media().map_or(&[][..], |media| &media.pauses);
        let bounds: Vec<Instant> = bounds.into_iter().collect();
        let parts = bounds.windows(2).map(|pair| (pair[0], pair[1]));
        let is_active = |(from, to): &(Instant, Instant)| {
            let is_paused =
                |(at, length): &(Instant, Duration)| *at <= *from && *to <= *at + *length;
            *to >= *from + LEAST && !pauses.iter().any(is_paused)
        };
        let phase = |(from, to): (Instant, Instant)| {
            Some(Phase {
                from_s: from.as_secs_f64(),
                to_s: to.as_secs_f64(),
                convergence_time_ms: series.convergence(window, (from, to))?,
            })
        };
        parts.filter(is_active).filter_map(phase).collect()
    }
}

/// Returns the times at which the rate that a flow leaves to others changes.
fn changes_by(flow: &FlowSpec) -> Vec<Instant> {
    let mut changes = vec![flow.start];
    changes.extend(flow.stop);
    match &flow.kind {
        FlowKind::Media(media) => {
            let pauses = media.pauses.iter();
            changes.extend(pauses.flat_map(|(at, length)| [*at, *at + *length]));
        }
        FlowKind::Raw(raw) => {
            if let GeneratorRate::Steps { changes: steps, .. } = &raw.rate {
                changes.extend(steps.iter().map(|(at, _)| *at));
            }
        }
        FlowKind::Bulk(_) | FlowKind::Short(_) | FlowKind::Download(_) | FlowKind::Adaptive(_) => {}
    }
    changes
}

#[cfg(test)]
mod tests;
