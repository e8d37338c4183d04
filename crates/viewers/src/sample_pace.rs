//! Durations of the samples of a film's track.

use anabranch_video::mpeg_ts::TICKS_PER_SECOND;

/// Duration of a sample before which none of its kind came: a picture of 25 a second.
const FIRST_DURATION: u64 = TICKS_PER_SECOND / 25;
/// Longest duration of a sample; a longer pause is a gap.
const LONGEST_DURATION: u64 = TICKS_PER_SECOND;

/// Interval of a track's samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplePace {
    last_at: Option<u64>,
}

impl SamplePace {
    /// Returns the duration of a sample: the time since the one before, as the next one, which ends
    /// it, has not come yet. Both are in ticks of [`TICKS_PER_SECOND`]. Each fragment states its
    /// begin, so that an error does not add up.
    pub fn duration(&mut self, at: u64) -> u64 {
        let before = self.last_at.replace(at);
        let since = before.map_or(FIRST_DURATION, |before| at.saturating_sub(before));
        since.clamp(1, LONGEST_DURATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_the_time_since_the_sample_before_within_bounds() {
        let mut pace = SamplePace::default();
        let mut durations = Vec::new();
        for at in [90_000, 91_800, 91_800, 1_000, 900_000] {
            durations.push(pace.duration(at));
        }
        assert_eq!(durations, [FIRST_DURATION, 1_800, 1, 1, LONGEST_DURATION]);
    }
}
