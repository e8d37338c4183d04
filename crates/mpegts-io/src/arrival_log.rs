//! Arrival times of an input's bytes, until the units that they make are handed over.

use std::collections::VecDeque;

use anabranch_units::Instant;
use anabranch_video::arrival_times::ArrivalTimes;
use anabranch_video::mpeg_ts::PACKET_LEN;

/// Arrivals of the bytes that are in no unit yet.
#[derive(Debug, Default)]
pub(super) struct ArrivalLog {
    /// Numbers of bytes that arrived together, and their arrival times, oldest first.
    arrivals: VecDeque<(u64, Instant)>,
    /// Bytes between packets that the splitter has skipped so far.
    skipped_bytes: u64,
}

impl ArrivalLog {
    /// Adds bytes that arrived at `at`.
    pub(super) fn push(&mut self, len: usize, at: Instant) {
        match self.arrivals.back_mut() {
            Some((count, last)) if *last == at => *count += len as u64,
            _ => self.arrivals.push_back((len as u64, at)),
        }
    }

    /// Returns the arrival time of the oldest byte that is in no unit yet.
    pub(super) fn oldest_at(&self) -> Option<Instant> {
        self.arrivals.front().map(|(_, at)| *at)
    }

    /// Returns the times of the next unit of `unit_len` bytes, captured at `captured_at`.
    /// `skipped_bytes` counts the bytes that the splitter has left out so far. Packets of 204 bytes
    /// have 16 of them each, which are spread over the unit.
    pub(super) fn take(
        &mut self,
        unit_len: usize,
        skipped_bytes: u64,
        captured_at: Instant,
    ) -> Option<ArrivalTimes> {
        let skipped = skipped_bytes.saturating_sub(self.skipped_bytes);
        self.skipped_bytes = skipped_bytes;
        let packets = (unit_len / PACKET_LEN) as u64;
        let total = unit_len as u64 + skipped;
        let mut times = Vec::new();
        let (mut taken, mut timed) = (0, 0);
        while taken < total
            && let Some((count, at)) = self.arrivals.front_mut()
        {
            let step = (*count).min(total - taken);
            *count -= step;
            taken += step;
            // A packet arrives with its last byte.
            let whole = packets * taken / total;
            times.push((whole - timed, *at));
            timed = whole;
            if *count == 0 {
                self.arrivals.pop_front();
            }
        }
        (timed == packets).then(|| ArrivalTimes::new(&times, captured_at))?
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Returns the ages of packets in ms.
    fn ages(times: &ArrivalTimes) -> Vec<u64> {
        let groups = times.groups(Duration::ZERO, 1);
        let ages = groups.into_iter().flat_map(|(count, since_first)| {
            let age = times.lead().saturating_sub(since_first);
            (0..count).map(move |_| age.as_millis())
        });
        ages.collect()
    }

    #[test]
    fn packets_come_with_their_last_byte() {
        let mut log = ArrivalLog::default();
        log.push(188 + 100, at(0));
        log.push(88 + 188, at(20));
        assert_eq!(log.oldest_at(), Some(at(0)));
        let times = log.take(3 * 188, 0, at(25)).unwrap();
        assert_eq!(ages(&times), [25, 5, 5]);
        assert_eq!((log.oldest_at(), log.take(188, 0, at(30))), (None, None));
    }

    #[test]
    fn units_share_arrivals() {
        let mut log = ArrivalLog::default();
        log.push(4 * 188, at(0));
        log.push(2 * 188, at(40));
        assert_eq!(ages(&log.take(188, 0, at(2)).unwrap()), [2]);
        assert_eq!(log.oldest_at(), Some(at(0)));
        assert_eq!(
            ages(&log.take(5 * 188, 0, at(42)).unwrap()),
            [42, 42, 42, 2, 2]
        );
    }

    #[test]
    fn bytes_between_packets_are_left_out() {
        let mut log = ArrivalLog::default();
        for number in 0..6 {
            log.push(204, at(10 * number));
        }
        assert_eq!(
            ages(&log.take(3 * 188, 3 * 16, at(20)).unwrap()),
            [20, 10, 0]
        );
        assert_eq!(
            ages(&log.take(3 * 188, 6 * 16, at(50)).unwrap()),
            [20, 10, 0]
        );
    }
}
