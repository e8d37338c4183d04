//! Figs. 3 and 4: delay and loss in all nine cases, Delay-BBR beside BBR as QUIC has it.

use super::{PAPER, SETTINGS, Setting, WHOLE};
use crate::case::Case;
use crate::charts::bars;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured, Samples};
use crate::record::RunRecord;
use anabranch_lab::Chart;
use anabranch_lab::metrics::Unit;

const QUIC_BBR: &str = "bbr-quic";

/// Numbers of QUIC-BBR in the data files beside the authors' code, by case; they may be the bars of
/// these figures.
const FILES_DELAY_MS: [f64; 9] = [
    381.0, 467.2, 626.8, 380.2, 451.0, 621.4, 379.2, 453.4, 496.1,
];
const FILES_LOSS: [f64; 9] = [
    0.345, 0.285, 0.163, 0.283, 0.173, 0.131, 0.235, 0.138, 0.076,
];

fn cases(controller: &str) -> Vec<Case> {
    let both = [("Delay-BBR", controller), ("QUIC-BBR", QUIC_BBR)];
    let cases = both.into_iter().flat_map(|(form, controller)| {
        SETTINGS
            .iter()
            .map(move |setting| setting.three_flows(name(setting, form), controller))
    });
    cases.collect()
}

/// Numbers of flows with which case 1 is run as well: the third start is taken away.
const FEWER: [&str; 2] = ["1", "2"];

/// Returns case 1 with fewer flows than the paper's three.
fn fewer_flows(controller: &str) -> [Case; 2] {
    FEWER.map(|count| {
        let case = SETTINGS[0].three_flows(fewer_name(count), controller);
        // The file's expectations are about three.
        case.set("flows.0.count", count).only_shown()
    })
}

fn fewer_name(count: &str) -> String {
    format!("case 1, flows: {count}")
}

fn name(setting: &Setting, form: &str) -> String {
    format!("case {}, {form}", setting.number)
}

/// Returns one number of every case.
fn measured(
    evidence: &Evidence,
    form: &str,
    unit: Unit,
    measure: impl Fn(&RunRecord) -> f64,
) -> Vec<Measured> {
    SETTINGS
        .iter()
        .map(|setting| {
            let case = name(setting, form);
            let samples = evidence.each(&case, &measure);
            Measured::new(case, unit, samples)
        })
        .collect()
}

pub(super) const FIGURE_3: Claim = Claim {
    id: "S0-F3",
    paper: &PAPER,
    figure: "Fig. 3, §5.1",
    claim: "Mean one-way delay: Delay-BBR's is lower than QUIC-BBR's, and QUIC-BBR's grows with \
            the buffer (cases 1, 2, 3).",
    criterion: "Lower in all nine cases; QUIC-BBR's grows from case 1 to 2 to 3, from 4 to 6 and \
            from 7 to 9. The paper prints no numbers: its column has those of data files of the \
            authors, perhaps these bars.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        let mut cases = cases(controller);
        cases.extend(fewer_flows(controller));
        cases
    },
    judge: |evidence| {
        let [ours, quic] = ["Delay-BBR", "QUIC-BBR"].map(|form| {
            measured(evidence, form, Unit::Milliseconds, |run| {
                run.delay_ms(WHOLE)
            })
        });
        let mut judgement = Judgement::new();
        report(&mut judgement, &ours, &quic, &FILES_DELAY_MS);
        for (ours, quic) in ours.iter().zip(&quic) {
            judgement.expect(ours.below(quic));
        }
        for (small, large) in [(0, 1), (1, 2), (3, 5), (6, 8)] {
            judgement.expect(quic[small].below(&quic[large]));
        }
        for count in FEWER {
            let case = fewer_name(count);
            let delay = evidence.each(&case, |run| run.delay_ms(WHOLE));
            judgement.report(&Measured::new(&*case, Unit::Milliseconds, delay));
            let loss = evidence.each(&case, |run| run.loss(WHOLE));
            judgement.report(&Measured::new(format!("{case}: loss"), Unit::Share, loss));
        }
        let title = "Fig. 3: mean one-way delay";
        judgement.draw(picture(title, "ms", 1.0, [&ours, &quic], &FILES_DELAY_MS));
        judgement
    },
};

pub(super) const FIGURE_4: Claim = Claim {
    id: "S0-F4",
    paper: &PAPER,
    figure: "Fig. 4, §5.1",
    claim: "Loss: Delay-BBR's is extremely lower than QUIC-BBR's, and QUIC-BBR's falls as the \
            buffer grows (cases 1, 2, 3).",
    criterion: "Extremely lower: a fifth at most, in all nine cases. The paper prints no numbers: \
            its column has those of data files of the authors, perhaps these bars.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases,
    judge: |evidence| {
        let [ours, quic] = ["Delay-BBR", "QUIC-BBR"]
            .map(|form| measured(evidence, form, Unit::Share, |run| run.loss(WHOLE)));
        let mut judgement = Judgement::new();
        report(&mut judgement, &ours, &quic, &FILES_LOSS);
        for (ours, quic) in ours.iter().zip(&quic) {
            judgement.expect(ours.at_most(quic.samples.median() / 5.0));
        }
        for (small, large) in [(0, 1), (1, 2)] {
            judgement.expect(quic[large].below(&quic[small]));
        }
        judgement.draw(picture(
            "Fig. 4: loss",
            "%",
            100.0,
            [&ours, &quic],
            &FILES_LOSS,
        ));
        judgement
    },
};

fn report(judgement: &mut Judgement, ours: &[Measured], quic: &[Measured], files: &[f64; 9]) {
    ours.iter().for_each(|value| judgement.report(value));
    for (value, published) in quic.iter().zip(files) {
        judgement.report(&value.clone().beside(*published));
    }
}

fn picture(
    title: &str,
    unit: &str,
    factor: f64,
    [ours, quic]: [&[Measured]; 2],
    files: &[f64; 9],
) -> Chart {
    let [ours, quic] =
        [ours, quic].map(|values| values.iter().map(|value| value.samples.clone()).collect());
    let published = files.iter().map(|value| Samples(vec![*value]));
    let groups = SETTINGS
        .iter()
        .map(|setting| format!("case {}", setting.number));
    let kinds = [
        ("QUIC-BBR".to_owned(), quic),
        ("Delay-BBR".to_owned(), ours),
        ("QUIC-BBR, authors' files".to_owned(), published.collect()),
    ];
    bars(title, unit, factor, groups, kinds)
}
