//! Runs and their comparison: the paper's three networks, its variants of TCP and its schedulers.

use core::cmp::Ordering;

use anabranch_core::SendReason;
use anabranch_lab::metrics::{DownloadStatistics, PathStatistics, Unit};
use anabranch_lab::{Bar, BarKind, Bars, Chart};

use super::space::{SPACE, at};
use crate::case::Case;
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use crate::sweep::{MetPoints, Point};

/// One of the networks, with the ends of its figures' axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Its round trips.
    pub(super) name: &'static str,
    file: &'static str,
    pub(super) text: &'static str,
    most_events: f64,
    pub(super) most_retransmissions: f64,
}

pub(super) const EQUAL: Network = Network {
    name: "100/100 ms",
    file: "matsufuji-mptcp/equal.toml",
    text: include_str!("../../../../scenarios/matsufuji-mptcp/equal.toml"),
    most_events: 200.0,
    most_retransmissions: 20_000.0,
};

pub(super) const FAR_SECOND: Network = Network {
    name: "100/200 ms",
    file: "matsufuji-mptcp/far-second.toml",
    text: include_str!("../../../../scenarios/matsufuji-mptcp/far-second.toml"),
    most_events: 250.0,
    most_retransmissions: 60_000.0,
};

pub(super) const FAR_FIRST: Network = Network {
    name: "200/100 ms",
    file: "matsufuji-mptcp/far-first.toml",
    text: include_str!("../../../../scenarios/matsufuji-mptcp/far-first.toml"),
    most_events: 300.0,
    most_retransmissions: 150_000.0,
};

pub(super) const NETWORKS: [Network; 3] = [EQUAL, FAR_SECOND, FAR_FIRST];

/// The paper's variants of TCP.
pub(super) const VARIANTS: [&str; 5] = ["ccp", "cubic", "compound", "lia", "olia"];
/// Schedulers that the paper proposes, beside `spd`.
pub(super) const SCHEDULERS: [&str; 3] = ["spd", "lpc", "let"];
/// Another reading of LET, whose estimate the paper does not print.
pub(super) const OTHER_LET: &str = "let-delivered";
/// Controller that is shown without being judged.
const CCPD: &str = "ccpd";

/// The paper's number of trials, each of the whole film.
const TRIALS: u64 = 5;

/// Subject of a claim: networks, variants and schedulers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) networks: &'a [Network],
    pub(super) variants: &'a [&'static str],
    pub(super) schedulers: &'a [&'static str],
}

impl Plan<'_> {
    /// Returns its cases, with `name` in the place of the variant or scheduler `subject`.
    pub(super) fn cases(&self, subject: &str, name: &str) -> Vec<Case> {
        fn swapped(one: &'static str, subject: &str, name: &str) -> String {
            if one == subject {
                name.to_owned()
            } else {
                one.to_owned()
            }
        }
        let mut cases = Vec::new();
        for (network, scheduler, variant) in self.runs() {
            let base = case(
                &network,
                &swapped(variant, subject, name),
                &swapped(scheduler, subject, name),
            );
            let named = Case {
                name: case_name(&network, variant, scheduler),
                ..base.seeds(TRIALS)
            };
            cases.push(named.clone());
            let is_ccp = swapped(variant, subject, name) == "ccp";
            let points = SPACE.points().into_iter();
            cases.extend(points.map(|point| at(&named, &point, is_ccp)));
        }
        cases.extend(self.beside());
        cases
    }

    /// Returns networks, schedulers and variants.
    pub(super) fn runs(&self) -> Vec<(Network, &'static str, &'static str)> {
        let mut runs = Vec::new();
        for network in self.networks {
            for scheduler in self.schedulers {
                runs.extend(
                    self.variants
                        .iter()
                        .map(|variant| (*network, *scheduler, *variant)),
                );
            }
        }
        runs
    }

    /// Returns cases of CCPD, a whole film by each scheduler.
    fn beside(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for network in self.networks {
            for scheduler in self.schedulers {
                let case = case(network, CCPD, scheduler);
                cases.push(case.seeds(1).only_shown());
            }
        }
        cases
    }
}

fn case_name(network: &Network, variant: &str, scheduler: &str) -> String {
    format!("{variant}, {scheduler}, {}", network.name)
}

/// Returns a case of the whole film.
fn case(network: &Network, variant: &str, scheduler: &str) -> Case {
    Case::new(
        case_name(network, variant, scheduler),
        network.file,
        network.text,
    )
    .set("flows.0.controller", variant)
    .set("flows.0.scheduler", scheduler)
}

/// Counts of a film's viewer, in the paper's order of importance: means of the trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Video {
    /// Pictures discarded.
    pub(super) discards: f64,
    /// Underflows except that of the start.
    pub(super) underflows: f64,
}

impl Video {
    /// Compares by discards, then by underflows; less is better. Values are alike if they differ by
    /// at most a quarter of the larger, or by at most the error of reading the figures' bars.
    pub(super) fn order(&self, other: &Video) -> Ordering {
        fn order(one: f64, other: f64, read: f64) -> Ordering {
            let is_alike = (one - other).abs() <= read.max(one.max(other) / 4.0);
            let order = one.partial_cmp(&other).unwrap_or(Ordering::Equal);
            if is_alike { Ordering::Equal } else { order }
        }

        /// A seventh of the shortest axis, and a twentieth of it.
        const READ: [f64; 2] = [30.0, 10.0];
        let by_discards = order(self.discards, other.discards, READ[0]);
        by_discards.then(order(self.underflows, other.underflows, READ[1]))
    }

    pub(super) fn is_better_than(&self, other: &Video) -> bool {
        self.order(other) == Ordering::Less
    }

    pub(super) fn is_like(&self, other: &Video) -> bool {
        self.order(other) == Ordering::Equal
    }
}

/// Returns the counts of the viewer's end.
pub(super) fn download(run: &RunRecord) -> DownloadStatistics {
    run.statistics.flows[0].download.expect("it is a download")
}

/// Returns the underflows except that of the start.
pub(super) fn underflows(run: &RunRecord) -> f64 {
    download(run).underflows.saturating_sub(1) as f64
}

/// Returns the packets that a path retransmitted after losses, as TCP counts them. Packets that
/// MPTCP reinjects on another flow are new to TCP.
pub(super) fn resent(path: &PathStatistics) -> f64 {
    let reinjected: u64 = path
        .traffic
        .reasons
        .iter()
        .filter(|sent| sent.reason == SendReason::Reinjection.name())
        .map(|sent| sent.packets)
        .sum();
    (path.traffic.packets_retransmitted - reinjected) as f64
}

/// A point of the space, or the base.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) point: &'a Point,
}

impl At<'_> {
    /// Returns the mean of the trials.
    pub(super) fn mean(
        &self,
        (network, variant, scheduler): (&Network, &str, &str),
        measure: impl Fn(&RunRecord) -> f64,
    ) -> f64 {
        let name = self.point.of(&case_name(network, variant, scheduler));
        let trials = self.evidence.each(&name, measure).0;
        trials.iter().sum::<f64>() / trials.len() as f64
    }

    pub(super) fn video(&self, network: &Network, variant: &str, scheduler: &str) -> Video {
        let film = (network, variant, scheduler);
        Video {
            discards: self.mean(film, |run| download(run).discarded as f64),
            underflows: self.mean(film, underflows),
        }
    }

    /// Returns the retransmitted packets, by flow.
    pub(super) fn retransmissions(
        &self,
        network: &Network,
        variant: &str,
        scheduler: &str,
    ) -> [f64; 2] {
        let film = (network, variant, scheduler);
        [0, 1].map(|flow| self.mean(film, |run| resent(&run.statistics.flows[0].paths[flow])))
    }

    /// Returns the retransmitted packets of all flows.
    pub(super) fn resent(&self, network: &Network, variant: &str, scheduler: &str) -> f64 {
        let by_flow = self.retransmissions(network, variant, scheduler);
        by_flow.iter().sum()
    }

    /// Returns whether all runs of a plan could be drawn in the paper's figures.
    fn is_within_axes(&self, plan: &Plan<'_>) -> bool {
        plan.runs().iter().all(|(network, scheduler, variant)| {
            let video = self.video(network, variant, scheduler);
            let [first, second] = self.retransmissions(network, variant, scheduler);
            video.discards.max(video.underflows) <= network.most_events
                && first.max(second) <= network.most_retransmissions
        })
    }
}

/// Tallies the points at which `is_so` is true.
pub(super) fn met_points(evidence: &Evidence, is_so: &dyn Fn(&At<'_>) -> bool) -> MetPoints {
    SPACE.met_points(|point| vec![Expect::that("it is so", is_so(&At { evidence, point }))])
}

/// A sentence of the paper at a point.
pub(super) type Sentence<'a> = (&'a str, &'a dyn Fn(&At<'_>) -> bool);

/// Judges sentences of the paper over the space. The reason also reports at how many points within
/// the figures' axes they are true.
pub(super) fn judge(
    evidence: &Evidence,
    plan: &Plan<'_>,
    sentences: &[Sentence<'_>],
    why: &str,
) -> Judgement {
    let points = SPACE.points();
    let drawn: Vec<At<'_>> = points
        .iter()
        .map(|point| At { evidence, point })
        .filter(|at| at.is_within_axes(plan))
        .collect();
    let mut judgement = Judgement::new();
    let mut lines = String::new();
    for (name, is_so) in sentences {
        let so = met_points(evidence, is_so);
        so.report(name, &mut judgement);
        judgement.report(&among(&drawn, name, is_so));
        lines.push_str(&format!("{name}: {} ", so.sentence()));
    }
    show(evidence, plan, &mut judgement);
    judgement.because(format!("{lines}{why}"))
}

/// Returns the share of the points within the axes at which `is_so` is true.
fn among(drawn: &[At<'_>], name: &str, is_so: &dyn Fn(&At<'_>) -> bool) -> Measured {
    let met = drawn.iter().filter(|at| is_so(at)).count();
    let name = format!("{name}: of the {} points within the axes", drawn.len());
    let share = met as f64 / drawn.len() as f64;
    Measured::new(name, Unit::Share, Samples(vec![share]))
}

/// Reports and draws whole films, as the paper's figures do.
fn show(evidence: &Evidence, plan: &Plan<'_>, judgement: &mut Judgement) {
    let variants: Vec<&str> = [plan.variants, &[CCPD]].concat();
    for network in plan.networks {
        for scheduler in plan.schedulers {
            let (mut discards, mut underflows) = (Vec::new(), Vec::new());
            let mut resent_by = [Vec::new(), Vec::new()];
            for variant in &variants {
                let name = case_name(network, variant, scheduler);
                discards.push(evidence.each(&name, |run| download(run).discarded as f64));
                underflows.push(evidence.each(&name, |run| download(run).underflows as f64));
                for (flow, samples) in resent_by.iter_mut().enumerate() {
                    samples.push(
                        evidence.each(&name, |run| resent(&run.statistics.flows[0].paths[flow])),
                    );
                }
            }
            let [first, second] = resent_by;
            let events = ("events", network.most_events);
            let packets = ("packets", network.most_retransmissions);
            let pictures = [
                (
                    events,
                    [("pictures discarded", discards), ("underflows", underflows)],
                ),
                (
                    packets,
                    [("resent on flow 1", first), ("resent on flow 2", second)],
                ),
            ];
            for ((unit, end), kinds) in pictures {
                for (what, all) in &kinds {
                    for (variant, samples) in variants.iter().zip(all) {
                        let name = format!(
                            "{variant}, {scheduler}, {}: {what} (axis to {end})",
                            network.name
                        );
                        judgement.report(&Measured::new(name, Unit::Number, samples.clone()));
                    }
                }
                judgement.draw(bars(network, scheduler, unit, &variants, &kinds));
            }
        }
    }
}

/// Returns means, and minima and maxima of the trials.
fn bars(
    network: &Network,
    scheduler: &str,
    unit: &str,
    variants: &[&str],
    kinds: &[(&str, Vec<Samples>); 2],
) -> Chart {
    fn bar(samples: &Samples) -> Option<Bar> {
        let spread = samples.spread()?;
        let mean = samples.0.iter().sum::<f64>() / samples.0.len() as f64;
        Some(Bar {
            value: mean,
            low: spread.min,
            high: spread.max,
        })
    }
    fn kind((what, all): &(&str, Vec<Samples>)) -> BarKind {
        BarKind {
            label: (*what).to_owned(),
            bars: all.iter().map(bar).collect(),
        }
    }
    Chart::Bars(Bars {
        title: format!("{scheduler}, {}: the whole film", network.name),
        y: unit.to_owned(),
        groups: variants.iter().map(|name| (*name).to_owned()).collect(),
        kinds: kinds.iter().map(kind).collect(),
    })
}

/// Expects that a variant's whole films stay within the axes of the figures.
pub(super) fn within_axes(evidence: &Evidence, plan: &Plan<'_>, variant: &str) -> Vec<Expect> {
    let networks = plan.networks.iter();
    let pairs = networks.flat_map(|network| plan.schedulers.iter().map(move |it| (network, it)));
    pairs
        .map(|(network, scheduler)| {
            let case = case_name(network, variant, scheduler);
            let samples = evidence.each(&case, |run| {
                let seen = download(run);
                seen.discarded.max(seen.underflows) as f64
            });
            let events = Measured::new(format!("{case}: most events"), Unit::Number, samples);
            events.at_most(network.most_events)
        })
        .collect()
}
