//! Model of a path's losses: their ratio, and their number in a row.
//!
//! Bursts are those of Gilbert's model (E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell
//! System Technical Journal 39, 1960) in its simple form: all packets are lost in the bad state and
//! none in the good one, so the mean burst is `1 / P(loss -> arrival)`.

use anabranch_units::{Duration, Instant};

/// Time constant of the ratio.
const RATIO_MEMORY: Duration = Duration::from_secs(1);
/// Time constant of the burst length: losses are few. It is ten times the other.
const BURST_MEMORY: Duration = Duration::from_secs(10);
/// Number of seconds for which the highest ratio is remembered.
const PEAK_SECONDS: usize = 10;
/// Number of packets within the ratio's memory (200 kbit/s) below which the ratio is unreliable:
/// the missing ones count as arrived.
const MIN_PACKETS: f64 = 20.0;

/// Follows the outcomes of a path's packets, each acknowledged or lost, in order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct LossProcess {
    at: Instant,
    /// In which second that is.
    second: u64,
    /// Packets and losses, fading over [`RATIO_MEMORY`].
    packet_count: f64,
    lost_count: f64,
    /// Losses and bursts, fading over [`BURST_MEMORY`].
    burst_lost_count: f64,
    burst_count: f64,
    is_last_lost: bool,
    /// Time between the last two outcomes, and the remaining shares after it.
    step: Duration,
    fading: Fading,
    /// The highest of `peaks`: asked for far more often than it changes.
    recent_max: f64,
    /// The highest ratio of each of the last seconds, by the second modulo the length. It is
    /// entered at losses alone: in between, the ratio falls.
    peaks: [f64; PEAK_SECONDS],
}

/// Shares of the counts that remain after some time, 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
struct Fading {
    of_bursts: f64,
    of_ratio: f64,
}

impl Fading {
    fn over(elapsed: Duration) -> Self {
        let after = |memory: Duration| libm::exp(-elapsed.as_secs_f64() / memory.as_secs_f64());
        Fading {
            of_bursts: after(BURST_MEMORY),
            of_ratio: after(RATIO_MEMORY),
        }
    }
}

impl LossProcess {
    /// Creates the process of an unknown path: it loses nothing.
    pub fn new() -> Self {
        LossProcess::default()
    }

    /// Adds the outcome of the next packet. Constant work; `now` must not go backwards.
    pub fn on_outcome(&mut self, now: Instant, is_lost: bool) {
        self.forget_until(now);
        self.packet_count += 1.0;
        if is_lost {
            self.lost_count += 1.0;
            self.burst_lost_count += 1.0;
            if !self.is_last_lost {
                self.burst_count += 1.0;
            }
            let peak = &mut self.peaks[self.second as usize % PEAK_SECONDS];
            *peak = peak.max(self.lost_count / self.packet_count.max(MIN_PACKETS));
            self.recent_max = self.recent_max.max(*peak);
        }
        self.is_last_lost = is_lost;
    }

    /// Corrects the counts for a packet that counted as lost, at most about a second ago, and has
    /// arrived.
    pub fn on_spurious_loss(&mut self, now: Instant) {
        self.forget_until(now);
        let share = 1.0 / self.packet_count.max(MIN_PACKETS);
        self.lost_count = (self.lost_count - 1.0).max(0.0);
        let burst_packets = self.burst_packets();
        self.burst_lost_count = (self.burst_lost_count - 1.0).max(0.0);
        self.burst_count = self.burst_lost_count / burst_packets;
        let peak = &mut self.peaks[self.second as usize % PEAK_SECONDS];
        *peak = (*peak - share).max(0.0);
        self.recent_max = self.peaks.iter().copied().fold(0.0, f64::max);
    }

    /// Returns the share of packets lost, over about a second.
    pub fn ratio(&self) -> f64 {
        self.lost_count / self.packet_count.max(MIN_PACKETS)
    }

    /// Returns the highest ratio of the last ten seconds; zero if nothing was lost in them, or
    /// nothing sent.
    pub fn recent_max(&self, now: Instant) -> f64 {
        let last = self.second;
        debug_assert_eq!(last, second(self.at));
        match second(now).saturating_sub(last) as usize {
            0 => self.recent_max,
            begun if begun >= PEAK_SECONDS => 0.0,
            begun => {
                let kept = (begun + 1..=PEAK_SECONDS).map(|index| last as usize + index);
                let peaks = kept.map(|index| self.peaks[index % PEAK_SECONDS]);
                peaks.fold(0.0, f64::max)
            }
        }
    }

    /// Returns the mean number of packets lost in a row, at least 1, over about ten seconds.
    pub fn burst_packets(&self) -> f64 {
        if self.burst_count > 0.0 {
            (self.burst_lost_count / self.burst_count).max(1.0)
        } else {
            1.0
        }
    }

    fn forget_until(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.at);
        if elapsed.is_zero() {
            return;
        }
        // Behind a bottleneck packets are equally far apart.
        if elapsed != self.step {
            self.step = elapsed;
            self.fading = Fading::over(elapsed);
        }
        self.burst_lost_count *= self.fading.of_bursts;
        self.burst_count *= self.fading.of_bursts;
        self.packet_count *= self.fading.of_ratio;
        self.lost_count *= self.fading.of_ratio;
        self.at = now;
        let second = second(now);
        let begun = second - core::mem::replace(&mut self.second, second);
        if begun > 0 {
            self.begin_seconds(begun);
        }
    }

    /// Begins `begun` seconds, the present one the last of them.
    #[cold]
    fn begin_seconds(&mut self, begun: u64) {
        for earlier in (0..begun).take(PEAK_SECONDS) {
            self.peaks[(self.second - earlier) as usize % PEAK_SECONDS] = 0.0;
        }
        self.recent_max = self.peaks.iter().copied().fold(0.0, f64::max);
    }
}

fn second(at: Instant) -> u64 {
    at.as_micros() / 1_000_000
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Rng, Seed};

    use super::*;

    fn at(packet: u64, gap: Duration) -> Instant {
        Instant::from_nanos(packet * gap.as_nanos())
    }

    #[test]
    fn losses_that_were_none_leave_no_trace_and_real_ones_stay() {
        let mut process = LossProcess::new();
        let mut now = Instant::ZERO;
        for packet in 0..400 {
            now = at(packet, Duration::from_millis(2));
            process.on_outcome(now, packet % 4 == 0);
            if packet % 4 == 3 && packet % 40 != 3 {
                process.on_spurious_loss(now);
            }
        }
        // Ten of a hundred holes were losses.
        let ratio = process.ratio();
        assert!((0.02..0.03).contains(&ratio), "{ratio}");
        assert!(
            process.recent_max(now) < 0.08,
            "{}",
            process.recent_max(now)
        );
        assert!(process.burst_packets() < 1.1, "{}", process.burst_packets());
    }

    /// Gilbert's losses with mean burst `b` and ratio `p`.
    struct Channel {
        rng: Rng,
        is_bad: bool,
        p: f64,
        b: f64,
    }

    impl Channel {
        fn new(p: f64, b: f64) -> Self {
            Channel {
                rng: Seed(11).rng(),
                is_bad: false,
                p,
                b,
            }
        }

        fn is_next_lost(&mut self) -> bool {
            let end = 1.0 / self.b;
            let begin = self.p * end / (1.0 - self.p);
            self.is_bad = self.rng.chance(if self.is_bad { 1.0 - end } else { begin });
            self.is_bad
        }
    }

    const GAP: Duration = Duration::from_millis(2);

    #[test]
    fn ratio_and_bursts_are_those_of_the_channel() {
        for (p, b) in [(0.05, 1.0 / 0.95), (0.1, 3.0), (0.02, 8.0)] {
            let (mut channel, mut process) = (Channel::new(p, b), LossProcess::new());
            let (mut ratios, mut bursts, mut samples) = (0.0, 0.0, 0.0);
            for packet in 0..400_000 {
                process.on_outcome(at(packet, GAP), channel.is_next_lost());
                if packet % 500 == 0 && packet > 10_000 {
                    ratios += process.ratio();
                    bursts += process.burst_packets();
                    samples += 1.0;
                }
            }
            let (ratio, burst) = (ratios / samples, bursts / samples);
            assert!((ratio / p - 1.0).abs() < 0.06, "{ratio} for {p}");
            assert!((burst / b - 1.0).abs() < 0.06, "{burst} for {b}");
        }
    }

    #[test]
    fn a_step_of_loss_is_seen_within_a_second_and_a_half() {
        let mut process = LossProcess::new();
        for packet in 0..5_000 {
            process.on_outcome(at(packet, GAP), false);
        }
        assert_eq!(process.recent_max(at(5_000, GAP)), 0.0);
        assert_eq!(process.ratio(), 0.0);
        for packet in 5_000..5_750 {
            process.on_outcome(at(packet, GAP), packet % 20 == 0);
        }
        // 1 - exp(-1.5) = 78 % of the step.
        assert!(
            (0.036..0.042).contains(&process.ratio()),
            "{}",
            process.ratio()
        );
        assert!(process.recent_max(at(5_750, GAP)) >= process.ratio());
    }

    #[test]
    fn the_peak_is_kept_for_nine_seconds_and_gone_after_ten() {
        let mut process = LossProcess::new();
        for packet in 0..1_000 {
            process.on_outcome(at(packet, GAP), packet > 100 && packet % 10 == 0);
        }
        let peak = process.recent_max(at(999, GAP));
        assert!((0.08..0.12).contains(&peak), "{peak}");
        let last_loss = 990;
        for packet in 1_000..=last_loss + 5_000 {
            process.on_outcome(at(packet, GAP), false);
            if packet < last_loss + 4_500 {
                assert_eq!(process.recent_max(at(packet, GAP)), peak);
            }
        }
        assert_eq!(process.recent_max(at(last_loss + 5_000, GAP)), 0.0);
        assert!(process.ratio() < 1e-5);
    }

    #[test]
    fn the_peak_ages_by_time_where_nothing_is_sent() {
        let mut process = LossProcess::new();
        let mut sent = LossProcess::new();
        for packet in 0..1_500 {
            let is_lost = packet % if packet < 1_000 { 10 } else { 20 } == 0;
            process.on_outcome(at(packet, GAP), is_lost);
            sent.on_outcome(at(packet, GAP), is_lost);
        }
        // As if packets had arrived all the while.
        let mut seen = Vec::new();
        for packet in 1_500..7_500 {
            sent.on_outcome(at(packet, GAP), false);
            let peak = process.recent_max(at(packet, GAP));
            assert_eq!(peak, sent.recent_max(at(packet, GAP)), "{packet}");
            seen.push(peak);
        }
        seen.dedup();
        // The seconds of 10 % are forgotten one by one, then those of 5 %.
        assert!(
            seen.len() >= 3 && seen.is_sorted_by(|a, b| a > b),
            "{seen:?}"
        );
        assert_eq!(seen.last(), Some(&0.0));
    }

    #[test]
    fn one_loss_among_the_first_packets_is_not_all_packets() {
        let mut process = LossProcess::new();
        process.on_outcome(at(0, GAP), true);
        assert_eq!(process.ratio(), 0.05);
        assert_eq!(process.burst_packets(), 1.0);
    }

    #[test]
    fn an_hour_of_silence_forgets_all_but_the_last_fate() {
        let mut process = LossProcess::new();
        for packet in 0..100 {
            process.on_outcome(at(packet, GAP), true);
        }
        assert!((100.0..101.5).contains(&process.burst_packets()));
        let later = Instant::from_nanos(3_600_000_000_000);
        process.on_outcome(later, false);
        assert_eq!(process.recent_max(later), 0.0);
        assert!(process.ratio() < 1e-12 && process.burst_packets() >= 1.0);
    }
}
