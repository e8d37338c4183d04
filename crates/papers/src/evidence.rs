//! What the runs of a claim measured, in the words in which papers speak of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::judgement::{Expect, Measured, Samples, WithoutChance};
use anabranch_lab::metrics::{FlowSeries, Series, Statistics, Variation, jain_index};
use anabranch_lab::subject_name;
use anabranch_lab::{Expectation, Scenario};

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Over the scenario's statistics window.
    pub statistics: Statistics,
    /// What its file expects, expectation by expectation; `None`: there was nothing to measure.
    pub expected: Vec<Option<f64>>,
    /// Over time.
    pub series: Series,
}

/// Points of a line: seconds, and what was measured.
pub type Points = Vec<(f64, f64)>;

/// From one second of a run to another.
pub type Span = (f64, f64);

impl RunRecord {
    /// A flow's place by its name.
    ///
    /// # Panics
    /// If the scenario has no such flow.
    pub fn flow(&self, name: &str) -> &FlowSeries {
        let found = self.series.flows.iter().find(|flow| flow.name == name);
        found.unwrap_or_else(|| panic!("no flow is called {name:?}"))
    }

    fn interval_s(&self) -> f64 {
        self.series.interval_ms as f64 / 1e3
    }

    /// The entries of a list that lie within `span`.
    fn within<'a, T>(&self, list: &'a [T], span: Span) -> &'a [T] {
        let index = |seconds: f64| ((seconds / self.interval_s()).round() as usize).min(list.len());
        let (from, to) = (index(span.0), index(span.1));
        &list[from.min(to)..to]
    }

    fn sum(&self, list: &[u64], span: Span) -> f64 {
        self.within(list, span).iter().sum::<u64>() as f64
    }

    /// Bits per second that a flow sent.
    pub fn sent_rate(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.sent_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// Bits per second of a flow that arrived.
    pub fn rate(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.delivered_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// Mean one-way delay of all packets of all flows, in ms.
    pub fn delay_ms(&self, span: Span) -> f64 {
        let over = |list: fn(&FlowSeries) -> &Vec<u64>| -> f64 {
            let flows = self.series.flows.iter();
            flows.map(|flow| self.sum(list(flow), span)).sum()
        };
        over(|flow| &flow.delay_nanos) / over(|flow| &flow.delivered_packets) / 1e6
    }

    /// Lost over sent packets of all flows.
    pub fn loss(&self, span: Span) -> f64 {
        let over = |list: fn(&FlowSeries) -> &Vec<u64>| -> f64 {
            let flows = self.series.flows.iter();
            flows.map(|flow| self.sum(list(flow), span)).sum()
        };
        over(|flow| &flow.dropped_packets) / over(|flow| &flow.sent_packets)
    }

    /// The rates at which a flow sent, interval by interval, in bit/s.
    pub fn sent_rates(&self, flow: &FlowSeries, span: Span) -> Vec<f64> {
        let rate = |bytes: &u64| *bytes as f64 * 8.0 / self.interval_s();
        self.within(&flow.sent_bytes, span)
            .iter()
            .map(rate)
            .collect()
    }

    /// Coefficient of variation of the rates at which a flow sent, interval by interval.
    pub fn variation(&self, flow: &FlowSeries, span: Span) -> f64 {
        let mut variation = Variation::default();
        for rate in self.sent_rates(flow, span) {
            variation.record(rate);
        }
        variation.coefficient().unwrap_or(f64::NAN)
    }

    /// Jain's index over what arrived of each flow.
    pub fn jain(&self, span: Span) -> f64 {
        let flows = self.series.flows.iter();
        jain_index(flows.map(|flow| self.rate(flow, span))).unwrap_or(f64::NAN)
    }

    /// Share of the time in which a link was sending.
    ///
    /// # Panics
    /// If the scenario has no such link.
    pub fn utilisation(&self, link: &str, span: Span) -> f64 {
        let found = self.series.links.iter().find(|other| other.name == link);
        let found = found.unwrap_or_else(|| panic!("no link is called {link:?}"));
        self.sum(&found.busy_nanos, span) / 1e9 / (span.1 - span.0)
    }

    /// Mean over time of the sum of what the controllers of all flows take for their bandwidth.
    pub fn believed_bandwidth(&self, span: Span) -> f64 {
        let mean = |flow: &FlowSeries| {
            let list = self.within(&flow.bandwidth_bits_per_second, span);
            list.iter().sum::<u64>() as f64 / list.len() as f64
        };
        self.series.flows.iter().map(mean).sum()
    }

    /// How often within `span` a flow was seen to enter a state of its controller, whose name may
    /// be written `ProbeRTT` or `PROBE_RTT`.
    pub fn entries(&self, flow: &FlowSeries, state: &str, span: Span) -> f64 {
        let is_within = |at_ms: u64| {
            let at = at_ms as f64 / 1e3;
            span.0 < at && at <= span.1
        };
        let seen = flow.states.iter();
        seen.filter(|(at_ms, name)| is_state(name, state) && is_within(*at_ms))
            .count() as f64
    }

    /// The rate at which a flow sent over time, in kbit/s.
    pub fn sent_kbits(&self, flow: &FlowSeries) -> Points {
        let rate = |bytes: u64| bytes as f64 * 8.0 / 1e3 / self.interval_s();
        let points = self.points(&flow.sent_bytes, rate);
        let start = flow.start_ms as f64 / 1e3;
        let stop = flow.stop_ms.map_or(f64::INFINITY, |stop| stop as f64 / 1e3);
        let is_running = |at: f64| start < at && at <= stop + self.interval_s();
        points
            .into_iter()
            .filter(|(at, _)| is_running(*at))
            .collect()
    }

    /// Mean delay of a flow's frames that came whole, in ms.
    pub fn frame_delay_ms(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.frame_delay_nanos, span) / self.sum(&flow.frames, span) / 1e6
    }

    /// The mean delay of each interval's frames over time, in ms.
    pub fn frame_delays_ms(&self, flow: &FlowSeries) -> Points {
        let means = flow.frame_delay_nanos.iter().zip(&flow.frames).enumerate();
        means
            .filter(|(_, (_, count))| **count > 0)
            .map(|(index, (sum, count))| (self.end_of(index), *sum as f64 / *count as f64 / 1e6))
            .collect()
    }

    /// Jain's index over what has arrived of each flow since the start.
    pub fn cumulative_jain(&self) -> Points {
        let mut totals = vec![0.0; self.series.flows.len()];
        let lists: Vec<&[u64]> = self
            .series
            .flows
            .iter()
            .map(|flow| &flow.delivered_bytes[..])
            .collect();
        let count = lists.first().map_or(0, |list| list.len());
        let mut points = Vec::new();
        for index in 0..count {
            for (total, list) in totals.iter_mut().zip(&lists) {
                *total += list[index] as f64;
            }
            let index_then = jain_index(totals.iter().copied());
            points.extend(index_then.map(|jain| (self.end_of(index), jain)));
        }
        points
    }

    /// What a link had queued over time, in kB.
    pub fn queued_kilobytes(&self, link: &str) -> Points {
        let found = self.series.links.iter().find(|other| other.name == link);
        found.map_or(Vec::new(), |link| {
            self.points(&link.queued_bytes, |bytes| bytes as f64 / 1e3)
        })
    }

    /// How long after `from` it is until the rate of what arrives of a flow, over three seconds, is
    /// `rate`; not a number if it never is.
    pub fn seconds_until(&self, flow: &FlowSeries, from: f64, rate: f64) -> f64 {
        let last = flow.delivered_bytes.len() as f64 * self.interval_s();
        let ends = (1..).map(|index| from + 3.0 + f64::from(index) * self.interval_s());
        ends.take_while(|end| *end <= last)
            .find(|end| self.rate(flow, (end - 3.0, *end)) >= rate)
            .map_or(f64::NAN, |end| end - from)
    }

    fn points(&self, list: &[u64], value: impl Fn(u64) -> f64) -> Points {
        let entries = list.iter().enumerate();
        entries
            .map(|(index, entry)| (self.end_of(index), value(*entry)))
            .collect()
    }

    fn end_of(&self, index: usize) -> f64 {
        (index + 1) as f64 * self.interval_s()
    }
}

/// Whether a controller calls a state by this name, if in other letters.
pub(super) fn is_state(name: &str, state: &str) -> bool {
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    letters(name) == letters(state)
}

/// The runs of a claim's cases.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    cases: BTreeMap<String, CaseRuns>,
}

/// The runs of one case.
#[derive(Clone, Debug)]
struct CaseRuns {
    /// What its file expects, if that counts: of what, and what.
    expectations: Vec<(String, Expectation)>,
    /// By seed.
    runs: Vec<Arc<RunRecord>>,
}

impl Evidence {
    pub(super) fn add(&mut self, case: String, scenario: &Scenario, runs: Vec<Arc<RunRecord>>) {
        let named = |expectation: &Expectation| {
            let subject = subject_name(scenario, expectation.subject);
            let name = [Some(expectation.metric.name), subject.as_deref()];
            let name: Vec<&str> = name.into_iter().flatten().collect();
            (name.join("."), expectation.clone())
        };
        let expectations = scenario.expectations.iter().map(named).collect();
        self.cases.insert(case, CaseRuns { expectations, runs });
    }

    /// The cases of which all seeds, if there are several, gave the same result.
    pub(super) fn without_chance(&self) -> WithoutChance {
        let is_alike = |case: &CaseRuns| {
            let (first, others) = case.runs.split_first().expect("a seed at least");
            !others.is_empty() && others.iter().all(|other| other == first)
        };
        let alike = self.cases.iter().filter(|(_, case)| is_alike(case));
        let alike: Vec<String> = alike.map(|(name, _)| name.clone()).collect();
        match alike.len() {
            0 => WithoutChance::None,
            count if count == self.cases.len() => WithoutChance::All,
            _ => WithoutChance::Some(alike),
        }
    }

    fn case(&self, name: &str) -> &CaseRuns {
        let case = self.cases.get(name);
        case.unwrap_or_else(|| panic!("no case is called {name:?}"))
    }

    /// All runs of a case, by seed.
    ///
    /// # Panics
    /// If the claim has no such case.
    pub fn runs(&self, case: &str) -> &[Arc<RunRecord>] {
        &self.case(case).runs
    }

    /// What the file of a case expects, of every run, as `anabranch run` does.
    ///
    /// # Panics
    /// If the claim has no such case.
    pub fn promises(&self, case: &str) -> Vec<Expect> {
        let CaseRuns { expectations, runs } = self.case(case);
        let judged = |(place, (name, expectation)): (usize, &(String, Expectation))| {
            let value = |run: &Arc<RunRecord>| run.expected[place].unwrap_or(f64::NAN);
            let samples = Samples(runs.iter().map(value).collect());
            let name = format!("{case}: {name}");
            let measured = Measured::new(name, expectation.metric.unit, samples);
            let least = expectation.min.map(|min| measured.always_at_least(min));
            let most = expectation.max.map(|max| measured.always_at_most(max));
            least.into_iter().chain(most)
        };
        expectations.iter().enumerate().flat_map(judged).collect()
    }

    /// A number of each run of a case. One that cannot be measured is not a number, and meets no
    /// expectation.
    pub fn each(&self, case: &str, measure: impl Fn(&RunRecord) -> f64) -> Samples {
        Samples(self.runs(case).iter().map(|run| measure(run)).collect())
    }

    /// The run that pictures show: the first seed's.
    pub fn shown(&self, case: &str) -> &RunRecord {
        &self.runs(case)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;

    const TEXT: &str = r#"
        duration = "1 s"
        links.l = { rate = "1 Mbit/s" }
        routes.r = { forward = ["l"], reverse = ["l"] }
        flows = [{ paths = ["r"] }]
        expect.frames-on-time = { min = "50 %", max = "90 %" }
        expect.utilisation.l = { max = "20 %" }
    "#;

    /// What the file promises of runs in which these were measured.
    fn promises(case: &Case, measured: &[[Option<f64>; 2]]) -> Vec<(String, bool)> {
        let scenario = case.scenario().unwrap_or_else(|error| panic!("{error}"));
        let run = |expected: &[Option<f64>; 2]| {
            let mut run = RunRecord::default();
            run.expected.extend(expected);
            Arc::new(run)
        };
        let mut evidence = Evidence::default();
        evidence.add(
            "run".to_owned(),
            &scenario,
            measured.iter().map(run).collect(),
        );
        let expects = evidence.promises("run").into_iter();
        let name = |text: &str| text.split(": ").nth(1).unwrap_or_default().to_owned();
        expects
            .map(|expect| (name(&expect.text), expect.is_met))
            .collect()
    }

    #[test]
    fn a_promise_has_to_be_kept_in_every_run_and_by_both_of_its_bounds() {
        let case = Case::new("run", "run.toml", TEXT);
        assert_eq!(promises(&case, &[[Some(0.6), Some(0.1)]]), []);
        let case = case.with_promises();
        let names = ["frames-on-time", "frames-on-time", "utilisation.l"];
        for (measured, is_met) in [
            (&[[Some(0.6), Some(0.1)]][..], [true, true, true]),
            (
                &[[Some(0.6), Some(0.1)], [Some(0.4), Some(0.3)]],
                [false, true, false],
            ),
            (&[[Some(0.95), None]], [true, false, false]),
        ] {
            let expected: Vec<(String, bool)> =
                names.map(str::to_owned).into_iter().zip(is_met).collect();
            assert_eq!(promises(&case, measured), expected);
        }
    }
}
