//! Detects a path that has become longer: draining distinguishes it from a queue.
//!
//! Ours, for `live-bbr`. If the delay does not fall while less is sent than delivered, there is no
//! queue, or others fill it. A source with a rate of its own did not cause it if the sender was
//! application-limited, and its frames would be late while it drains. Senders that can yield
//! continue to drain. Where they accepted the delay as well, several of them took each other's
//! queue for the path, and the delay of RFC 8867's case 5.4 grew from 82 to 128 ms.

use anabranch_units::{Duration, Instant};

use super::DelayBbr;
use super::profile::AppLimitedSamples;

/// Time until a verdict beyond a round trip, as a share of one.
const VERDICT_TIME: f64 = 0.5;
/// Least change of a queue while draining, as a share of the drained bytes. It becomes shorter, or
/// longer if the path carries less than is sent even now. A change below the jitter is no evidence.
const SHARE_DRAINED: f64 = 0.5;

/// Draining of sent or suspected excess since a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draining {
    began_at: Instant,
    first_packet: u64,
    /// Round-trip time at its beginning, without jitter.
    level: Duration,
    /// Send rate meanwhile, as a share of the estimate.
    gain: f64,
}

impl Draining {
    /// Whether the delay has stayed though a queue would have become shorter or longer.
    fn shows_longer_path(
        &self,
        now: Instant,
        level: Duration,
        jitter: Duration,
        acked_until: u64,
    ) -> bool {
        let lasted = now.saturating_since(self.began_at);
        let verdict_time = self.level.mul_f64(1.0 + VERDICT_TIME);
        if acked_until <= self.first_packet || lasted < verdict_time {
            return false;
        }
        let drained = (lasted - self.level).mul_f64(1.0 - self.gain);
        let expected = drained.mul_f64(SHARE_DRAINED);
        expected > jitter && self.level.max(level) - self.level.min(level) < expected
    }
}

impl DelayBbr {
    /// Begins draining: the send rate falls to this share of the estimate, since the delay has
    /// grown.
    #[cold]
    pub(super) fn begin_draining(&mut self, now: Instant, gain: f64) {
        let is_ours = self.profile.app_limited_samples == AppLimitedSamples::OnlyRaise;
        let cannot_yield = self.opening.is_of_fixed_source() && self.is_app_limited;
        self.draining = (is_ours && cannot_yield).then_some(Draining {
            began_at: now,
            first_packet: self.next_packet_number,
            level: self.floor,
            gain,
        });
    }

    /// Accepts the delay as the path's if draining shows that it is no queue's.
    pub(super) fn maybe_accept_longer_path(&mut self, now: Instant) {
        let (level, jitter, acked_until) = (self.floor, self.noise.jitter, self.acked_until);
        let is_longer = self
            .draining
            .is_some_and(|draining| draining.shows_longer_path(now, level, jitter, acked_until));
        if is_longer {
            self.min_rtt.replace(level, now);
            self.signal.restart(self.next_packet_number);
            self.enter_probe_bw(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_does_not_change_by_half_of_what_drains_is_the_paths() {
        fn shows(millis: u64, level: u64, acked_until: u64, draining: &Draining) -> bool {
            let level = Duration::from_millis(level);
            let now = Instant::from_millis(1_000 + millis);
            draining.shows_longer_path(now, level, Duration::from_millis(20), acked_until)
        }

        let draining = Draining {
            began_at: Instant::from_secs(1),
            first_packet: 100,
            level: Duration::from_millis(140),
            gain: 0.5,
        };
        assert!(!shows(209, 140, 101, &draining), "too early");
        assert!(!shows(240, 140, 100, &draining), "nothing has come back");
        // 100 ms after the first answer a queue is shorter by 50 ms.
        assert!(shows(240, 116, 101, &draining));
        assert!(!shows(240, 114, 101, &draining));
        assert!(!shows(240, 166, 101, &draining));
        // By 210 ms it would be shorter by at least 17.5 ms, which is less than the jitter.
        assert!(!shows(210, 140, 101, &draining));
    }
}
