//! Table I and Fig. 3: the tested network.

use anabranch_lab::{FlowKind, Scenario};
use anabranch_units::{DataRate, Duration, Seed};

use super::PAPER;
use super::bench::{EQUAL, FAR_FIRST, FAR_SECOND, Network};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Expect, Judgement};

pub(super) const TABLE_1: Claim = Claim {
    id: "S3-T1",
    paper: &PAPER,
    figure: "Table I, Fig. 3, §5",
    claim: "A film of 409 MB, 5.24 Mbit/s and 10 min 24 s over two Wi-Fi networks of 5 Mbit/s \
            by iperf; round trips of 100/100, 100/200 and 200/100 ms.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::new();
        for (network, trips) in [
            (EQUAL, [100, 100]),
            (FAR_SECOND, [100, 200]),
            (FAR_FIRST, [200, 100]),
        ] {
            let text = format!("the scenario of {} is as printed", network.name);
            judgement.expect(Expect::that(text, is_as_printed(&network, trips)));
        }
        judgement
    },
};

fn is_as_printed(network: &Network, trips: [u64; 2]) -> bool {
    let scenario = Case::new("", network.name, network.text).scenario();
    scenario.is_ok_and(|scenario| {
        trips.into_iter().enumerate().all(|(path, millis)| {
            let flow = &scenario.flows[0];
            let route = &scenario.routes[flow.paths[path].route];
            let links = route.forward.iter().chain(&route.reverse);
            let delay = links.map(|link| scenario.links[*link].config.delay);
            let mut rates = route
                .forward
                .iter()
                .filter_map(|link| scenario.links[*link].config.rate);
            delay.fold(Duration::ZERO, |sum, delay| sum + delay) == Duration::from_millis(millis)
                && rates.all(is_measured_by_iperf)
        }) && is_film(&scenario)
    })
}

/// Returns whether 1,470 B of payload in each 1,498 B make 5 Mbit/s, to the kbit/s.
fn is_measured_by_iperf(rate: DataRate) -> bool {
    let payload = rate.bits_per_second() as f64 * 1_470.0 / 1_498.0;
    (payload - 5e6).abs() < 1e3
}

/// Returns whether the film's bytes are within 2 %: sizes drift, and their mean is exact only in
/// the long run.
fn is_film(scenario: &Scenario) -> bool {
    let FlowKind::Download(download) = &scenario.flows[0].kind else {
        return false;
    };
    let film = download.film(Seed(1));
    download.length == Duration::from_secs(624)
        && film.is_ok_and(|film| (film.byte_count() as f64 / 409e6 - 1.0).abs() < 0.02)
}
