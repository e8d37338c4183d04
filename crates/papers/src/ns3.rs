//! Measurements of ns-3.48 where both simulators can run the same: three TCP flows over 3 Mbit/s.
//! This is no paper's claim, but a check that our algorithms are those that others call by these
//! names.

use super::case::{Algorithms, Case};
use super::charts::sending_rates;
use super::claim::{Basis, Claim, Paper, Subject};
use super::evidence::Evidence;
use super::judgement::{Judgement, Measured, Samples};
use super::record::{RunRecord, Span};
use anabranch_lab::Chart;
use anabranch_lab::metrics::{Unit, jain_index};

const PAPER: Paper = Paper {
    key: "ns3",
    citation: "ns-3.48, measured: three flows, 3 Mbit/s, 100 ms, a queue of 75 packets",
    algorithms: Algorithms::Published,
};

pub(super) const CLAIMS: &[&Claim] = &[&BBR, &CUBIC, &ORDER];

const SCENARIO: &str = include_str!("../../../scenarios/reference/three-flows.toml");
const WHOLE: Span = (0.0, 300.0);
/// Jain's index of the three goodputs in all runs of ns-3.
const LEAST_JAIN: f64 = 0.95;

/// Measurements of ns-3: goodput from 100 s on, the rest over the whole run. Ranges are over seeds.
struct Reference {
    goodput_kbits: [f64; 3],
    delay_ms: (f64, f64),
    loss: (f64, f64),
}

const NS3_BBR: Reference = Reference {
    goodput_kbits: [1214.0, 871.0, 718.0],
    delay_ms: (320.0, 351.0),
    loss: (0.024, 0.038),
};
const NS3_CUBIC: Reference = Reference {
    goodput_kbits: [947.0, 926.0, 1009.0],
    delay_ms: (283.0, 294.0),
    loss: (0.020, 0.022),
};

/// Distance of a mean delay from ns-3's range that is still near, as a share of its nearer end.
const DELAY_MARGIN: f64 = 0.2;
/// The same for a loss: within the same order of magnitude.
const LOSS_FACTOR: f64 = 3.0;

const BBR: Claim = Claim {
    id: "ns3-bbr-linux",
    paper: &PAPER,
    figure: "TcpBbr",
    claim: "Three BBR flows share fairly (Jain 0.95 to 0.99), with a one-way delay of 320 to 351 \
            ms and 2.4 to 3.8 % lost.",
    criterion: "The delay is within 20 % of this range and the loss within a factor of 3, Jain's \
            index is at least 0.95, and each flow's goodput within 50 %.",
    basis: Basis::Measured,
    subject: Subject::Controller("bbr-linux"),
    cases,
    judge: |evidence| judge(evidence, &NS3_BBR),
};

const CUBIC: Claim = Claim {
    id: "ns3-cubic",
    paper: &PAPER,
    figure: "TcpCubic",
    claim: "Three CUBIC flows share fairly, with a one-way delay of 283 to 294 ms and 2.0 to 2.2 % \
            lost.",
    criterion: "The delay is within 20 % of this range and the loss within a factor of 3, Jain's \
            index is at least 0.95, and each flow's goodput within 50 %.",
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |controller| {
        cases(match controller {
            "cubic" => NS3_CUBIC_NAME,
            swapped => swapped,
        })
    },
    judge: |evidence| judge(evidence, &NS3_CUBIC),
};

/// Name of CUBIC with the slow start of ns-3.
const NS3_CUBIC_NAME: &str = "cubic:hystart=classic";

const ORDER: Claim = Claim {
    id: "ns3-order",
    paper: &PAPER,
    figure: "TcpBbr, TcpCubic",
    claim: "BBR loses more than CUBIC, and its one-way delay is the longer one.",
    criterion: "",
    basis: Basis::Measured,
    subject: Subject::Controller("bbr-linux"),
    cases: |controller| vec![case("bbr", controller), case("cubic", NS3_CUBIC_NAME)],
    judge: order,
};

fn case(key: &'static str, controller: &str) -> Case {
    Case::new(key, "reference/three-flows.toml", SCENARIO).controller(controller)
}

fn cases(controller: &str) -> Vec<Case> {
    vec![case("flows", controller)]
}

fn order(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::new().because(
        "Linux 6.18's own TCP, over a network of the same rate, delay and queue in real time, has \
         ours: BBR 315 ms and 4.6 % lost, CUBIC 352 ms and 0.8 %. The cubic curve stays near its \
         last maximum for most of the time, with 87 % of the queue; ns-3's CUBIC loses twice as \
         much and has 63 %.",
    );
    let compared = [("bbr", "BBR", &NS3_BBR), ("cubic", "CUBIC", &NS3_CUBIC)];
    let [bbr_loss, cubic_loss] = compared.map(|(key, of, reference)| {
        let samples = evidence.each(key, |run| run.loss(WHOLE));
        Measured::new(format!("loss of {of}"), Unit::Share, samples).beside(middle(reference.loss))
    });
    let [bbr_delay, cubic_delay] = compared.map(|(key, of, reference)| {
        let samples = evidence.each(key, |run| run.delay_ms(WHOLE));
        Measured::new(
            format!("mean one-way delay of {of}"),
            Unit::Milliseconds,
            samples,
        )
        .beside(middle(reference.delay_ms))
    });
    for value in [&bbr_loss, &cubic_loss, &bbr_delay, &cubic_delay] {
        judgement.report(value);
    }
    judgement.expect(cubic_loss.below(&bbr_loss));
    judgement.expect(cubic_delay.below(&bbr_delay));
    judgement
}

fn goodput(run: &RunRecord, place: usize) -> f64 {
    let flow = run.statistics.flows.get(place);
    flow.map_or(f64::NAN, |flow| flow.goodput_bits_per_second)
}

fn judge(evidence: &Evidence, reference: &Reference) -> Judgement {
    let mut judgement = Judgement::new();
    let delay = evidence.each("flows", |run| run.delay_ms(WHOLE));
    let delay = Measured::new("mean one-way delay", Unit::Milliseconds, delay)
        .beside(middle(reference.delay_ms));
    let loss = evidence.each("flows", |run| run.loss(WHOLE));
    let loss = Measured::new("loss", Unit::Share, loss).beside(middle(reference.loss));
    let jain = evidence.each("flows", |run| {
        jain_index((0..3).map(|place| goodput(run, place))).unwrap_or(f64::NAN)
    });
    let published = jain_index(reference.goodput_kbits).unwrap_or(f64::NAN);
    let jain = Measured::new(
        "Jain's index of the goodputs, 100-300 s",
        Unit::Number,
        jain,
    )
    .beside(published);
    [&delay, &loss, &jain]
        .into_iter()
        .for_each(|value| judgement.report(value));
    judgement.expect(delay.at_least(reference.delay_ms.0 * (1.0 - DELAY_MARGIN)));
    judgement.expect(delay.at_most(reference.delay_ms.1 * (1.0 + DELAY_MARGIN)));
    judgement.expect(loss.at_least(reference.loss.0 / LOSS_FACTOR));
    judgement.expect(loss.at_most(reference.loss.1 * LOSS_FACTOR));
    judgement.expect(jain.at_least(LEAST_JAIN));
    let mut all = Vec::new();
    for (place, kbits) in reference.goodput_kbits.into_iter().enumerate() {
        let samples = evidence.each("flows", |run| goodput(run, place));
        let name = format!("flow {}: goodput, 100-300 s", place + 1);
        let flow = Measured::new(name, Unit::BitsPerSecond, samples).beside(kbits * 1e3);
        judgement.report(&flow);
        judgement.expect(flow.within(0.5, kbits * 1e3));
        all.push(flow.samples);
    }
    let seeds = 0..all[0].0.len();
    let sum = seeds.map(|seed| all.iter().map(|flow| flow.0[seed]).sum());
    let sum = Samples(sum.collect());
    let sum = Measured::new("sum of the goodputs", Unit::BitsPerSecond, sum)
        .beside(reference.goodput_kbits.iter().sum::<f64>() * 1e3);
    judgement.report(&sum);
    judgement.draw(picture(evidence.shown("flows")));
    judgement
}

fn middle((least, largest): (f64, f64)) -> f64 {
    (least + largest) / 2.0
}

fn picture(run: &RunRecord) -> Chart {
    Chart::Lines(sending_rates("Three flows", run, &run.series().flows))
}
