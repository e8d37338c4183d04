//! Figs. 2 and 6: the tested network.

use anabranch_link::QueueLimit;
use anabranch_units::{DataRate, Duration};

use super::{FOUR_AND_FOUR, PAPER, TEN_FLOWS, multihop};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Expect, Judgement};
use anabranch_lab::{FlowKind, Scenario};

pub(super) const FIGURE_2: Claim = Claim {
    id: "S2-F2",
    paper: &PAPER,
    figure: "Fig. 2, §4.1",
    claim: "One bottleneck of 10 or 2 Mbit/s with a queue of 250 ms; round trips are spread evenly \
            up to 250 ms; TCP starts at 0, rate-based flows at 10 s.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::new();
        let files = [
            ("ten-flows", TEN_FLOWS, 10, 208, vec![10_u64]),
            ("four-and-four", FOUR_AND_FOUR, 2, 42, vec![4, 4, 10]),
        ];
        for (name, text, megabits, packets, groups) in files {
            let scenario = Case::new(name, name, text).scenario();
            let is_as_printed = scenario.is_ok_and(|scenario| {
                let is_link = ["bottleneck", "return"].iter().all(|link| {
                    is_link(&scenario, link, megabits, packets, Duration::from_millis(5))
                });
                // A raw flow has no round trip.
                let trips: Vec<Duration> = scenario
                    .flows
                    .iter()
                    .filter(|flow| flow.name != "udp")
                    .map(|flow| round_trip(&scenario, &flow.name))
                    .collect();
                let expected = groups.iter().flat_map(|count| {
                    (1..=*count).map(move |number| Duration::from_micros(250_000 / count * number))
                });
                is_link && trips.into_iter().eq(expected) && starts_as_printed(&scenario)
            });
            let text = format!("the scenario {name} is as printed");
            judgement.expect(Expect::that(text, is_as_printed));
        }
        judgement
    },
};

pub(super) const FIGURE_6: Claim = Claim {
    id: "S2-F6",
    paper: &PAPER,
    figure: "Fig. 6, §4.2",
    claim: "N hops of 1 Mbit/s; C1 goes through all, with a round trip of 250 ms, from 10 s on; 2N \
            flows of cross traffic have 50 ms; all for 110 s.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::new();
        for hops in 1..=10_u8 {
            let scenario = multihop("", "arc", "reno", hops).scenario();
            let is_as_printed = scenario.is_ok_and(|scenario| {
                let is_link = (1..=hops).all(|hop| {
                    let delay = Duration::from_millis(10);
                    is_link(&scenario, &format!("hop-{hop}"), 1, 21, delay)
                        && is_link(&scenario, &format!("back-{hop}"), 1, 21, delay)
                });
                let is_trip = scenario.flows.iter().all(|flow| {
                    let millis = if flow.name == "c1" { 250 } else { 50 };
                    round_trip(&scenario, &flow.name) == Duration::from_millis(millis)
                });
                is_link
                    && is_trip
                    && scenario.flows.len() == 1 + 2 * usize::from(hops)
                    && scenario.duration == Duration::from_secs(110)
                    && scenario.flows[0].start.as_secs_f64() == 10.0
            });
            let text = format!("the scenario of {hops} hops is as printed");
            judgement.expect(Expect::that(text, is_as_printed));
        }
        judgement
    },
};

fn is_link(
    scenario: &Scenario,
    name: &str,
    megabits: u64,
    packets: usize,
    delay: Duration,
) -> bool {
    let found = scenario.links.iter().find(|link| link.name == name);
    found.is_some_and(|link| {
        link.config.rate == Some(DataRate::from_megabits_per_second(megabits))
            && link.config.queue == QueueLimit::Packets(packets)
            && link.config.delay == delay
    })
}

/// Returns the round trip's propagation delay.
fn round_trip(scenario: &Scenario, flow: &str) -> Duration {
    let found = scenario.flows.iter().find(|other| other.name == flow);
    let route = found.map(|flow| &scenario.routes[flow.paths[0].route]);
    route.map_or(Duration::ZERO, |route| {
        let links = route.forward.iter().chain(&route.reverse);
        let delays = links.map(|link| scenario.links[*link].config.delay);
        delays.fold(Duration::ZERO, |sum, delay| sum + delay)
    })
}

/// Returns whether TCP and UDP start at 0 s, and rate-based flows at 10 s.
fn starts_as_printed(scenario: &Scenario) -> bool {
    scenario.flows.iter().all(|flow| {
        let is_rated = matches!(flow.kind, FlowKind::Media(_));
        let start = if is_rated { 10.0 } else { 0.0 };
        flow.start.as_secs_f64() == start
    })
}
