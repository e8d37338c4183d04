//! Delivery opportunities, as mahimahi's link traces list them (Netravali et al., USENIX ATC 2015).

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Instant};

/// Bytes on the wire that one opportunity serves (mahimahi's value).
pub(crate) const OPPORTUNITY_BYTES: u32 = 1_504;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Opportunities of a link to send. As text, each line is a time in milliseconds at which 1504
/// bytes may be sent, of one packet or of several, in part or in full; a packet leaves with its
/// last byte. Of equal lines each is an opportunity. Unused bytes of an opportunity are lost. The
/// last line is also the period after which the trace repeats.
///
/// Copies of a trace share the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times in milliseconds, ascending; the last is above zero.
    opportunities: Arc<[u64]>,
    /// Position of the clock's origin in the trace, in nanoseconds, less than a period.
    offset: u64,
}

impl Trace {
    /// Creates a trace of these times in milliseconds.
    ///
    /// # Errors
    /// An empty list, one that does not ascend, or one whose last time is zero.
    pub fn new(opportunities: &[u64]) -> Result<Trace, TraceError> {
        let lines = opportunities.iter().map(|millis| Ok(*millis)).zip(1..);
        Trace::from_lines(lines.map(|(millis, line)| (line, millis)))
    }

    fn from_lines(
        lines: impl Iterator<Item = (usize, Result<u64, TraceErrorKind>)>,
    ) -> Result<Trace, TraceError> {
        let mut opportunities = Vec::new();
        let (mut last_line, mut last) = (1, 0);
        for (line, read) in lines {
            let millis = read.map_err(|kind| TraceError { line, kind })?;
            if millis < last {
                return Err(TraceError {
                    line,
                    kind: TraceErrorKind::Descending,
                });
            }
            opportunities.push(millis);
            (last_line, last) = (line, millis);
        }
        let line = last_line;
        match (opportunities.is_empty(), last) {
            (true, _) => Err(TraceError {
                line,
                kind: TraceErrorKind::Empty,
            }),
            (false, 0) => Err(TraceError {
                line,
                kind: TraceErrorKind::ZeroPeriod,
            }),
            (false, _) => Ok(Trace {
                opportunities: opportunities.into(),
                offset: 0,
            }),
        }
    }

    /// Returns the time after which it repeats.
    pub fn period(&self) -> Duration {
        let last = self.opportunities.last().copied().unwrap_or(0);
        Duration::from_nanos(last.saturating_mul(NANOS_PER_MILLI))
    }

    /// Returns the capacity of a period, bytes on the wire over time.
    pub fn mean_rate(&self) -> DataRate {
        let bytes = self.opportunities.len() as u64 * u64::from(OPPORTUNITY_BYTES);
        DataRate::from_bytes_per(bytes, self.period())
    }

    /// Returns the same trace, moved by `later`. Since it repeats, it also covers the time before.
    pub fn postponed(&self, later: Duration) -> Trace {
        let period = self.period().as_nanos();
        let back = later.as_nanos() % period;
        Trace {
            opportunities: Arc::clone(&self.opportunities),
            offset: (self.offset + period - back) % period,
        }
    }

    /// Returns the capacity up to `at`, in bytes on the wire, counted from a fixed instant. The
    /// difference of two results is the capacity after the earlier instant, up to the later.
    pub fn bytes_by(&self, at: Instant) -> u64 {
        self.first_after(at) * u64::from(OPPORTUNITY_BYTES)
    }

    /// Returns the number of the first opportunity after `at`.
    pub(crate) fn first_after(&self, at: Instant) -> u64 {
        let millis = at.as_nanos().saturating_add(self.offset) / NANOS_PER_MILLI;
        let period_millis = self.period().as_nanos() / NANOS_PER_MILLI;
        let (lap, within) = (millis / period_millis, millis % period_millis);
        let index = self
            .opportunities
            .partition_point(|opportunity| *opportunity <= within);
        lap * self.opportunities.len() as u64 + index as u64
    }

    /// Returns the time of opportunity `number`.
    pub(crate) fn opportunity_at(&self, number: u64) -> Instant {
        let count = self.opportunities.len() as u64;
        let in_lap = self.opportunities[(number % count) as usize];
        let since_start = self.period() * (number / count) + Duration::from_millis(in_lap);
        (Instant::ZERO + since_start).saturating_sub(Duration::from_nanos(self.offset))
    }
}

impl FromStr for Trace {
    type Err = TraceError;
    fn from_str(text: &str) -> Result<Trace, TraceError> {
        let lines = text.lines().zip(1..).map(|(text, line)| {
            let millis = text.trim().parse::<u32>().map(u64::from);
            (line, millis.map_err(|_| TraceErrorKind::NoInteger))
        });
        Trace::from_lines(lines)
    }
}

/// Reasons for which a text or list is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, from 1, of the text; the index in the list.
    pub line: usize,
    kind: TraceErrorKind,
}

/// Messages do not repeat the text: a stranger's scenario may name another file than a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TraceErrorKind {
    Empty,
    NoInteger,
    Descending,
    ZeroPeriod,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            TraceErrorKind::Empty => f.write_str("a trace needs an opportunity"),
            TraceErrorKind::NoInteger => {
                f.write_str("this is no integer of milliseconds up to 2^32 - 1")
            }
            TraceErrorKind::Descending => f.write_str("the times must not descend"),
            TraceErrorKind::ZeroPeriod => {
                f.write_str("the last time is the trace's period and must be above 0")
            }
        }
    }
}

impl core::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_repeats_after_its_last_line() {
        fn at(trace: &Trace, number: u64) -> u64 {
            trace.opportunity_at(number).as_micros()
        }

        let trace: Trace = "0\n2\n2\n5\n".parse().unwrap();
        let times: Vec<u64> = (0..9).map(|number| at(&trace, number)).collect();
        let expected = [0, 2, 2, 5, 5, 7, 7, 10, 10];
        assert_eq!(times, expected.map(|millis| millis * 1_000));
        for micros in 0..25_000 {
            let after = trace.first_after(Instant::from_micros(micros));
            assert!(at(&trace, after) > micros, "{micros}");
            assert!(after == 0 || at(&trace, after - 1) <= micros, "{micros}");
        }
        assert_eq!(
            trace.mean_rate(),
            DataRate::from_bytes_per(4 * 1_504, trace.period())
        );
    }

    #[test]
    fn a_postponed_trace_is_in_step_before_and_after() {
        let trace = Trace::new(&[1, 2, 5]).unwrap();
        let later = trace.postponed(Duration::from_millis(12));
        let first = later.first_after(Instant::ZERO);
        let times: Vec<u64> = (first..first + 8)
            .map(|number| later.opportunity_at(number).as_micros() / 1_000)
            .collect();
        assert_eq!(times, [2, 3, 4, 7, 8, 9, 12, 13]);
        assert_eq!(later.postponed(Duration::from_millis(3)), trace);
    }

    #[test]
    fn between_two_instants_it_carries_the_opportunities_after_the_first_up_to_the_second() {
        fn packets(trace: &Trace, from: u64, to: u64) -> u64 {
            let [until, before] =
                [to, from].map(|millis| trace.bytes_by(Instant::from_millis(millis)));
            (until - before) / 1_504
        }

        let trace = Trace::new(&[1, 1, 4]).unwrap();
        let later = trace.postponed(Duration::from_millis(1));
        assert_eq!(
            [(0, 1), (1, 4), (1, 9)].map(|(a, b)| packets(&trace, a, b)),
            [2, 1, 6]
        );
        assert_eq!(
            [(0, 1), (1, 2), (2, 10)].map(|(a, b)| packets(&later, a, b)),
            [1, 2, 6]
        );
    }

    #[test]
    fn trace_errors_name_the_line() {
        for (text, message) in [
            ("", "line 1: a trace needs"),
            ("1\n\n2", "line 2: this is no integer"),
            ("1\n-2", "line 2: this is no integer"),
            ("1\n2.5", "line 2: this is no integer"),
            ("4\n7\n6\n", "line 3: the times must not descend"),
            ("0\n0\n", "line 2: the last time"),
        ] {
            let error = text.parse::<Trace>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }
}
