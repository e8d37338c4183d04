//! Fig. 11 and Table 3: the tested network.

use anabranch_link::QueueLimit;
use anabranch_units::{DataRate, Duration};

use super::{CONFIGURATIONS, Configuration, PAPER};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Expect, Judgement};
use anabranch_lab::{FlowSpec, Scenario};

pub(super) const FIGURE_11: Claim = Claim {
    id: "S0-F11",
    paper: &PAPER,
    figure: "Fig. 11, §5.2",
    claim: "Two paths that share nothing between sender and receiver; two flows of the same \
            controller cross the first, one the second.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::new();
        for configuration in &CONFIGURATIONS {
            let scenario = configuration.case("").scenario();
            let is_so = scenario.is_ok_and(|scenario| is_figure_11(&scenario));
            let text = format!("configuration {} is Fig. 11", configuration.number);
            judgement.expect(Expect::that(text, is_so));
        }
        judgement
    },
};

/// Returns whether the flows are those of Fig. 11. The first flow has two paths without a common
/// link. Of the others, which have its controller, two are on the first and one on the second.
fn is_figure_11(scenario: &Scenario) -> bool {
    fn count(route: usize, cross: &[FlowSpec]) -> usize {
        let on_it = cross
            .iter()
            .filter(|flow| flow.paths.len() == 1 && flow.paths[0].route == route);
        on_it.count()
    }

    let [both, cross @ ..] = &scenario.flows[..] else {
        return false;
    };
    let [first, second] = [0, 1].map(|place| both.paths.get(place).map(|path| path.route));
    let (Some(first), Some(second)) = (first, second) else {
        return false;
    };
    let [mut of_first, of_second] = [first, second].map(|route| {
        let route = &scenario.routes[route];
        route.forward.iter().chain(&route.reverse)
    });
    let is_disjoint = of_first.all(|link| of_second.clone().all(|other| other != link));
    is_disjoint
        && (count(first, cross), count(second, cross)) == (2, 1)
        && cross
            .iter()
            .all(|flow| flow.controller() == both.controller())
        && scenario.duration == Duration::from_secs(300)
}

pub(super) const TABLE_3: Claim = Claim {
    id: "S0-T3",
    paper: &PAPER,
    figure: "Table 3, §5.2",
    claim: "Ten configurations of two links: rate, one-way delay and queue.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::unknowable(
            "The table is lost from the paper's text. The ten configurations here are those of the \
             authors' public test program, a candidate that nothing proves.",
        );
        for configuration in &CONFIGURATIONS {
            let scenario = configuration.case("").scenario();
            let is_so = scenario.is_ok_and(|scenario| is_candidate(&scenario, configuration));
            let text = format!("configuration {} is the candidate's", configuration.number);
            judgement.expect(Expect::that(text, is_so));
        }
        judgement
    },
};

fn is_candidate(scenario: &Scenario, configuration: &Configuration) -> bool {
    let links = ["l1", "l2"].iter().zip(&configuration.links);
    links.into_iter().all(|(name, expected)| {
        let link = scenario.links.iter().find(|link| link.name == *name);
        link.is_some_and(|link| {
            link.config.rate == Some(DataRate::from_megabits_per_second(expected.megabits))
                && link.config.delay == Duration::from_millis(expected.delay_ms)
                && link.config.queue == QueueLimit::Time(Duration::from_millis(expected.queue_ms))
        })
    })
}
