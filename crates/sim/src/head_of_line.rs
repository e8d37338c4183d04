//! Head-of-line blocking: the time that received bytes of a stream wait for missing bytes before
//! them.

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Received bytes of a stream, and the arrival times of those that cannot be read yet.
#[derive(Debug, Default)]
pub(crate) struct HeadOfLine {
    /// Offset below which all bytes have arrived.
    in_order: u64,
    /// Byte ranges received beyond a gap, by offset, with their arrival times.
    waiting: VecDeque<(Range<u64>, Instant)>,
}

impl HeadOfLine {
    /// Records that `newest` is the last segment received, and that all bytes below `in_order` have
    /// arrived. Calls `release` with the number of bytes that have become readable, and the time
    /// that they waited.
    #[inline]
    pub(crate) fn on_arrived(
        &mut self,
        now: Instant,
        newest: Range<u64>,
        in_order: u64,
        mut release: impl FnMut(u64, Duration),
    ) {
        if self.waiting.is_empty() && newest.end == in_order {
            let bytes = in_order - self.in_order;
            self.in_order = in_order;
            if bytes > 0 {
                release(bytes, Duration::ZERO);
            }
            return;
        }
        self.record(now, newest);
        self.in_order = in_order;
        while let Some((range, at)) = self.waiting.front()
            && range.start < in_order
        {
            release(range.end - range.start, now - *at);
            self.waiting.pop_front();
        }
    }

    /// Records those of the bytes that are new.
    fn record(&mut self, now: Instant, newest: Range<u64>) {
        let mut from = newest.start.max(self.in_order);
        let mut index = self.waiting.partition_point(|(range, _)| range.end <= from);
        while from < newest.end {
            let next = self.waiting.get(index);
            let known = next.map_or(u64::MAX..u64::MAX, |(range, _)| range.clone());
            let until = newest.end.min(known.start);
            if from < until {
                self.waiting.insert(index, (from..until, now));
                index += 1;
            }
            from = until.max(known.end);
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds segments at these milliseconds, with the end of the in-order data. Returns the bytes
    /// that become readable each time, and the milliseconds that they waited.
    fn released(segments: &[(u64, Range<u64>, u64)]) -> Vec<(u64, u64)> {
        let mut line = HeadOfLine::default();
        let mut released = Vec::new();
        for (at, newest, in_order) in segments {
            line.on_arrived(
                Instant::from_millis(*at),
                newest.clone(),
                *in_order,
                |bytes, waited| released.push((bytes, waited.as_millis())),
            );
        }
        released
    }

    #[test]
    fn bytes_in_order_do_not_wait() {
        let segments = [(1, 0..10, 10), (2, 10..15, 15), (3, 10..15, 15)];
        assert_eq!(released(&segments), [(10, 0), (5, 0)]);
    }

    #[test]
    fn each_segment_waits_from_its_own_arrival_until_the_gap_is_filled() {
        let segments = [
            (1, 10..20, 0),
            (4, 30..40, 0),
            // No new bytes.
            (5, 30..40, 0),
            (9, 0..10, 20),
            (11, 20..30, 40),
        ];
        let expected = [(10, 0), (10, 8), (10, 0), (10, 7)];
        assert_eq!(released(&segments), expected);
    }

    #[test]
    fn bytes_that_come_twice_count_from_the_first_time() {
        let segments = [(1, 10..20, 0), (3, 5..25, 0), (6, 0..5, 25)];
        assert_eq!(released(&segments), [(5, 0), (5, 3), (10, 5), (5, 3)]);
        // A copy that covers the gap and the known segments beyond it.
        let segments = [(1, 10..20, 0), (3, 30..40, 0), (6, 0..50, 50)];
        let expected = [(10, 0), (10, 5), (10, 0), (10, 3), (10, 0)];
        assert_eq!(released(&segments), expected);
    }
}
