//! Another machine's clock, of which only differences are known.

use anabranch_units::{Duration, Instant};

/// For how long the least offset holds at least: congestion is over by then, and two clocks that
/// differ by 100 ppm have moved by 3 ms.
const PERIOD: Duration = Duration::from_secs(30);
/// Offsets that differ by less are approached so slowly that no decoder's clock notices: by this
/// part of the time that passes, 500 ppm, which is five times as fast as bad clocks drift apart, …
const FINE: i64 = 2_000;
/// … and others by this part: the picture runs 5 % faster or slower, which nobody sees.
const COARSE: i64 = 20;
/// What is a small difference, in nanoseconds.
const SMALL_NANOS: i64 = 10_000_000;
/// So long after the first frame the offset follows at once: the first frames tell little.
const SETTLING: Duration = Duration::from_secs(2);

/// Reads the sender's clock as the viewer's, as if the fastest first packet of a frame in the last
/// 30 to 60 s had taken no time: what all packets take alike nobody can tell, and no jitter buffer
/// needs to know. How long frames take to leave the sender does not count: it is part of what the
/// latency is for. What the offset changes by, as clocks drift apart or paths become longer, is
/// followed smoothly.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerClock {
    period_from: Instant,
    /// The least difference of the clocks, in nanoseconds, in this period and in the last.
    least: Option<i64>,
    last_least: Option<i64>,
    /// The difference that is used, since when, and when the first frame came.
    used: Option<(i64, Instant)>,
    first_at: Option<Instant>,
}

impl PeerClock {
    /// A frame captured at an instant of the sender's clock, whose first packet came at
    /// `first_at`, is there at `now`: when it was captured by the viewer's clock, no later than
    /// `now`.
    pub fn captured_at(
        &mut self,
        captured_at: Instant,
        first_at: Instant,
        now: Instant,
    ) -> Instant {
        if now.saturating_since(self.period_from) >= PERIOD {
            self.period_from = now;
            self.last_least = self.least.take();
        }
        let since = |at: Instant| at.as_nanos().wrapping_sub(captured_at.as_nanos()) as i64;
        let of_first = since(first_at);
        let least = self.least.map_or(of_first, |least| least.min(of_first));
        self.least = Some(least);
        let least = self.last_least.map_or(least, |last| last.min(least));
        let used = self.approach(least, now);
        let took = since(now).saturating_sub(used).max(0);
        now.saturating_sub(Duration::from_nanos(took as u64))
    }

    /// The difference that is used from `now` on, on its way to `least`.
    fn approach(&mut self, least: i64, now: Instant) -> i64 {
        let first_at = *self.first_at.get_or_insert(now);
        let used = match self.used {
            Some((used, at)) if now.saturating_since(first_at) > SETTLING => {
                let passed = now.saturating_since(at).as_nanos() as i64;
                let part = match (least - used).abs() < SMALL_NANOS {
                    true => FINE,
                    false => COARSE,
                };
                used + (least - used).clamp(-passed / part, passed / part)
            }
            _ => least,
        };
        self.used = Some((used, now));
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a frame seems to have taken, in ms: captured at a time of a clock that is `ahead`
    /// by so many ms, its first packet on its way for `first`, its last for `last`.
    fn seems(clock: &mut PeerClock, ahead: i64, captured: u64, first: u64, last: u64) -> u64 {
        let by_sender = Instant::from_millis((captured as i64 + ahead) as u64);
        let first_at = Instant::from_millis(captured + first);
        let now = Instant::from_millis(captured + last);
        let captured_at = clock.captured_at(by_sender, first_at, now);
        (now - captured_at).as_millis()
    }

    #[test]
    fn delays_count_from_that_of_the_fastest_first_packet() {
        for ahead in [-40_000, 0, 90_000_000] {
            let mut clock = PeerClock::default();
            let mut seems = |captured, first, last| seems(&mut clock, ahead, captured, first, last);
            assert_eq!(seems(50_000, 70, 70), 0);
            assert_eq!(seems(50_040, 100, 120), 50);
            assert_eq!(seems(50_080, 60, 90), 30);
            assert_eq!(seems(50_120, 60, 120), 60);
        }
    }

    #[test]
    fn a_fast_packet_is_forgotten_after_two_periods() {
        let mut clock = PeerClock::default();
        assert_eq!(seems(&mut clock, 0, 30_000, 20, 20), 0);
        for captured in (30_040..85_000).step_by(40) {
            assert_eq!(seems(&mut clock, 0, captured, 90, 90), 70, "{captured}");
        }
        for captured in (90_040..120_000).step_by(40) {
            seems(&mut clock, 0, captured, 90, 90);
        }
        assert_eq!(seems(&mut clock, 0, 120_040, 90, 90), 0);
    }

    /// Clocks that drift apart by 100 ppm: the time between frames stays what it was at the
    /// camera, to a part of a millisecond, and so does the delay.
    #[test]
    fn drifting_clocks_are_followed_without_a_step() {
        for drift_ppm in [-100_i64, 100] {
            let mut clock = PeerClock::default();
            let mut last: Option<Instant> = None;
            for number in 0..10_000_u64 {
                let true_nanos = 1_000_000_000_000 + number * 40_000_000;
                let drift = true_nanos as i64 * drift_ppm / 1_000_000;
                let captured = Instant::from_nanos((true_nanos as i64 + drift) as u64);
                let now = Instant::from_nanos(true_nanos + 30_000_000);
                let read = clock.captured_at(captured, now, now);
                if let Some(last) = last.replace(read) {
                    let step = (read - last).abs_diff(Duration::from_millis(40));
                    assert!(step < Duration::from_micros(60), "{number}: {step}");
                }
                let took = now - read;
                assert!(took < Duration::from_millis(7), "{number}: {took}");
            }
        }
    }
}
