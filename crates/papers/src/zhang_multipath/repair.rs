//! §4.2: retransmitted packets, their paths, and the time for which they are kept.

use super::PAPER;
use super::bench::{FAR_MS, NEAR_MS, bench, smooth};
use crate::Evidence;
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

/// Time for which lost packets are kept, in ms.
const KEPT_MS: f64 = 500.0;

/// Outages, named by the first frame that is captured in them.
const KEY: &str = "outage, key frame";
const NO_KEY: &str = "outage, no key frame";

/// Makes a case with an outage of 600 ms. With one path, the packets lost in it cannot take
/// another. A frame is captured at 10 s.
fn outage(name: &str, interval: &str) -> Case {
    let gop = format!(
        "{{ kind = \"gop\", fps = 25, min = \"2 Mbit/s\", max = \"2 Mbit/s\", \
                 key-interval = \"{interval}\", key-ratio = 1 }}"
    );
    bench(name, "min-cost")
        .set("flows.0.paths", "[\"near\"]")
        .set("flow-defaults.source", &gop)
        .set(
            "links.near.outages",
            "[{ at = \"9990 ms\", for = \"600 ms\" }]",
        )
}

fn longest_delay(evidence: &Evidence, case: &str) -> Measured {
    let samples = evidence.each(case, |run| {
        let delay = run.statistics.flows[0].frames.delay_ms;
        delay.map_or(f64::NAN, |delay| delay.max)
    });
    Measured::new(
        format!("{case}: longest frame delay"),
        Unit::Milliseconds,
        samples,
    )
}

fn given_up(evidence: &Evidence, case: &str) -> Measured {
    let samples = evidence.each(case, |run| {
        let frames = &run.statistics.flows[0].frames;
        (frames.dropped + frames.abandoned) as f64
    });
    Measured::new(format!("{case}: frames given up"), Unit::Number, samples)
}

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C5",
    paper: &PAPER,
    figure: "§4.2",
    claim: "A lost packet is sent again within 500 ms, on the path with the least transfer delay. \
            A key frame is waited for; any other is dropped after 500 ms.",
    criterion: "At least 95 % of the copies take the near path, with 99 % of the frames on time. \
            In an outage of 600 ms a key frame takes at least 560 ms; other frames take 525 ms at \
            most or are given up.",
    basis: Basis::ByConstruction,
    subject: Subject::Scenario,
    cases: |_| {
        let lossy = bench("the far path loses 5 %", "wrr").set("links.far.loss", "5 %");
        vec![
            smooth(lossy, "4 Mbit/s"),
            outage(KEY, "2 s"),
            outage(NO_KEY, "100 s"),
        ]
    },
    judge: |evidence| {
        let lossy = "the far path loses 5 %";
        let share = evidence.each(lossy, |run| {
            let paths = run.statistics.flows[0].paths.iter();
            let again: Vec<f64> = paths
                .map(|path| path.traffic.packets_retransmitted as f64)
                .collect();
            again[0] / (again[0] + again[1])
        });
        let name = format!("{lossy}: sent again on the near path");
        let share = Measured::new(name, Unit::Share, share);
        let whole = evidence.each(lossy, |run| {
            run.statistics.flows[0]
                .frames
                .complete_on_time_ratio
                .unwrap_or(f64::NAN)
        });
        let name = format!("{lossy}: frames complete in time");
        let whole = Measured::new(name, Unit::Share, whole);
        let [longest, longest_key, longest_no_key] =
            [lossy, KEY, NO_KEY].map(|case| longest_delay(evidence, case));
        let [key_given_up, no_key_given_up] = [KEY, NO_KEY].map(|case| given_up(evidence, case));
        let mut judgement = Judgement::new();
        for value in [
            &share,
            &whole,
            &longest,
            &longest_key,
            &longest_no_key,
            &key_given_up,
            &no_key_given_up,
        ] {
            judgement.report(value);
        }
        judgement.expect(share.at_least(0.95));
        judgement.expect(whole.at_least(0.99));
        judgement.expect(longest_key.at_least(KEPT_MS + FAR_MS));
        // Sent within 500 ms, and then in flight.
        judgement.expect(longest_no_key.at_most(KEPT_MS + NEAR_MS + 5.0));
        judgement.expect(no_key_given_up.at_least(1.0));
        judgement
    },
};
