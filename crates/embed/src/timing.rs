//! Times of the application's frames, as times of the sender's clock.

use anabranch_units::{Duration, Instant};

/// A jump of the application's times above which they count as those of another stream.
const JUMP_MICROS: i64 = 10_000_000;

/// Translates times of presentation, in µs of any clock, to capture times.
///
/// The frame that came with the least delay counts as captured when it came. Frames that waited in
/// an encoder are older by their wait.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    /// Least difference so far between the sender's clock and the application's, in µs, and the
    /// application's last time.
    known: Option<(i64, i64)>,
}

impl Timing {
    /// Returns the capture time of a frame that comes now.
    pub(crate) fn captured_at(&mut self, now: Instant, pts_micros: i64) -> Instant {
        let now_micros = (now - Instant::ZERO).as_micros() as i64;
        let difference = now_micros.saturating_sub(pts_micros);
        let known = self.known.filter(|(least, last)| {
            pts_micros.saturating_sub(*last).saturating_abs() <= JUMP_MICROS
                && difference.saturating_sub(*least) <= JUMP_MICROS
        });
        let least = known.map_or(difference, |(least, _)| least.min(difference));
        self.known = Some((least, pts_micros));
        let age = difference.saturating_sub(least);
        now.saturating_sub(Duration::from_micros(age as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_frame_that_waited_is_as_old_as_its_wait() {
        let mut timing = Timing::default();
        let day = 86_400_000_000;
        assert_eq!(timing.captured_at(millis(1_000), day), millis(1_000));
        assert_eq!(
            timing.captured_at(millis(1_090), day + 40_000),
            millis(1_040)
        );
        // It came faster than all before.
        assert_eq!(
            timing.captured_at(millis(1_060), day + 80_000),
            millis(1_060)
        );
        assert_eq!(
            timing.captured_at(millis(1_100), day + 80_000),
            millis(1_060)
        );
    }

    #[test]
    fn times_that_jump_begin_again_and_extremes_are_harmless() {
        let mut timing = Timing::default();
        let now = millis(50_000);
        for pts in [0, 60_000_000, -5, i64::MAX, i64::MIN, i64::MAX, 0] {
            assert_eq!(timing.captured_at(now, pts), now, "{pts}");
        }
    }
}
