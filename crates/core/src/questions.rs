//! When a question that nobody answers is asked again.
//!
//! A question has at most 70 bytes on the wire. Its interval grows with the silence, as the
//! intervals of an exponential back-off do: a path is found again within a sixty-fourth of its
//! silence, and no later than [`MAX_INTERVAL`].

use anabranch_units::Duration;

/// Share of the silence after which the next question leaves. Chosen: an outage of up to 6 s is
/// over within [`MIN_INTERVAL`].
const SHARE_OF_SILENCE: u64 = 64;

/// Least time between two questions on a path, however short its round-trip time is.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Longest time between two questions, unless their least interval is longer.
const MAX_INTERVAL: Duration = Duration::from_secs(2);

/// Number of doublings of [`MIN_INTERVAL`] that exceeds [`MAX_INTERVAL`].
const MAX_DOUBLINGS: u32 = 5;

/// Returns the time until the next question on a path that has been silent for `silent_for`, at
/// least `floor`.
pub(crate) fn interval(floor: Duration, silent_for: Duration) -> Duration {
    (silent_for / SHARE_OF_SILENCE).min(MAX_INTERVAL).max(floor)
}

/// Returns the time until the next question after `unanswered_count` that brought no answer: the
/// first leaves at once.
pub(crate) fn doubled_interval(unanswered_count: u32) -> Duration {
    match unanswered_count.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => (MIN_INTERVAL * (1 << doublings.min(MAX_DOUBLINGS))).min(MAX_INTERVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_interval_is_the_floor_for_six_seconds_and_then_grows_with_the_silence() {
        fn after(silent_for: Duration) -> Duration {
            interval(MIN_INTERVAL, silent_for)
        }
        assert_eq!(after(Duration::ZERO), ms(100));
        assert_eq!(after(ms(6_400)), ms(100));
        assert_eq!(after(ms(64_000)), ms(1_000));
        assert_eq!(after(ms(3_600_000)), ms(2_000));
        assert_eq!(interval(ms(5_000), ms(3_600_000)), ms(5_000));
    }

    #[test]
    fn ten_minutes_of_silence_takes_fewer_questions_than_a_constant_interval() {
        let (mut silent_for, mut count) = (Duration::ZERO, 0);
        while silent_for < ms(600_000) {
            silent_for += interval(MIN_INTERVAL, silent_for);
            count += 1;
        }
        // 6,000 at a constant interval of 100 ms.
        assert!((400..600).contains(&count), "{count}");
    }

    #[test]
    fn the_first_question_leaves_at_once_and_each_next_one_after_twice_the_time() {
        let intervals: Vec<u64> = (0..8)
            .map(|count| doubled_interval(count).as_micros() / 1_000)
            .collect();
        assert_eq!(intervals, [0, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(doubled_interval(u32::MAX), ms(2_000));
    }
}
