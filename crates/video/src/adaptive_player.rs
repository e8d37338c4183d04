//! The experience of a viewer of segmented video (DASH, HLS). The viewer chooses the bitrate of
//! each segment by the buffer level, and fetches one segment after the other.
//!
//! Source: T.-Y. Huang, R. Johari, N. McKeown, M. Trunnell, M. Watson: "A Buffer-Based Approach to
//! Rate Adaptation: Evidence from a Large Video Streaming Service", SIGCOMM 2014, Algorithm 1
//! (BBA-0). The buffer is mapped to a rate by a line from the lowest, at the end of the
//! *reservoir*, to the highest, after the *cushion*. The bitrate stays until the line has passed
//! the next higher or the next lower one.
//!
//! *Deviations*: reservoir and cushion are the paper's shares of the buffer (90 s and 126 s of 240
//! s). Segments have exactly the bytes of their bitrates. Segments are shown once they are
//! complete, as containers require.

use anabranch_units::{DataRate, Duration, Instant};

/// End of the reservoir, as a share of the buffer. Below it, the lowest bitrate is fetched (90 s of
/// 240 s in the paper).
const RESERVOIR: f64 = 0.375;
/// Buffer level from which on the highest bitrate is fetched (216 s of 240 s).
const CUSHION_END: f64 = 0.9;

/// Video in segments of several bitrates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentedVideo {
    /// The bitrates, ascending; at least one.
    pub ladder: Vec<DataRate>,
    /// Duration of a segment; not zero.
    pub segment: Duration,
    /// Duration of the video, of which only whole segments are shown.
    pub length: Duration,
}

impl SegmentedVideo {
    /// Returns the number of segments that are shown.
    pub fn segment_count(&self) -> u64 {
        self.length.as_nanos() / self.segment.as_nanos()
    }

    /// Returns a rate of the ladder, in bit/s.
    fn rate(&self, place: usize) -> f64 {
        self.ladder[place].bits_per_second() as f64
    }

    /// Returns BBA-0's choice: the index of the next segment's bitrate, given the index of the
    /// `last` one and the filled share of the buffer, 0 to 1.
    fn choose(&self, last: usize, filled: f64) -> usize {
        let highest = self.ladder.len() - 1;
        if filled <= RESERVOIR {
            return 0;
        }
        if filled >= CUSHION_END {
            return highest;
        }
        let share = (filled - RESERVOIR) / (CUSHION_END - RESERVOIR);
        let mapped = self.rate(0) + (self.rate(highest) - self.rate(0)) * share;
        let (higher, lower) = ((last + 1).min(highest), last.saturating_sub(1));
        if mapped >= self.rate(higher) {
            let below = (0..=highest).rev().find(|place| self.rate(*place) < mapped);
            below.unwrap_or(0)
        } else if mapped <= self.rate(lower) {
            let above = (0..=highest).find(|place| self.rate(*place) > mapped);
            above.unwrap_or(highest)
        } else {
            last
        }
    }
}

/// A viewer's buffering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBuffer {
    /// Play time that must be buffered before playback starts, at first and after an underflow.
    pub caching: Duration,
    /// Maximum play time in the buffer: at least a segment more than `caching`.
    pub most: Duration,
}

/// Counters of segments and of the viewer's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptiveCounts {
    /// Segments that have arrived completely.
    pub segments: u64,
    /// The sum of their bitrates, in bit/s.
    pub rate_sum: u64,
    /// Number of segments requested at another bitrate than the one before.
    pub switches: u64,
    /// Number of times that the buffer ran out.
    pub underflows: u64,
    /// Time for which the picture stood still after playback first began.
    pub stalled: Duration,
    /// Time from the beginning until the first picture; `None` if there was none.
    pub start_up: Option<Duration>,
}

impl AdaptiveCounts {
    /// Returns the difference to the `earlier` counts.
    #[must_use]
    pub fn since(&self, earlier: &AdaptiveCounts) -> AdaptiveCounts {
        AdaptiveCounts {
            segments: self.segments - earlier.segments,
            rate_sum: self.rate_sum - earlier.rate_sum,
            switches: self.switches - earlier.switches,
            underflows: self.underflows - earlier.underflows,
            stalled: self.stalled - earlier.stalled,
            start_up: self.start_up,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The picture has stood still since then.
    Buffering { since: Instant },
    /// The picture moves.
    Playing,
    /// The whole video has been shown.
    Ended,
}

/// A requested segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    place: usize,
    missing_bytes: u64,
}

/// A viewer. Its driver calls [`AdaptivePlayer::on_bytes`] as bytes arrive, then
/// [`AdaptivePlayer::next_request`], and both at [`AdaptivePlayer::next_at`].
#[derive(Clone, Debug)]
pub struct AdaptivePlayer {
    video: SegmentedVideo,
    buffer: SegmentBuffer,
    state: State,
    began_at: Instant,
    /// Time up to which it has played; `position` is the position at that time.
    played_at: Instant,
    position: Duration,
    asked: Option<Asked>,
    /// Index of the last requested bitrate; `None` before the first request.
    last: Option<usize>,
    counts: AdaptiveCounts,
}

impl AdaptivePlayer {
    /// Creates a viewer who begins at `now`.
    pub fn new(video: SegmentedVideo, buffer: SegmentBuffer, now: Instant) -> Self {
        AdaptivePlayer {
            video,
            buffer,
            state: State::Buffering { since: now },
            began_at: now,
            played_at: now,
            position: Duration::ZERO,
            asked: None,
            last: None,
            counts: AdaptiveCounts::default(),
        }
    }

    /// Returns the counts up to now.
    pub fn counts(&self, now: Instant) -> AdaptiveCounts {
        let mut later = self.clone();
        later.advance(now);
        let standing = match later.state {
            State::Buffering { since } if later.counts.start_up.is_some() => now - since,
            _ => Duration::ZERO,
        };
        AdaptiveCounts {
            stalled: later.counts.stalled + standing,
            ..later.counts
        }
    }

    /// Returns whether all segments have arrived.
    fn has_all(&self) -> bool {
        self.counts.segments == self.video.segment_count()
    }

    /// Records that `bytes` more bytes of the requested segment have arrived.
    pub fn on_bytes(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        if let Some(asked) = &mut self.asked {
            asked.missing_bytes = asked.missing_bytes.saturating_sub(bytes);
            if asked.missing_bytes == 0 {
                self.counts.segments += 1;
                self.counts.rate_sum += self.video.ladder[asked.place].bits_per_second();
                self.asked = None;
            }
        }
        self.advance(now);
    }

    /// Returns the bytes of the next segment, if it is to be requested now.
    pub fn next_request(&mut self, now: Instant) -> Option<u64> {
        self.advance(now);
        let has_room = self.buffered() + self.video.segment <= self.buffer.most;
        if self.asked.is_some() || self.has_all() || !has_room {
            return None;
        }
        let filled = self.buffered().as_secs_f64() / self.buffer.most.as_secs_f64();
        let place = self.video.choose(self.last.unwrap_or(0), filled);
        self.counts.switches += u64::from(self.last.is_some_and(|last| last != place));
        self.last = Some(place);
        let missing_bytes = self.video.ladder[place].bytes_in(self.video.segment).max(1);
        self.asked = Some(Asked {
            place,
            missing_bytes,
        });
        Some(missing_bytes)
    }

    /// Returns the time for which playback could continue from `now` on without more bytes.
    pub fn play_time_left(&self, now: Instant) -> Duration {
        let played = match self.state {
            State::Playing => now.saturating_since(self.played_at),
            State::Buffering { .. } | State::Ended => Duration::ZERO,
        };
        self.buffered().saturating_sub(played)
    }

    /// Returns the next action without arriving bytes.
    pub fn next_at(&self) -> Option<Instant> {
        if self.state != State::Playing {
            return None;
        }
        let is_idle = self.asked.is_none() && !self.has_all();
        let room = (self.buffered() + self.video.segment).saturating_sub(self.buffer.most);
        let until = if is_idle { room } else { self.buffered() };
        Some(self.played_at + until)
    }

    /// Returns the play time that has arrived and has not been shown.
    fn buffered(&self) -> Duration {
        (self.video.segment * self.counts.segments).saturating_sub(self.position)
    }

    fn advance(&mut self, now: Instant) {
        if self.state == State::Playing {
            let played = now.saturating_since(self.played_at).min(self.buffered());
            let is_dry = played == self.buffered();
            self.position += played;
            self.played_at += played;
            if is_dry && self.has_all() {
                self.state = State::Ended;
            } else if is_dry {
                self.counts.underflows += 1;
                let since = self.played_at;
                self.state = State::Buffering { since };
            }
        }
        if let State::Buffering { since } = self.state
            && self.buffered() > Duration::ZERO
            && (self.buffered() >= self.buffer.caching || self.has_all())
        {
            match self.counts.start_up {
                None => self.counts.start_up = Some(now - self.began_at),
                Some(_) => self.counts.stalled += now - since,
            }
            self.played_at = now;
            self.state = State::Playing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn video(seconds: u64) -> SegmentedVideo {
        SegmentedVideo {
            ladder: vec![1, 2, 5, 8]
                .into_iter()
                .map(DataRate::from_megabits_per_second)
                .collect(),
            segment: Duration::from_secs(2),
            length: Duration::from_secs(seconds),
        }
    }

    const BUFFER: SegmentBuffer = SegmentBuffer {
        caching: Duration::from_secs(2),
        most: Duration::from_secs(40),
    };

    /// Returns the counts after some seconds at a rate in Mbit/s, which may change by the second.
    fn watch(seconds: u64, until: u64, rate: impl Fn(u64) -> u64) -> AdaptiveCounts {
        let at = Instant::from_millis;
        let mut player = AdaptivePlayer::new(video(seconds), BUFFER, at(0));
        let mut missing = player.next_request(at(0)).unwrap();
        for millis in 1..=until * 1_000 {
            let bytes = missing.min(rate(millis / 1_000) * MBIT / 8_000);
            missing -= bytes;
            player.on_bytes(at(millis), bytes);
            missing += player.next_request(at(millis)).unwrap_or(0);
        }
        player.counts(at(until * 1_000))
    }

    /// Checks Algorithm 1, line by line: reservoir 0.375, cushion to 0.9; the line from 1 to 8
    /// Mbit/s.
    #[test]
    fn the_rate_follows_the_buffer_by_the_algorithm() {
        fn at_rate(rate: f64) -> f64 {
            0.375 + (rate - 1.0) / 7.0 * 0.525
        }

        let video = video(60);
        for (last, filled, expected) in [
            (3, 0.375, 0),
            (0, 0.9, 3),
            // Above the next higher: the highest below the line, not the next.
            (0, at_rate(5.5), 2),
            // Between the neighbours it stays, above and below its own rate.
            (2, at_rate(7.9), 2),
            (2, at_rate(2.1), 2),
            // At or below the next lower: the least above the line.
            (2, at_rate(1.9), 1),
            (3, at_rate(1.5), 1),
            (1, at_rate(4.9), 1),
        ] {
            assert_eq!(video.choose(last, filled), expected, "{last}, {filled}");
        }
    }

    #[test]
    fn a_wide_network_ends_at_the_highest_rate_and_never_stalls() {
        let counts = watch(300, 310, |_| 20);
        assert_eq!((counts.segments, counts.underflows), (150, 0));
        assert_eq!(counts.stalled, Duration::ZERO);
        // 2 Mbit at 20 Mbit/s.
        assert_eq!(counts.start_up.unwrap().as_millis(), 100);
        let mean = counts.rate_sum / counts.segments;
        assert!(mean > 6 * MBIT, "{mean}");
        // The buffer fills up at the lowest rate, and then the bitrate rises step by step.
        assert!((1..=5).contains(&counts.switches), "{counts:?}");
    }

    #[test]
    fn a_network_between_two_rates_gives_their_mean_without_a_stall() {
        let counts = watch(600, 620, |_| 3);
        assert_eq!(counts.underflows, 0);
        let mean = counts.rate_sum as f64 / counts.segments as f64;
        assert!((2.2e6..3.1e6).contains(&mean), "{mean}");
    }

    #[test]
    fn an_outage_longer_than_the_buffer_is_one_underflow_and_the_rest_of_it_a_stall() {
        // When the outage begins, the buffer holds at most 40 s, and at least 38 s less the
        // download time of a segment of 16 Mbit, 0.8 s. The first segment after the outage takes
        // the same time.
        let counts = watch(400, 500, |second| match second {
            100..160 => 0,
            _ => 20,
        });
        assert_eq!((counts.segments, counts.underflows), (200, 1));
        let stalled = counts.stalled.as_secs_f64();
        assert!((20.0..23.6).contains(&stalled), "{stalled}");
    }

    #[test]
    fn no_more_is_fetched_than_fits() {
        let counts = watch(400, 60, |_| 1_000);
        // 60 s have been shown or are shown now, and at most 40 s wait.
        assert!((48..=50).contains(&counts.segments), "{counts:?}");
    }
}
