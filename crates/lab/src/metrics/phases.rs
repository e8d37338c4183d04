//! Phases of a flow between changes of its available rate, and the convergence time of its rate in
//! each: RFC 8867 §4 wants the convergence time of every change.

use std::collections::BTreeSet;

use anabranch_sim::GeneratorRate;
use anabranch_units::{Duration, Instant};

use super::rates::RateSeries;
use super::statistics::{FlowStatistics, Phase};
use super::window::Window;
use crate::scenario::{FlowKind, FlowSpec, Scenario};

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
        let mut by_link: Vec<BTreeSet<Instant>> = scenario
            .links
            .iter()
            .map(|link| {
                let changes = link.config.rate_schedule.iter();
                changes.map(|(at, _)| *at).collect()
            })
            .collect();
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
        parts
            .filter(|(from, to)| {
                *to >= *from + LEAST
                    && !pauses
                        .iter()
                        .any(|(at, length)| *at <= *from && *to <= *at + *length)
            })
            .filter_map(|(from, to)| {
                Some(Phase {
                    from_s: from.as_secs_f64(),
                    to_s: to.as_secs_f64(),
                    convergence_time_ms: series.convergence(window, (from, to))?,
                })
            })
            .collect()
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
