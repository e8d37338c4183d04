//! Transmission of a bottleneck: at a rate, or at the opportunities of a trace.

use anabranch_units::{DataRate, Duration, Instant};

use crate::schedule::Schedule;
use crate::trace::{OPPORTUNITY_BYTES, Trace};

const BIT_NANOS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Transmitter {
    Rate {
        rate: Schedule<DataRate>,
        /// Time that each packet takes beside that of its bytes.
        frame_time: Duration,
    },
    Trace(TraceCursor),
}

impl Transmitter {
    /// Returns the rate before any change, or the average rate of the trace.
    pub(crate) fn initial_rate(&self) -> DataRate {
        match self {
            Transmitter::Rate { rate, .. } => rate.initial(),
            Transmitter::Trace(cursor) => cursor.trace.mean_rate(),
        }
    }

    /// Replaces its rate and schedule, or its trace.
    pub(crate) fn set_rate(&mut self, rate: DataRate) {
        let frame_time = match self {
            Transmitter::Rate { frame_time, .. } => *frame_time,
            Transmitter::Trace(_) => Duration::ZERO,
        };
        *self = Transmitter::Rate {
            rate: Schedule::constant(rate),
            frame_time,
        };
    }

    /// Returns the time that a packet from `started_at` on kept it busy up to `until`, when
    /// `sent_bytes` of it had left. With a trace, this is the time that they take at its average
    /// rate.
    #[inline]
    pub(crate) fn busy(&self, started_at: Instant, until: Instant, sent_bytes: u32) -> Duration {
        match self {
            Transmitter::Rate { .. } => until.saturating_since(started_at),
            Transmitter::Trace(cursor) => cursor.trace.mean_rate().time_for(u64::from(sent_bytes)),
        }
    }

    /// Returns the start of service of the next packet, which is available at `at`: after an idle
    /// time or, back to back, when the last one has left.
    pub(crate) fn start_at(&mut self, at: Instant, was_idle: bool) -> Instant {
        match self {
            Transmitter::Rate { .. } => at,
            Transmitter::Trace(cursor) => cursor.start_at(at, was_idle),
        }
    }

    /// Returns the time to send `bytes` at the rate of `now`.
    pub(crate) fn time_for(&self, now: Instant, bytes: u64) -> Duration {
        match self {
            Transmitter::Rate { rate, .. } => rate.from(now).0.time_for(bytes),
            Transmitter::Trace(_) => Duration::ZERO,
        }
    }

    /// Returns the departure of a packet's last bit, if its first bit leaves at `start`.
    #[inline]
    pub(crate) fn end_at(&mut self, start: Instant, size_bytes: u32) -> Instant {
        match self {
            Transmitter::Rate { rate, frame_time } => {
                service_end(rate, start + *frame_time, size_bytes)
            }
            Transmitter::Trace(cursor) => cursor.end_at(start, size_bytes),
        }
    }
}

#[inline]
fn service_end(schedule: &Schedule<DataRate>, start: Instant, size_bytes: u32) -> Instant {
    let (mut rate, changes) = schedule.from(start);
    let ends_at = start + service_time(rate, size_bytes);
    if changes
        .first()
        .is_none_or(|(change_at, _)| ends_at <= *change_at)
    {
        return ends_at;
    }
    // Exact in bit · ns/s, in which a rate times a span is an integer.
    let mut remaining = u128::from(size_bytes) * BIT_NANOS_PER_BYTE_SECOND;
    let mut from = start;
    for &(change_at, next_rate) in changes {
        let capacity = u128::from(rate.bits_per_second())
            .saturating_mul(u128::from((change_at - from).as_nanos()));
        if remaining <= capacity {
            break;
        }
        remaining -= capacity;
        (from, rate) = (change_at, next_rate);
    }
    from + remaining_time(rate, remaining)
}

/// Returns [`DataRate::time_for`], but zero at the rate that stands for "no limit".
fn service_time(rate: DataRate, size_bytes: u32) -> Duration {
    if rate == DataRate::MAX {
        Duration::ZERO
    } else {
        rate.time_for(u64::from(size_bytes))
    }
}

fn remaining_time(rate: DataRate, bit_nanos: u128) -> Duration {
    match rate {
        DataRate::ZERO => Duration::MAX,
        DataRate::MAX => Duration::ZERO,
        rate => {
            let nanos = bit_nanos.div_ceil(u128::from(rate.bits_per_second()));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}

/// Position in the opportunities of a trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceCursor {
    trace: Trace,
    /// Number of the next opportunity.
    next: u64,
    /// Unused bytes of the opportunity before it.
    left_bytes: u32,
}

impl TraceCursor {
    pub(crate) fn new(trace: Trace) -> Self {
        TraceCursor {
            trace,
            next: 0,
            left_bytes: 0,
        }
    }

    /// Returns the start of service of the next packet, which is available at `at`: after an idle
    /// time or, back to back, when the last one has left.
    pub(crate) fn start_at(&mut self, at: Instant, was_idle: bool) -> Instant {
        if was_idle {
            // Unused opportunities are lost, including that of this very instant.
            self.left_bytes = 0;
            self.next = self.trace.first_after(at);
        } else if self.left_bytes > 0 {
            return at;
        }
        self.trace.opportunity_at(self.next)
    }

    fn end_at(&mut self, start: Instant, size_bytes: u32) -> Instant {
        let (mut ends_at, mut remaining) = (start, size_bytes);
        loop {
            let used = remaining.min(self.left_bytes);
            self.left_bytes -= used;
            remaining -= used;
            if remaining == 0 {
                return ends_at;
            }
            ends_at = self.trace.opportunity_at(self.next);
            self.next += 1;
            self.left_bytes = OPPORTUNITY_BYTES;
        }
    }
}
