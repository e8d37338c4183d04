//! What a run measured, in the words in which papers speak of it.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::OnceLock;

use anabranch_lab::metrics::{FlowSeries, PathSeries, Series, Statistics, Variation, jain_index};

/// One run. Its series, which take most of the memory, are read when somebody asks for them.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// Over the scenario's statistics window.
    pub statistics: Statistics,
    /// What its file expects, expectation by expectation; `None`: there was nothing to measure.
    pub expected: Vec<Option<f64>>,
    /// Hash of all that happened.
    pub trace_hash: u64,
    series: OnceLock<Series>,
    stored: Option<StoredSeries>,
}

/// Where the series of a kept run are: JSON, from an offset of a file to its end.
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

/// Points of a line: seconds, and what was measured.
pub type Points = Vec<(f64, f64)>;

/// From one second of a run to another.
pub type Span = (f64, f64);

impl RunRecord {
    /// A run whose series are here.
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

    /// A run whose series are in a file.
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

    /// How it went over time.
    ///
    /// # Panics
    /// If the file that holds them was damaged or removed after the run was found there whole.
    pub fn series(&self) -> &Series {
        self.series.get_or_init(|| match &self.stored {
            None => Series::default(),
            Some(stored) => stored.read().unwrap_or_else(|| {
                let path = stored.path.display();
                panic!("{path} was damaged or removed while this program used it")
            }),
        })
    }

    /// A flow's place by its name.
    ///
    /// # Panics
    /// If the scenario has no such flow.
    pub fn flow(&self, name: &str) -> &FlowSeries {
        let found = self.series().flows.iter().find(|flow| flow.name == name);
        found.unwrap_or_else(|| panic!("no flow is called {name:?}"))
    }

    fn interval_s(&self) -> f64 {
        self.series().interval_ms as f64 / 1e3
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
            let flows = self.series().flows.iter();
            flows.map(|flow| self.sum(list(flow), span)).sum()
        };
        over(|flow| &flow.delay_nanos) / over(|flow| &flow.delivered_packets) / 1e6
    }

    /// Lost over sent packets of all flows.
    pub fn loss(&self, span: Span) -> f64 {
        let over = |list: fn(&FlowSeries) -> &Vec<u64>| -> f64 {
            let flows = self.series().flows.iter();
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
        let flows = self.series().flows.iter();
        jain_index(flows.map(|flow| self.rate(flow, span))).unwrap_or(f64::NAN)
    }

    /// Share of the time in which a link was sending.
    ///
    /// # Panics
    /// If the scenario has no such link.
    pub fn utilisation(&self, link: &str, span: Span) -> f64 {
        let found = self.series().links.iter().find(|other| other.name == link);
        let found = found.unwrap_or_else(|| panic!("no link is called {link:?}"));
        self.sum(&found.busy_nanos, span) / 1e9 / (span.1 - span.0)
    }

    /// Mean over time of the sum of what the controllers of all flows take for their bandwidth.
    pub fn believed_bandwidth(&self, span: Span) -> f64 {
        let mean = |flow: &FlowSeries| {
            let list = self.within(&flow.bandwidth_bits_per_second, span);
            list.iter().sum::<u64>() as f64 / list.len() as f64
        };
        self.series().flows.iter().map(mean).sum()
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

    /// Jain's index over what has arrived of each of `flows` since the start.
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

    /// What a link had queued over time, in kB.
    pub fn queued_kilobytes(&self, link: &str) -> Points {
        let found = self.series().links.iter().find(|other| other.name == link);
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

    /// Bits per second that arrived by a path.
    pub fn path_rate(&self, path: &PathSeries, span: Span) -> f64 {
        self.sum(&path.delivered_bytes, span) * 8.0 / (span.1 - span.0)
    }

    /// What arrived by a path over time, in kbit/s.
    pub fn path_kbits(&self, path: &PathSeries) -> Points {
        let rate = |bytes: u64| bytes as f64 * 8.0 / 1e3 / self.interval_s();
        self.points(&path.delivered_bytes, rate)
    }

    /// The congestion window of a flow's path over time, in packets of the flow's largest size.
    pub fn window_packets(&self, flow: &FlowSeries, path: &PathSeries) -> Points {
        let packets = |bytes: u64| bytes as f64 / flow.packet_bytes as f64;
        self.points(&path.congestion_window_bytes, packets)
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
