//! The feedback frame: the arrivals on a path, and their times, packet by packet.
//!
//! Ranges of packet numbers, as in QUIC, repeat earlier reports, so that a lost report costs
//! nothing; arrival times, in microseconds, are sent once.

use anabranch_units::{Duration, Instant};

use super::varint::{read, unzigzag, write, zigzag};
use super::{FEEDBACK, truncated};
use crate::path_view::PathId;

/// The most ranges of packet numbers in a report.
pub(crate) const MAX_RANGES: usize = 32;
/// The most arrival times in a report.
pub(crate) const MAX_ARRIVALS: usize = 128;

/// A report as it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingReport<'a, A> {
    pub(crate) path: PathId,
    /// The receiver's clock when the report is made.
    pub(crate) reported_at: Instant,
    /// Packets received that were marked Congestion Experienced, since the start.
    pub(crate) ce_count: u64,
    /// Received numbers, inclusive, the highest range first; at least one.
    pub(crate) ranges: &'a [(u64, u64)],
    /// When the highest received packets arrived, in descending order of their numbers and without
    /// holes among the received ones; may be none.
    pub(crate) arrivals: A,
}

/// A report as it is read. Used again and again, so that reading does not allocate.
#[derive(Clone, Debug, Default)]
pub struct FeedbackReport {
    largest: u64,
    reported_at: Instant,
    pub(crate) ce_count: u64,
    /// Received numbers as distances below the largest, inclusive, nearest first.
    ranges: Vec<(u64, u64)>,
    /// Times from the arrivals of the highest received packets to the report, in microseconds.
    held_back_micros: Vec<u32>,
}

impl FeedbackReport {
    /// Returns the largest received packet number.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// Returns when the report was made, by the receiver's clock.
    pub(crate) fn reported_at(&self) -> Instant {
        self.reported_at
    }

    /// Completes the truncated numbers from the expected ones: the path's next packet number, and
    /// the time of its last report.
    pub(crate) fn expand(&mut self, next_packet_number: u64, last_reported_at: Instant) {
        self.largest = truncated::expand(self.largest as u32, next_packet_number);
        let micros = self.reported_at.as_micros() as u32;
        self.reported_at =
            Instant::from_micros(truncated::expand(micros, last_reported_at.as_micros()));
    }

    /// Returns whether the packet has arrived.
    pub(crate) fn contains(&self, packet_number: u64) -> bool {
        let Some(distance) = self.largest.checked_sub(packet_number) else {
            return false;
        };
        self.ranges
            .iter()
            .any(|&(from, to)| (from..=to).contains(&distance))
    }

    /// Iterates over the first and last number of each range of received packets, in ascending
    /// order.
    pub(crate) fn ascending_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        // A peer may claim numbers below zero, which were never sent.
        self.ranges.iter().rev().filter_map(|&(nearest, farthest)| {
            let last = self.largest.checked_sub(nearest)?;
            Some((self.largest.saturating_sub(farthest), last))
        })
    }

    /// Returns the time from the arrival of a packet in the report to the report, if it is stated.
    pub(crate) fn held_back(&self, packet_number: u64) -> Option<Duration> {
        let distance = self.largest.checked_sub(packet_number)?;
        let mut index = 0;
        for &(from, to) in &self.ranges {
            if distance <= to {
                index += distance.checked_sub(from)?;
                let micros = self.held_back_micros.get(usize::try_from(index).ok()?)?;
                return Some(Duration::from_micros(u64::from(*micros)));
            }
            index += to - from + 1;
        }
        None
    }

    /// Takes the frame's body off the front of `bytes`; `None` if it is malformed.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Option<PathId> {
        // A copy of the slice, which stays in registers.
        let mut rest = *bytes;
        let path = super::read_path(&mut rest)?;
        self.largest = u64::from(super::read_u32(&mut rest)?);
        self.reported_at = Instant::from_micros(u64::from(super::read_u32(&mut rest)?));
        self.ce_count = read(&mut rest)?;
        self.read_ranges(&mut rest)?;
        self.read_arrivals(&mut rest)?;
        *bytes = rest;
        Some(path)
    }

    fn read_ranges(&mut self, bytes: &mut &[u8]) -> Option<()> {
        self.ranges.clear();
        let more_ranges = read(bytes)?;
        if more_ranges >= MAX_RANGES as u64 {
            return None;
        }
        let mut end = read(bytes)?;
        self.ranges.push((0, end));
        for _ in 0..more_ranges {
            // The number after a range's end is missing, or the two would be one range.
            let from = end + read(bytes)? + 2;
            end = from + read(bytes)?;
            // All numbers read are below 2^62, so nothing has overflowed.
            if end >= 1 << 62 {
                return None;
            }
            self.ranges.push((from, end));
        }
        Some(())
    }

    fn read_arrivals(&mut self, bytes: &mut &[u8]) -> Option<()> {
        self.held_back_micros.clear();
        let count = read(bytes)?;
        if count > MAX_ARRIVALS as u64 {
            return None;
        }
        let mut held_back = 0_i64;
        for _ in 0..count {
            held_back = held_back.checked_add(unzigzag(read(bytes)?))?.max(0);
            self.held_back_micros
                .push(u32::try_from(held_back).unwrap_or(u32::MAX));
        }
        Some(())
    }
}

impl<A: ExactSizeIterator<Item = Instant>> OutgoingReport<'_, A> {
    /// Appends the frame.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let (first_range, more_ranges) = self
            .ranges
            .split_first()
            .expect("a report of received packets");
        let mut head = [FEEDBACK, self.path.0, 0, 0, 0, 0, 0, 0, 0, 0];
        head[2..6].copy_from_slice(&(first_range.1 as u32).to_le_bytes());
        head[6..].copy_from_slice(&(self.reported_at.as_micros() as u32).to_le_bytes());
        out.extend_from_slice(&head);
        write(self.ce_count, out);
        write(more_ranges.len() as u64, out);
        write(first_range.1 - first_range.0, out);
        let mut above = first_range.0;
        for &(low, high) in more_ranges {
            write(above - high - 2, out);
            write(high - low, out);
            above = low;
        }
        write(self.arrivals.len() as u64, out);
        let mut after = self.reported_at.as_micros();
        for arrival in self.arrivals {
            let at = arrival.as_micros();
            write(zigzag(after as i64 - at as i64), out);
            after = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_ranges_and_arrivals() {
        let micros = Instant::from_micros;
        let written = OutgoingReport {
            path: PathId(1),
            reported_at: micros(10_000),
            ce_count: 2,
            ranges: &[(18, 20), (10, 15), (3, 3)],
            // 17 and 16 are missing; 18 overtook 19.
            arrivals: [9_990, 9_000, 9_500, 7_000].into_iter().map(micros),
        };
        let mut bytes = Vec::new();
        written.write(&mut bytes);
        assert_eq!(bytes.remove(0), FEEDBACK);
        let mut report = FeedbackReport::default();
        let mut rest = &bytes[..];
        assert_eq!(report.read(&mut rest), Some(PathId(1)));
        assert!(rest.is_empty());
        report.expand(21, Instant::ZERO);
        let received: Vec<u64> = (0..30).filter(|number| report.contains(*number)).collect();
        assert_eq!(received, [3, 10, 11, 12, 13, 14, 15, 18, 19, 20]);
        let held_back: Vec<_> = [20, 19, 18, 15, 14, 17]
            .map(|number| report.held_back(number).map(Duration::as_micros))
            .into();
        assert_eq!(
            held_back,
            [Some(10), Some(1000), Some(500), Some(3000), None, None]
        );
        for length in 0..bytes.len() {
            assert_eq!(
                report.read(&mut &bytes[..length]),
                None,
                "cut to {length} bytes"
            );
        }
    }
}
