//! Round-trip time by acknowledgements and their acknowledgements (draft-sharabayko-srt-01, §4.10).

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Values before the first sample (§4.10).
const INITIAL_RTT: Duration = Duration::from_millis(100);
const INITIAL_VARIATION: Duration = Duration::from_millis(50);
/// Longest time that a peer's report may set, since timers depend on it.
const MAX_RTT: Duration = Duration::from_secs(5);
/// Acknowledgements that wait for their answer: ten seconds of them.
const MAX_WAITING: usize = 1_024;

/// Smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Duration,
    variation: Duration,
    is_measured: bool,
    /// Shortest time from a packet's departure to the peer's answer.
    least: Option<Duration>,
}

impl Default for Rtt {
    fn default() -> Self {
        Rtt {
            smoothed: INITIAL_RTT,
            variation: INITIAL_VARIATION,
            is_measured: false,
            least: None,
        }
    }
}

impl Rtt {
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// Returns whether there was a sample, of either end.
    pub(crate) fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// Returns the time within which nearly every answer arrives.
    pub(crate) fn longest(&self) -> Duration {
        self.smoothed + self.variation * 4
    }

    /// Returns the time before which hardly any answer to a repeated packet arrives. A peer's
    /// report does not make it shorter than this end has measured.
    pub(crate) fn repeats_after(&self) -> Duration {
        let shortest = self.smoothed.saturating_sub(self.variation * 2);
        shortest.max(self.least.unwrap_or(INITIAL_RTT))
    }

    /// Takes the time from the departure of a packet to its acknowledgement or the report of a gap
    /// before it.
    pub(crate) fn on_answered(&mut self, sample: Duration) {
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
    }

    /// Takes a sample of this end. The first one replaces the initial values, as in libsrt.
    pub(crate) fn on_sample(&mut self, sample: Duration) {
        if self.is_measured {
            let deviation = sample.abs_diff(self.smoothed);
            self.variation = (self.variation * 3 + deviation) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        } else {
            self.smoothed = sample;
            self.variation = sample / 2;
            self.is_measured = true;
        }
    }

    /// Adopts the peer's values; only the receiver of data measures.
    pub(crate) fn on_report(&mut self, smoothed: Duration, variation: Duration) {
        *self = Rtt {
            smoothed: smoothed.min(MAX_RTT),
            variation: variation.min(MAX_RTT),
            is_measured: true,
            ..*self
        };
    }
}

/// Acknowledgements that have not been acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentAcks {
    waiting: VecDeque<(u32, Instant)>,
    last_number: u32,
}

impl SentAcks {
    /// Returns the number of an acknowledgement that leaves now. Number 0 marks light ones.
    pub(crate) fn number(&mut self, now: Instant) -> u32 {
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((self.last_number, now));
        self.last_number
    }

    /// Returns the round-trip time that the answer shows. Earlier acknowledgements are forgotten.
    pub(crate) fn on_answer(&mut self, now: Instant, number: u32) -> Option<Duration> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|(its, _)| *its == number)?;
        let answered = self.waiting.drain(..=at).next_back()?;
        Some(now.saturating_since(answered.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_4_10_smoothing() {
        let millis = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!(rtt.longest(), millis(300));
        rtt.on_sample(millis(40));
        assert_eq!((rtt.smoothed(), rtt.variation()), (millis(40), millis(20)));
        rtt.on_sample(millis(80));
        assert_eq!((rtt.smoothed(), rtt.variation()), (millis(45), millis(25)));
    }

    #[test]
    fn a_peers_report_is_bounded() {
        let millis = Duration::from_millis;
        let mut rtt = Rtt::default();
        rtt.on_report(Duration::from_secs(4_000), Duration::from_secs(4_000));
        assert_eq!((rtt.smoothed(), rtt.variation()), (MAX_RTT, MAX_RTT));
        rtt.on_report(millis(4_999), millis(5_001));
        assert_eq!((rtt.smoothed(), rtt.variation()), (millis(4_999), MAX_RTT));
    }

    #[test]
    fn no_report_makes_repeats_sooner_than_the_measured_round_trip() {
        let millis = Duration::from_millis;
        let mut rtt = Rtt::default();
        rtt.on_report(Duration::ZERO, Duration::ZERO);
        assert_eq!(rtt.repeats_after(), INITIAL_RTT, "nothing is measured");
        for sample in [48, 40, 52] {
            rtt.on_answered(millis(sample));
        }
        assert_eq!(rtt.repeats_after(), millis(40));
        rtt.on_report(millis(80), millis(10));
        assert_eq!(rtt.repeats_after(), millis(60));
    }

    #[test]
    fn an_answer_is_matched_by_its_number_once() {
        let at = Instant::from_millis;
        let mut acks = SentAcks::default();
        let numbers = [0, 10, 20].map(|millis| acks.number(at(millis)));
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(acks.on_answer(at(50), 2), Some(Duration::from_millis(40)));
        assert_eq!(acks.on_answer(at(50), 1), None, "an earlier one");
        assert_eq!(acks.on_answer(at(50), 9), None, "never sent");
        for millis in 0..5_000 {
            acks.number(at(millis));
        }
        assert_eq!(acks.waiting.len(), MAX_WAITING);
    }
}
