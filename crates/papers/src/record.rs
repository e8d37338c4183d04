//! Measurements of a run, in the terms of papers.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::OnceLock;

use anabranch_lab::metrics::{FlowSeries, PathSeries, Series, Statistics, Variation, jain_index};

/// A run. Its series, which take most of the memory, are read on demand.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// Statistics over the scenario's statistics window.
    pub statistics: Statistics,
    /// Values for the expectations of its file, in order; `None` if there was nothing to measure.
    pub expected: Vec<Option<f64>>,
    /// Hash of all events.
    pub trace_hash: u64,
    series: OnceLock<Series>,
    stored: Option<StoredSeries>,
}

/// Place of the series of a kept run: JSON, from an offset of a file to its end.
#[derive(Clone, Debug)]
pub(super) struct StoredSeries {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

impl StoredSeries {
    fn read(&self) -> Option<Series> {
        let mut file = fs::File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// Points of a line: seconds and values.
pub type Points = Vec<(f64, f64)>;

/// Seconds of a run, from and to.
pub type Span = (f64, f64);

impl RunRecord {
    /// Makes a run with its series in memory.
    pub(super) fn new(
        statistics: Statistics,
        expected: Vec<Option<f64>>,
        trace_hash: u64,
        series: Series,
    ) -> RunRecord {
        RunRecord {
            statistics,
            expected,
            trace_hash,
            series: OnceLock::from(series),
            stored: None,
        }
    }

    /// Makes a run whose series are in a file.
    pub(super) fn stored(
        statistics: Statistics,
        expected: Vec<Option<f64>>,
        trace_hash: u64,
        stored: StoredSeries,
    ) -> RunRecord {
        RunRecord {
            statistics,
            expected,
            trace_hash,
            series: OnceLock::new(),
            stored: Some(stored),
        }
    }

    /// Returns the run's series over time.
    ///
    /// # Panics
    /// Panics if the file that holds them was damaged or removed after it was found complete.
    pub fn series(&self) -> &Series {
        self.series.get_or_init(|| match &self.stored {
            None => Series::default(),
            Some(stored) => stored.read().unwrap_or_else(|| {
                let path = stored.path.display();
                panic!("{path} was damaged or removed while this program used it")
            }),
        })
    }

    /// Returns a flow by its name.
    ///
    /// # Panics
    /// Panics if the scenario has no such flow.
    pub fn flow(&self, name: &str) -> &FlowSeries {
        let found = self.series().flows.iter().find(|flow| flow.name == name);
        found.unwrap_or_else(|| panic!("no flow is called {name:?}"))
    }

    fn interval_s(&self) -> f64 {
        self.series().interval_ms as f64 / 1e3
    }

    /// Returns the entries of a list within `span`.
    fn within<'a, T>(&self, list: &'a [T], span: Span) -> &'a [T] {
        let [from, to] = [span.0, span.1]
            .map(|seconds| ((seconds / self.interval_s()).round() as usize).min(list.len()));
        &list[from.min(to)..to]
    }

    fn sum(&self, list: &[u64], span: Span) -> f64 {
        self.within(list, span).iter().sum::<u64>() as f64
    }

    fn sum_of_flows(&self, list: fn(&FlowSeries) -> &Vec<u64>, span: Span) -> f64 {
        let flows = self.series().flows.iter();
        flows.map(|flow| self.sum(list(flow), span)).sum()
    }

    /// Returns the sending rate of a flow, in bit/s.
    pub fn sent_rate(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.sent_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// Returns the delivery rate of a flow, in bit/s.
    pub fn rate(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.delivered_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// Returns the mean one-way delay of all packets of all flows, in ms.
    pub fn delay_ms(&self, span: Span) -> f64 {
        let nanos = self.sum_of_flows(|flow| &flow.delay_nanos, span);
        nanos / self.sum_of_flows(|flow| &flow.delivered_packets, span) / 1e6
    }

    /// Returns lost over sent packets of all flows.
    pub fn loss(&self, span: Span) -> f64 {
        let dropped = self.sum_of_flows(|flow| &flow.dropped_packets, span);
        dropped / self.sum_of_flows(|flow| &flow.sent_packets, span)
    }

    /// Returns the sending rates of a flow, interval by interval, in bit/s.
    pub fn sent_rates(&self, flow: &FlowSeries, span: Span) -> Vec<f64> {
        self.within(&flow.sent_bytes, span)
            .iter()
            .map(|bytes| *bytes as f64 * 8.0 / self.interval_s())
            .collect()
    }

    /// Returns the coefficient of variation of a flow's sending rates, interval by interval.
    pub fn variation(&self, flow: &FlowSeries, span: Span) -> f64 {
        let mut variation = Variation::default();
        for rate in self.sent_rates(flow, span) {
            variation.record(rate);
        }
        variation.coefficient().unwrap_or(f64::NAN)
    }

    /// Returns Jain's index over the flows' delivery rates.
    pub fn jain(&self, span: Span) -> f64 {
        let flows = self.series().flows.iter();
        jain_index(flows.map(|flow| self.rate(flow, span))).unwrap_or(f64::NAN)
    }

    /// Returns the share of the time in which a link was sending.
    ///
    /// # Panics
    /// Panics if the scenario has no such link.
    pub fn utilisation(&self, link: &str, span: Span) -> f64 {
        let found = self
            .series()
            .links
            .iter()
            .find(|other| other.name == link)
            .unwrap_or_else(|| panic!("no link is called {link:?}"));
        self.sum(&found.busy_nanos, span) / 1e9 / (span.1 - span.0)
    }

    /// Returns the mean over time of the sum of all controllers' bandwidth estimates.
    pub fn estimated_bandwidth(&self, span: Span) -> f64 {
        self.series()
            .flows
            .iter()
            .map(|flow| {
                let list = self.within(&flow.bandwidth_bits_per_second, span);
                list.iter().sum::<u64>() as f64 / list.len() as f64
            })
            .sum()
    }

    /// Returns the number of times that a flow's controller entered a state within `span`. The
    /// state may be written `ProbeRTT` or `PROBE_RTT`.
    pub fn entries(&self, flow: &FlowSeries, state: &str, span: Span) -> f64 {
        let entries = flow.states.iter().filter(|(at_ms, name)| {
            let at = *at_ms as f64 / 1e3;
            is_state(name, state) && span.0 < at && at <= span.1
        });
        entries.count() as f64
    }

    /// Returns the sending rate of a flow over time, in kbit/s.
    pub fn sent_kbits(&self, flow: &FlowSeries) -> Points {
        let points = self.points(&flow.sent_bytes, |bytes| {
            bytes as f64 * 8.0 / 1e3 / self.interval_s()
        });
        let start = flow.start_ms as f64 / 1e3;
        let stop = flow.stop_ms.map_or(f64::INFINITY, |stop| stop as f64 / 1e3);
        points
            .into_iter()
            .filter(|(at, _)| start < *at && *at <= stop + self.interval_s())
            .collect()
    }

    /// Returns the mean delay of a flow's complete frames, in ms.
    pub fn frame_delay_ms(&self, flow: &FlowSeries, span: Span) -> f64 {
        self.sum(&flow.frame_delay_nanos, span) / self.sum(&flow.frames, span) / 1e6
    }

    /// Returns the mean delay of each interval's frames over time, in ms.
    pub fn frame_delays_ms(&self, flow: &FlowSeries) -> Points {
        let means = flow.frame_delay_nanos.iter().zip(&flow.frames).enumerate();
        means
            .filter(|(_, (_, count))| **count > 0)
            .map(|(index, (sum, count))| (self.end_of(index), *sum as f64 / *count as f64 / 1e6))
            .collect()
    }

    /// Returns Jain's index over time, over the bytes of each of `flows` that have arrived since
    /// the start.
    pub fn cumulative_jain(&self, flows: &[&FlowSeries]) -> Points {
        let mut totals = vec![0.0; flows.len()];
        let lists: Vec<&[u64]> = flows.iter().map(|flow| &flow.delivered_bytes[..]).collect();
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

    /// Returns a link's queue over time, in kB.
    pub fn queued_kilobytes(&self, link: &str) -> Points {
        let found = self.series().links.iter().find(|other| other.name == link);
        found.map_or(Vec::new(), |link| {
            self.points(&link.queued_bytes, |bytes| bytes as f64 / 1e3)
        })
    }

    /// Returns the time from `from` until a flow's delivery rate over three seconds reaches `rate`;
    /// not a number if it never does.
    pub fn seconds_until(&self, flow: &FlowSeries, from: f64, rate: f64) -> f64 {
        let last = flow.delivered_bytes.len() as f64 * self.interval_s();
        let ends = (1..).map(|index| from + 3.0 + f64::from(index) * self.interval_s());
        ends.take_while(|end| *end <= last)
            .find(|end| self.rate(flow, (end - 3.0, *end)) >= rate)
            .map_or(f64::NAN, |end| end - from)
    }

    /// Returns the delivery rate of a path, in bit/s.
    pub fn path_rate(&self, path: &PathSeries, span: Span) -> f64 {
        self.sum(&path.delivered_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// Returns the delivery rate of a path over time, in kbit/s.
    pub fn path_kbits(&self, path: &PathSeries) -> Points {
        self.points(&path.delivered_bytes, |bytes| {
            bytes as f64 * 8.0 / 1e3 / self.interval_s()
        })
    }

    /// Returns the congestion window of a flow's path over time, in packets of the flow's largest
    /// size.
    pub fn window_packets(&self, flow: &FlowSeries, path: &PathSeries) -> Points {
        self.points(&path.congestion_window_bytes, |bytes| {
            bytes as f64 / flow.packet_bytes as f64
        })
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

/// Returns whether two names of a controller's state are equal but for case and underscores.
pub(super) fn is_state(name: &str, state: &str) -> bool {
    name.replace('_', "")
        .eq_ignore_ascii_case(&state.replace('_', ""))
}
