//! Table 1: the tested network.

use anabranch_link::QueueLimit;
use anabranch_units::{DataRate, Duration};

use super::{PAPER, SETTINGS};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement};

pub(super) const TABLE_1: Claim = Claim {
    id: "S0-T1",
    paper: &PAPER,
    figure: "Table 1, §5.1",
    claim: "Nine bottlenecks of 3, 4 and 5 Mbit/s with queues of 300, 400 and 600 ms, 100 ms long; \
            three flows start at 0, 40 and 80 s and run for 300 s.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge,
};

fn judge(_: &Evidence) -> Judgement {
    let mut judgement = Judgement::new();
    for setting in &SETTINGS {
        let scenario = setting.three_flows("", "live-bbr").scenario();
        let is_as_printed = scenario.is_ok_and(|scenario| {
            let bottleneck = scenario.links.iter().find(|link| link.name == "bottleneck");
            let is_link = bottleneck.is_some_and(|link| {
                let rate = DataRate::from_megabits_per_second(u64::from(setting.megabits));
                let queue = Duration::from_millis(u64::from(setting.queue_ms));
                link.config.rate == Some(rate)
                    && link.config.queue == QueueLimit::Time(queue)
                    && link.config.delay == Duration::from_millis(100)
            });
            let starts = scenario.flows.iter().map(|flow| flow.start.as_secs_f64());
            is_link && starts.eq([0.0, 40.0, 80.0]) && scenario.duration == Duration::from_secs(300)
        });
        let text = format!("the scenario of case {} is as printed", setting.label());
        judgement.expect(Expect::that(text, is_as_printed));
    }
    judgement
}
