//! Another machine's clock, of which only differences are known.

use anabranch_units::{Duration, Instant};

/// For how long the least offset holds at least: congestion is over by then, and two clocks that
/// differ by 100 ppm have moved by 3 ms.
const PERIOD: Duration = Duration::from_secs(30);

/// Reads the sender's clock as the viewer's, as if the fastest frame of the last 30 to 60 s had
/// taken no time: what all frames take alike nobody can tell, and no jitter buffer needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerClock {
    period_from: Instant,
    /// The least difference of the clocks, in nanoseconds, in this period and in the last.
    least: Option<i64>,
    last_least: Option<i64>,
}

impl PeerClock {
    /// A frame captured at an instant of the sender's clock came at `now`: when it was captured by
    /// the viewer's clock, no later than `now`.
    pub fn captured_at(&mut self, captured_at: Instant, now: Instant) -> Instant {
        if now.saturating_since(self.period_from) >= PERIOD {
            self.period_from = now;
            self.last_least = self.least.take();
        }
        let difference = now.as_nanos().wrapping_sub(captured_at.as_nanos()) as i64;
        let least = self.least.map_or(difference, |least| least.min(difference));
        self.least = Some(least);
        let least = self.last_least.map_or(least, |last| last.min(least));
        now.saturating_sub(Duration::from_nanos(difference.saturating_sub(least) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a frame seems to have taken, in ms: captured at a time of a clock that is `ahead`
    /// by so many ms, on its way for `took`.
    fn seems(clock: &mut PeerClock, ahead: i64, captured: u64, took: u64) -> u64 {
        let by_sender = (captured as i64 + ahead) as u64;
        let now = Instant::from_millis(captured + took);
        let captured_at = clock.captured_at(Instant::from_millis(by_sender), now);
        (now - captured_at).as_millis()
    }

    #[test]
    fn delays_count_from_that_of_the_fastest_frame() {
        for ahead in [-40_000, 0, 90_000_000] {
            let mut clock = PeerClock::default();
            let mut seems = |captured, took| seems(&mut clock, ahead, captured, took);
            assert_eq!(seems(50_000, 70), 0);
            assert_eq!(seems(50_040, 120), 50);
            assert_eq!(seems(50_080, 60), 0);
            assert_eq!(seems(50_120, 120), 60);
        }
    }

    #[test]
    fn a_fast_frame_is_forgotten_after_two_periods() {
        let mut clock = PeerClock::default();
        assert_eq!(seems(&mut clock, 0, 30_000, 20), 0);
        for captured in (30_040..85_000).step_by(40) {
            assert_eq!(seems(&mut clock, 0, captured, 90), 70, "{captured}");
        }
        for captured in (90_040..120_000).step_by(40) {
            seems(&mut clock, 0, captured, 90);
        }
        assert_eq!(seems(&mut clock, 0, 120_040, 90), 0);
    }
}
