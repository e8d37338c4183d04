//! §§2 and 3: ARC on a path of its own.

use anabranch_units::Duration;

use super::{ALONE, PAPER};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, Span};
use anabranch_lab::metrics::Unit;

/// The paper's k and α, and the round trip here.
const GAIN: f64 = 0.5;
const ALPHA: f64 = 0.3;
const RTT: f64 = 0.25;
const PACKET_BITS: f64 = 12_000.0;
/// Time after the start.
const STEADY: Span = (40.0, 100.0);
/// Start of the outage in [`TIMEOUT`], in s.
const OUTAGE: f64 = 40.0;

pub(super) fn case(name: &str, controller: &str) -> Case {
    Case::new(name, "grieco-arc/alone.toml", ALONE).set("flows.0.controller", controller)
}

/// Returns a case over a path that is too wide for a queue.
fn wide(name: &str, controller: &str) -> Case {
    case(name, controller)
        .set("links.bottleneck.rate", "100 Mbit/s")
        .set("links.bottleneck.queue", "unlimited")
}

pub(super) const FIGURE_1: Claim = Claim {
    id: "S2-F1",
    paper: &PAPER,
    figure: "Fig. 1, §2",
    claim: "Eq. 1 with the window of eq. 2 brings the rate to the available bandwidth and the \
            queue to zero.",
    criterion: "From 40 to 100 s: utilisation of at least 95 %, and a queue of one packet at \
            times.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: narrow,
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let samples = evidence.each("alone", |run| run.utilisation("bottleneck", STEADY));
        let used = Measured::new("utilisation, 40-100 s", Unit::Share, samples);
        let least = Measured::new(
            "least of the queue at ends of 100 ms, 40-100 s",
            Unit::Bytes,
            evidence.each("alone", |run| {
                let queue = queue(run);
                queue[400..].iter().copied().min().unwrap_or(0) as f64
            }),
        );
        judgement.report(&used);
        judgement.report(&least);
        judgement.expect(used.at_least(0.95));
        judgement.expect(least.at_most(1_500.0));
        judgement
    },
};

fn narrow(controller: &str) -> Vec<Case> {
    vec![case("alone", controller).every(Duration::from_millis(100))]
}

fn queue(run: &RunRecord) -> &[u64] {
    let link = run
        .series()
        .links
        .iter()
        .find(|link| link.name == "bottleneck");
    link.map_or(&[], |link| &link.queued_bytes)
}

/// Returns the mean of the queue over `span`, in packets.
fn mean_queue(run: &RunRecord, span: Span) -> f64 {
    let (from, to) = ((span.0 * 10.0) as usize, (span.1 * 10.0) as usize);
    let queued = &queue(run)[from..to];
    queued.iter().sum::<u64>() as f64 * 8.0 / PACKET_BITS / queued.len() as f64
}

/// Returns the mean of a count a second, 20 to 100 s.
fn per_second(run: &RunRecord, list: &[u64]) -> f64 {
    let until = list.len().min(100);
    let sum: u64 = list[20..until].iter().sum();
    sum as f64 / run.series().interval_ms as f64 * 1e3 / 80.0
}

pub(super) const DEPLETION: Claim = Claim {
    id: "S2-C6",
    paper: &PAPER,
    figure: "§2",
    claim: "The window of eq. 2 clears the buffers along the path.",
    criterion: "After each loss the queue is down to one packet within a round trip and 1/k; at \
            least three intervals with losses from 40 to 97 s.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: narrow,
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let loss_count = Measured::new(
            "intervals of 100 ms with losses, 40-97 s",
            Unit::Number,
            evidence.each("alone", |run| losses(run).count() as f64),
        );
        let samples = evidence.each("alone", |run| {
            // 100 ms of the interval itself, a round trip with a full queue, and 1/k.
            let span = ((RTT + 8.0 * 0.024 + 1.0 / GAIN) * 10.0) as usize + 1;
            let least = losses(run).filter_map(|at| queue(run)[at..=at + span].iter().min());
            least.max().map_or(f64::NAN, |bytes| *bytes as f64)
        });
        let text = "largest, over losses, of the least queue within RTT + 1/k of a loss";
        let least = Measured::new(text, Unit::Bytes, samples);
        judgement.report(&least);
        judgement.report(&loss_count);
        judgement.expect(least.at_most(1_500.0));
        judgement.expect(loss_count.at_least(3.0));
        judgement.because(
            "The rate law of eq. 1 approaches an empty queue exponentially, with 1/k as its time \
             constant: after a round trip and 1/k, a third of the queue is left, a packet more \
             than the one in service.",
        )
    },
};

/// Returns the indices of intervals with losses, after the start.
fn losses(run: &RunRecord) -> impl Iterator<Item = usize> {
    let dropped = &run.series().flows[0].dropped_packets;
    (400..970).filter(|place| dropped[*place] > 0)
}

pub(super) const OUTSTANDING: Claim = Claim {
    id: "S2-C5",
    paper: &PAPER,
    figure: "§2",
    claim: "The packets in flight never exceed the window.",
    criterion: "On a path without loss no run sends more than 2 + t/α packets within a round trip, \
            and the rate reaches 1 Mbit/s.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let interval = Duration::from_secs_f64(RTT);
        vec![wide("wide", controller).every(interval)]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        // Without losses the window is two packets, and one more every α.
        let samples = evidence.each("wide", |run| {
            let packets = run.series().flows[0].sent_packets.iter().enumerate();
            let shares = packets.map(|(place, packets)| {
                let window = 2.0 + (place + 1) as f64 * RTT / ALPHA;
                *packets as f64 / window
            });
            shares.skip(4).fold(0.0, f64::max)
        });
        let text = "largest share of 2 + t/alpha packets sent within a round trip";
        let share = Measured::new(text, Unit::Share, samples);
        let sent = Measured::new(
            "rate at the end",
            Unit::BitsPerSecond,
            evidence.each("wide", |run| {
                run.sent_rate(&run.series().flows[0], (95.0, 100.0))
            }),
        );
        judgement.report(&share);
        judgement.report(&sent);
        judgement.expect(share.always_at_most(1.0));
        // An empty window would pass without this.
        judgement.expect(sent.at_least(1e6));
        judgement
    },
};

pub(super) const SLOPE: Claim = Claim {
    id: "S2-C7",
    paper: &PAPER,
    figure: "§3.1.2",
    claim: "The window grows by a packet every 300 ms, which is not an additive increase of the \
            rate.",
    criterion: "By eq. 1 the rate then grows by k / (1 + k RTT) / α: ± 5 %, 20 to 80 s.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("arc"),
    cases: |controller| vec![wide("wide", controller)],
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let samples = evidence.each("wide", |run| {
            let flow = &run.series().flows[0];
            let early = run.sent_rate(flow, (15.0, 25.0)) / PACKET_BITS;
            let late = run.sent_rate(flow, (75.0, 85.0)) / PACKET_BITS;
            (late - early) / 60.0
        });
        let expected = GAIN / (1.0 + GAIN * RTT) / ALPHA;
        let slope = Measured::new("packets/s², 20-80 s", Unit::Number, samples).beside(expected);
        judgement.report(&slope);
        judgement.expect(slope.within(0.05, expected));
        judgement
    },
};

/// Two spans after the window has come to the threshold.
const EARLY: Span = (50.0, 60.0);
const LATE: Span = (90.0, 100.0);

pub(super) const ABOVE_THRESHOLD: Claim = Claim {
    id: "S2-C12",
    paper: &PAPER,
    figure: "§3.1.2",
    claim: "When the estimated backlog exceeds qthresh, 10 packets, the window is kept constant.",
    criterion: "With a queue that nothing overflows, 50 to 100 s: nothing is lost, and the mean \
                queue is above 9 packets, one being in service, and grows by less than one in 40 \
                s. At a packet every 300 ms it would grow by 133.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let case = case("deep", controller).set("links.bottleneck.queue", "unlimited");
        vec![case.every(Duration::from_millis(100))]
    },
    judge: |evidence| {
        let late = evidence.each("deep", |run| mean_queue(run, LATE));
        let late = Measured::new("mean queue, 90-100 s, packets", Unit::Number, late);
        let growth = evidence.each("deep", |run| mean_queue(run, LATE) - mean_queue(run, EARLY));
        let growth = Measured::new("growth of the queue in 40 s, packets", Unit::Number, growth);
        let lost = evidence.each("deep", |run| {
            run.series().flows[0].dropped_packets.iter().sum::<u64>() as f64
        });
        let lost = Measured::new("packets lost", Unit::Number, lost);
        let mut judgement = Judgement::new();
        for value in [&late, &growth, &lost] {
            judgement.report(value);
        }
        judgement.expect(late.more_than(9.0));
        judgement.expect(growth.less_than(1.0));
        judgement.expect(lost.always_at_most(0.0));
        judgement
    },
};

pub(super) const TIMEOUT: Claim = Claim {
    id: "S2-C8",
    paper: &PAPER,
    figure: "§3.1.3",
    claim: "Two smoothed round trips without a report are a timeout, which sets the window by eq. \
            2.",
    criterion: "In an outage the timeout comes 375 to 950 ms after the last arrival, at a round \
            trip of 250 ms.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let outage = format!("[{{ at = \"{OUTAGE} s\", for = \"3 s\" }}]");
        let case = wide("outage", controller)
            .set("links.bottleneck.outages", &outage)
            .every(Duration::from_millis(100));
        vec![case]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let samples = evidence.each("outage", |run| {
            let states = run.series().flows[0].states.iter();
            let mut seen = states.filter(|(_, state)| state == "Timeout");
            let at = seen.find(|(at_ms, _)| *at_ms as f64 > OUTAGE * 1e3);
            at.map_or(f64::NAN, |(at_ms, _)| *at_ms as f64 - OUTAGE * 1e3)
        });
        let seen = Measured::new(
            "timeout after the last arrival",
            Unit::Milliseconds,
            samples,
        );
        // The last report travels for half a round trip, and reports come once per round trip.
        judgement.report(&seen);
        judgement.expect(seen.at_least(1e3 * (2.0 * RTT - RTT / 2.0)));
        judgement.expect(seen.at_most(1e3 * (2.0 * RTT + RTT) + 200.0));
        let samples = evidence.each("outage", |run| {
            let flow = &run.series().flows[0];
            run.sent_rate(flow, (OUTAGE + 5.0, OUTAGE + 8.0))
                / run.sent_rate(flow, (OUTAGE - 2.0, OUTAGE))
        });
        let text = "rate after the outage over the rate before";
        judgement.report(&Measured::new(text, Unit::Number, samples));
        judgement
    },
};

pub(super) const REPORTS: Claim = Claim {
    id: "S2-C9",
    paper: &PAPER,
    figure: "§3.2",
    claim: "The receiver reports once a smoothed round trip, and at once on a loss.",
    criterion: "Without loss, one report a round trip ± 5 %; at 2 % of loss, half a report more \
            for each loss ± 20 %.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let lossy = wide("lossy", controller).set("links.bottleneck.loss", "2 %");
        vec![wide("wide", controller), lossy]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let samples = evidence.each("wide", |run| {
            per_second(run, &run.series().flows[0].feedback_packets)
        });
        let reports = Measured::new("reports a second, 20-100 s", Unit::Number, samples);
        judgement.report(&reports.clone().beside(1.0 / RTT));
        judgement.expect(reports.within(0.05, 1.0 / RTT));
        let samples = evidence.each("lossy", |run| {
            let flow = &run.series().flows[0];
            let reports = per_second(run, &flow.feedback_packets) - 1.0 / RTT;
            reports / per_second(run, &flow.dropped_packets)
        });
        // The next report comes a round trip later, so that a loss saves half a report on average.
        let text = "reports beyond that, for each loss of 2 % lost by chance";
        let more = Measured::new(text, Unit::Number, samples);
        judgement.report(&more);
        judgement.expect(more.within(0.2, 0.5));
        judgement
    },
};
