//! L. A. Grieco and S. Mascolo, "Adaptive Rate Control for Internet Video Streaming" (ARC).

mod alone;
mod cross_traffic;
mod four_and_four;
mod multihop;
pub(super) mod ns2;
mod playback;
mod setup;
mod ten_flows;
mod wireless;

use super::case::{Algorithms, Case};
use super::claim::{Claim, Paper};
use super::record::{RunRecord, Span};
use anabranch_lab::metrics::FlowSeries;

const PAPER: Paper = Paper {
    key: "grieco-arc",
    citation: "L. A. Grieco, S. Mascolo: Adaptive Rate Control for Internet Video Streaming",
    algorithms: Algorithms::Published,
};

/// Claims by kind, in the paper's order.
pub(super) const CLAIMS: &[&Claim] = &[
    &alone::FIGURE_1,
    &setup::FIGURE_2,
    &ten_flows::FIGURE_3,
    &ten_flows::FIGURE_4,
    &four_and_four::FIGURE_5,
    &setup::FIGURE_6,
    &multihop::FIGURE_7A,
    &multihop::FIGURE_7B,
    &multihop::FIGURE_7C,
    &wireless::FIGURE_7D,
    &multihop::FRIENDLIER,
    &wireless::GOODPUT,
    &ten_flows::STEADY,
    &four_and_four::SMOOTHER,
    &alone::OUTSTANDING,
    &alone::DEPLETION,
    &alone::SLOPE,
    &alone::ABOVE_THRESHOLD,
    &alone::TIMEOUT,
    &alone::REPORTS,
    &playback::DELAY,
    &playback::QUALITY,
    &cross_traffic::SETTLING,
    &cross_traffic::RATE_AIMD,
    &cross_traffic::LONG_TERM,
    &playback::RENO,
];

const TEN_FLOWS: &str = include_str!("../../../scenarios/grieco-arc/ten-flows.toml");
const FOUR_AND_FOUR: &str = include_str!("../../../scenarios/grieco-arc/four-and-four.toml");
const MULTIHOP: &str = include_str!("../../../scenarios/grieco-arc/multihop.toml");
const ALONE: &str = include_str!("../../../scenarios/grieco-arc/alone.toml");

/// TFRC that the paper compares with, and ns-2's default.
const TFRC: &str = "tfrc-conservative";
const TFRC_NS2: &str = "tfrc-ns2";

/// TFRC that may grow to 1.5 times the receive rate, as in ns-2.35. The paper prints no factor; the
/// article that it cites has 1.1.
const TFRC_15: &str = "tfrc-conservative:c=1.5";
/// Its name in claims.
const TFRC_15_NAME: &str = "TFRC, c = 1.5";

/// Returns the multihop scenario with this number of hops.
fn multihop(name: impl Into<String>, c1: &str, cross: &str, hops: u8) -> Case {
    let case = Case::new(name, "grieco-arc/multihop.toml", MULTIHOP)
        .set("links.hop.count", &hops.to_string());
    let case = controlled(case, 0, c1);
    controlled(controlled(case, 1, cross), 2, cross)
}

/// Sets the controller of one of the scenario's flows. Reno runs as ns-2's TCP, others over
/// rate-based packets.
fn controlled(case: Case, place: usize, controller: &str) -> Case {
    let (kind, overhead, loss_detection) = match controller {
        "reno" => ("bulk", "30 B", "tcp-cumulative"),
        _ => ("media", "35 B", "gap-immediate"),
    };
    case.set(&format!("flows.{place}.kind"), kind)
        .set(&format!("flows.{place}.controller"), controller)
        .set(&format!("flows.{place}.overhead"), overhead)
        .set(&format!("flows.{place}.loss-detection"), loss_detection)
}

/// Returns the useful bits per second on the wire over the scenario's statistics window: all bytes
/// of a rate-based flow that arrived, and a stream's bytes in order.
fn goodput(run: &RunRecord, name: &str) -> f64 {
    let flow = run
        .statistics
        .flows
        .iter()
        .find(|flow| flow.name == name)
        .unwrap_or_else(|| panic!("no flow is called {name:?}"));
    if flow.controller == "reno" {
        flow.goodput_bits_per_second * 1500.0 / 1460.0
    } else {
        flow.traffic.throughput_bits_per_second
    }
}

/// Returns the flows with the names `group-1`, `group-2`, ….
fn group<'a>(run: &'a RunRecord, group: &str) -> Vec<&'a FlowSeries> {
    let flows = run.series().flows.iter();
    flows
        .filter(|flow| {
            let rest = flow.name.strip_prefix(group);
            rest.is_some_and(|rest| rest.starts_with('-'))
        })
        .collect()
}

/// Returns the mean, over a group's flows, of the variation of their sending rates, second by
/// second.
fn mean_variation(run: &RunRecord, name: &str, span: Span) -> f64 {
    let flows = group(run, name);
    let sum: f64 = flows.iter().map(|flow| run.variation(flow, span)).sum();
    sum / flows.len() as f64
}
