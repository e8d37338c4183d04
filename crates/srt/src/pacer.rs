//! Pace of packets in live mode (draft-sharabayko-srt-01, §5.1.2).

use anabranch_units::{DataRate, Duration, Instant};

use crate::settings::MaxBandwidth;

/// Lead that packets may have over the pace, so that drivers need not wake for each one.
const BURST: Duration = Duration::from_millis(1);
/// Period in which the input's rate is measured, as libsrt's.
const INPUT_PERIOD: Duration = Duration::from_secs(1);
/// Least rate of a measured input: a stream that pauses begins again at once.
const LEAST_RATE: DataRate = DataRate::from_megabits_per_second(1);

/// Pace of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    bandwidth: MaxBandwidth,
    /// Time at which all packets have left at the pace.
    busy_until: Instant,
    input: InputRate,
}

/// Rate of the packets that the program sends.
#[derive(Clone, Copy, Debug, Default)]
struct InputRate {
    since: Option<Instant>,
    bytes: u64,
    measured: Option<DataRate>,
}

impl Pacer {
    pub(crate) fn new(bandwidth: MaxBandwidth) -> Self {
        Pacer {
            bandwidth,
            busy_until: Instant::ZERO,
            input: InputRate::default(),
        }
    }

    /// Returns the time from which the next packet may leave.
    pub(crate) fn next_at(&self) -> Instant {
        self.busy_until.saturating_sub(BURST)
    }

    /// Counts bytes that the program sends, headers included.
    pub(crate) fn on_input(&mut self, now: Instant, bytes: usize) {
        let since = *self.input.since.get_or_insert(now);
        let elapsed = now.saturating_since(since);
        if elapsed >= INPUT_PERIOD {
            let rate = DataRate::from_bytes_per(self.input.bytes, elapsed);
            self.input = InputRate {
                since: Some(now),
                bytes: 0,
                measured: Some(rate.max(LEAST_RATE)),
            };
        }
        self.input.bytes += bytes as u64;
    }

    /// Counts a packet that leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: usize) {
        if let Some(rate) = self.rate() {
            self.busy_until = self.busy_until.max(now) + rate.time_for(bytes as u64);
        }
    }

    /// Returns the rate; `None` until the input has been measured.
    fn rate(&self) -> Option<DataRate> {
        match self.bandwidth {
            MaxBandwidth::Rate(rate) => Some(rate),
            MaxBandwidth::Input { overhead_percent } => {
                let factor = 1.0 + f64::from(overhead_percent) / 100.0;
                self.input.measured.map(|rate| rate.mul_f64(factor))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_at_the_rate_after_a_burst() {
        let rate = DataRate::from_megabits_per_second(10);
        let mut pacer = Pacer::new(MaxBandwidth::Rate(rate));
        let now = Instant::from_secs(1);
        let mut sent = 0;
        while pacer.next_at() <= now {
            pacer.on_sent(now, 1_250);
            sent += 1;
        }
        // A packet takes 1 ms.
        assert_eq!(sent, 2);
        assert_eq!(pacer.next_at(), now + Duration::from_millis(1));
    }

    #[test]
    fn section_5_1_1_an_input_gets_its_rate_and_an_overhead() {
        let overhead_percent = 25;
        let mut pacer = Pacer::new(MaxBandwidth::Input { overhead_percent });
        assert_eq!(pacer.rate(), None);
        for milli in 0..=1_000 {
            pacer.on_input(Instant::from_millis(milli), 1_250);
        }
        let expected = DataRate::from_kilobits_per_second(12_500);
        assert_eq!(pacer.rate(), Some(expected));
        pacer.on_input(Instant::from_secs(60), 1_250);
        assert!(pacer.rate() >= Some(LEAST_RATE), "after a pause");
    }
}
