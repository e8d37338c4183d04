//! A scenario as a page draws it.

use anabranch_lab::{FlowKind, FlowSpec, LinkSpec, Scenario};
use anabranch_units::{DataRate, Duration, Instant};
use serde::Serialize;

/// Largest number of flows and of links that are drawn. All others run unseen.
pub const MAX_DRAWN: usize = 32;

/// Summary of a scenario. Of flows and links it has the first [`MAX_DRAWN`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its title.
    pub title: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Its source.
    pub source: Option<String>,
    /// Duration of a run.
    pub duration_ms: f64,
    /// The links.
    pub links: Vec<LinkSummary>,
    /// Number of links in the scenario.
    pub link_count: usize,
    /// The routes that flows use.
    pub routes: Vec<RouteSummary>,
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// Number of flows in the scenario.
    pub flow_count: usize,
    /// Number of expectations.
    pub expectation_count: usize,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSummary {
    /// Its name.
    pub name: String,
    /// Its rate at the start, in bit/s; `None`: no limit, or a trace.
    pub rate: Option<u64>,
    /// Whether a trace gives its opportunities to send.
    pub has_trace: bool,
    /// Its propagation delay at the start.
    pub delay_ms: f64,
    /// Share of packets that it loses in the long run.
    pub loss: f64,
    /// Scheduled changes: times of rates in bit/s.
    pub rates: Vec<(f64, u64)>,
    /// Times of delays in ms.
    pub delays: Vec<(f64, f64)>,
    /// Beginnings and ends of outages.
    pub outages: Vec<(f64, f64)>,
}

/// A route: numbers of links in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteSummary {
    /// Its name.
    pub name: String,
    /// Links from the sender to the receiver.
    pub forward: Vec<usize>,
    /// Links back.
    pub reverse: Vec<usize>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// Its traffic: `media`, `bulk`, `short`, `download`, `adaptive` or `raw`.
    pub kind: &'static str,
    /// Its controller, or the kind of raw traffic.
    pub controller: String,
    /// Its scheduler; empty: it has none.
    pub scheduler: String,
    /// Routes of its paths, by number.
    pub paths: Vec<usize>,
    /// Time from the capture of a frame to its deadline, of media.
    pub deadline_ms: Option<f64>,
    /// Its start.
    pub start_ms: f64,
}

impl Summary {
    /// Returns the summary of a scenario.
    pub fn of(scenario: &Scenario) -> Summary {
        let routes = scenario.routes.iter().map(|route| RouteSummary {
            name: route.name.clone(),
            forward: route.forward.clone(),
            reverse: route.reverse.clone(),
        });
        Summary {
            title: scenario.title.clone(),
            description: scenario.description.clone(),
            source: scenario.source.clone(),
            duration_ms: scenario.duration.as_millis_f64(),
            links: scenario.links.iter().take(MAX_DRAWN).map(link).collect(),
            link_count: scenario.links.len(),
            routes: routes.collect(),
            flows: scenario.flows.iter().take(MAX_DRAWN).map(flow).collect(),
            flow_count: scenario.flows.len(),
            expectation_count: scenario.expectations.len(),
        }
    }
}

fn ms(at: Instant) -> f64 {
    (at - Instant::ZERO).as_millis_f64()
}

fn link(spec: &LinkSpec) -> LinkSummary {
    let config = &spec.config;
    let rates = config.rate_schedule.iter();
    let delays = config.delay_schedule.iter();
    let outages = config.outages.iter();
    LinkSummary {
        name: spec.name.clone(),
        rate: config.rate.map(DataRate::bits_per_second),
        has_trace: config.trace.is_some(),
        delay_ms: config.delay.as_millis_f64(),
        loss: config.loss.mean_loss_ratio(),
        rates: rates
            .map(|(at, rate)| (ms(*at), rate.bits_per_second()))
            .collect(),
        delays: delays
            .map(|(at, delay)| (ms(*at), delay.as_millis_f64()))
            .collect(),
        outages: outages
            .map(|(at, span)| (ms(*at), ms(*at + *span)))
            .collect(),
    }
}

fn flow(spec: &FlowSpec) -> FlowSummary {
    let deadline = spec.media().map(|media| media.config.media.deadline);
    FlowSummary {
        name: spec.name.clone(),
        kind: match &spec.kind {
            FlowKind::Media(_) => "media",
            FlowKind::Bulk(_) => "bulk",
            FlowKind::Short(_) => "short",
            FlowKind::Download(_) => "download",
            FlowKind::Adaptive(_) => "adaptive",
            FlowKind::Raw(_) => "raw",
        },
        controller: spec.controller().to_owned(),
        scheduler: spec.scheduler().to_owned(),
        paths: spec.paths.iter().map(|path| path.route).collect(),
        deadline_ms: deadline.map(Duration::as_millis_f64),
        start_ms: ms(spec.start),
    }
}
