//! The experience of a viewer of stored video that is downloaded while it plays (progressive HTTP),
//! in VLC's counts: pictures discarded, buffer underflows, and freezes.
//!
//! Kondo et al. and Matsufuji et al. judge transports by these counts, but do not describe VLC's
//! rules. The rules here are our reading (`docs/algorithms.md`): playback begins with `caching` of
//! video in the buffer. A frame that is missing at its time is an underflow, and the picture stands
//! still. Frames that arrive more than 20 ms late are discarded, except for frames that do not need
//! others, so that the player catches up. If frames arrive late for `caching`, the player gives up
//! its clock and waits until it has `caching` of video again.

use anabranch_units::{DataRate, Duration, Instant};

use crate::source::FrameSource;

/// Lateness above which a frame is discarded. Our reading of VLC.
const LATE: Duration = Duration::from_millis(20);

/// Amounts of a film that a player keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Play time that must be buffered before playback.
    pub caching: Duration,
    /// Play time in the buffer from which on it accepts no more bytes; at least `caching`.
    pub read_ahead: Duration,
}

impl Default for Buffering {
    /// Returns VLC's wait for 1 s of video from the network. The limit of 10 s is our choice.
    fn default() -> Self {
        Buffering {
            caching: Duration::from_secs(1),
            read_ahead: Duration::from_secs(10),
        }
    }
}

/// The frames of a film, in coding order and evenly spaced.
#[derive(Clone, Debug)]
pub struct StoredVideo {
    /// For each frame, the number of bytes up to its end, and whether it is independent of others.
    frames: Vec<(u64, bool)>,
    /// Time between frames.
    interval: Duration,
}

impl StoredVideo {
    /// Records `length` of a source at its highest bitrate.
    pub fn record(source: &mut dyn FrameSource, length: Duration) -> Self {
        let rate = source.max_rate().unwrap_or(DataRate::MAX);
        let mut frames = Vec::new();
        let (mut bytes, mut first_at, mut last_at) = (0, None, Instant::ZERO);
        while let Some(at) = source.next_at() {
            let first_at = *first_at.get_or_insert(at);
            if at.saturating_since(first_at) >= length {
                break;
            }
            let shape = source.produce(at, rate);
            bytes += u64::from(shape.bytes);
            frames.push((bytes, shape.importance.is_key()));
            last_at = at;
        }
        let span = last_at.saturating_since(first_at.unwrap_or(last_at));
        let gaps = frames.len().saturating_sub(1).max(1);
        StoredVideo {
            frames,
            interval: (span / gaps as u64).max(Duration::from_millis(1)),
        }
    }

    /// Returns the total number of bytes.
    pub fn byte_count(&self) -> u64 {
        self.frames.last().map_or(0, |(end, _)| *end)
    }

    fn time_of(&self, frame: usize) -> Duration {
        self.interval * frame as u64
    }

    /// Returns the number of frames within the first `bytes` bytes.
    fn frames_in(&self, bytes: u64) -> usize {
        self.frames.partition_point(|(end, _)| *end <= bytes)
    }
}

/// Counters of frames and of the viewer's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredPlayerCounts {
    /// Frames displayed.
    pub displayed: u64,
    /// Frames that arrived too late and were not displayed.
    pub discarded: u64,
    /// Number of times that the next frame was missing at its time; the wait at the start is
    /// included, as by Kondo et al.
    pub underflows: u64,
    /// Time for which the picture stood still after playback first began.
    pub stalled: Duration,
    /// Time from the beginning until the first frame was displayed; `None` if none was.
    pub start_up: Option<Duration>,
}

impl StoredPlayerCounts {
    /// Returns the difference to the `earlier` counts.
    #[must_use]
    pub fn since(&self, earlier: &StoredPlayerCounts) -> StoredPlayerCounts {
        StoredPlayerCounts {
            displayed: self.displayed - earlier.displayed,
            discarded: self.discarded - earlier.discarded,
            underflows: self.underflows - earlier.underflows,
            stalled: self.stalled - earlier.stalled,
            start_up: self.start_up,
        }
    }
}

/// Whether the picture moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for enough play time in the buffer; the picture has stood still since then.
    Buffering { since: Instant },
    /// Each frame is displayed at its time.
    Playing,
    /// Frames are missing or late, and the picture has stood still since `since`; late ones have
    /// arrived since `late_since`.
    Stalled {
        since: Instant,
        late_since: Option<Instant>,
    },
    /// All frames have been handled.
    Ended,
}

/// A player of a film that arrives over time. Its driver calls [`StoredPlayer::on_bytes`] as bytes
/// arrive and at [`StoredPlayer::next_at`].
#[derive(Clone, Debug)]
pub struct StoredPlayer {
    film: StoredVideo,
    buffering: Buffering,
    state: State,
    began_at: Instant,
    /// Time of the first frame's display, by the player's present clock.
    origin: Instant,
    /// The frame to be displayed next.
    next: usize,
    /// Number of frames that have arrived.
    there: usize,
    bytes: u64,
    counts: StoredPlayerCounts,
}

impl StoredPlayer {
    /// Creates a player that is opened at `now`.
    pub fn new(film: StoredVideo, buffering: Buffering, now: Instant) -> Self {
        StoredPlayer {
            film,
            buffering,
            state: State::Buffering { since: now },
            began_at: now,
            origin: now,
            next: 0,
            there: 0,
            bytes: 0,
            counts: StoredPlayerCounts::default(),
        }
    }

    /// Returns the counts up to now.
    pub fn counts(&self, now: Instant) -> StoredPlayerCounts {
        let standing = match self.state {
            State::Stalled { since, .. } | State::Buffering { since }
                if self.counts.start_up.is_some() =>
            {
                now.saturating_since(since)
            }
            _ => Duration::ZERO,
        };
        StoredPlayerCounts {
            stalled: self.counts.stalled + standing,
            ..self.counts
        }
    }

    /// Returns whether the film is over.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the number of bytes that it accepts now.
    pub fn wanted_bytes(&self) -> u64 {
        let Buffering {
            caching,
            read_ahead,
        } = self.buffering;
        // A frame more than playback needs, as the number of arrived frames is rounded down.
        let ahead = read_ahead.max(caching + self.film.interval);
        let ahead = (ahead.as_nanos() / self.film.interval.as_nanos()) as usize;
        let last = (self.next + ahead).min(self.film.frames.len());
        let end = last
            .checked_sub(1)
            .map_or(0, |last| self.film.frames[last].0);
        end.saturating_sub(self.bytes)
    }

    /// Takes `bytes` more bytes, the next in order, and performs all due steps.
    pub fn on_bytes(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        self.bytes += bytes;
        self.there = self.film.frames_in(self.bytes);
        self.advance(now);
    }

    /// Returns the next action without arriving bytes.
    pub fn next_at(&self) -> Option<Instant> {
        match self.state {
            State::Playing => Some(self.due_at(self.next)),
            State::Stalled { late_since, .. } => Some(late_since? + self.buffering.caching),
            State::Buffering { .. } | State::Ended => None,
        }
    }

    /// Returns the time for which playback could continue without more bytes, as players of XLINK
    /// report it (Zheng et al., SIGCOMM 2021): min(cached frames / frame rate, cached bytes /
    /// bitrate).
    pub fn play_time_left(&self) -> Duration {
        let frames = &self.film.frames;
        let cached_frames = self.there.saturating_sub(self.next);
        let played = self.next.checked_sub(1).map_or(0, |last| frames[last].0);
        let share = self.bytes.saturating_sub(played) as f64 / self.film.byte_count().max(1) as f64;
        let by_bytes = self.film.time_of(frames.len()).mul_f64(share);
        self.film.time_of(cached_frames).min(by_bytes)
    }

    fn due_at(&self, frame: usize) -> Instant {
        self.origin + self.film.time_of(frame)
    }

    fn advance(&mut self, now: Instant) {
        loop {
            let before = (self.state, self.next);
            if self.next == self.film.frames.len() {
                self.state = State::Ended;
            }
            match self.state {
                State::Buffering { since } => self.begin(now, since),
                State::Playing => self.play(now),
                State::Stalled { since, late_since } => self.catch_up(now, since, late_since),
                State::Ended => {}
            }
            if before == (self.state, self.next) {
                return;
            }
        }
    }

    /// Plays from the next frame on, if enough play time is buffered.
    fn begin(&mut self, now: Instant, since: Instant) {
        let buffered = self.film.time_of(self.there - self.next);
        if buffered < self.buffering.caching && self.there < self.film.frames.len() {
            return;
        }
        if self.counts.start_up.is_none() {
            self.counts.start_up = Some(now - self.began_at);
            self.counts.underflows += 1;
        } else {
            self.counts.stalled += now - since;
        }
        // The next frame is displayed now.
        self.origin = now;
        self.origin = self.origin.saturating_sub(self.film.time_of(self.next));
        self.state = State::Playing;
    }

    fn play(&mut self, now: Instant) {
        let due_at = self.due_at(self.next);
        if due_at > now {
            return;
        }
        if self.next < self.there {
            self.next += 1;
            self.counts.displayed += 1;
        } else {
            self.counts.underflows += 1;
            self.state = State::Stalled {
                since: due_at,
                late_since: None,
            };
        }
    }

    /// Continues after frames have arrived, some of them late.
    fn catch_up(&mut self, now: Instant, since: Instant, late_since: Option<Instant>) {
        if late_since.is_some_and(|late_since| late_since + self.buffering.caching <= now) {
            self.state = State::Buffering { since };
        } else if self.next < self.there {
            let due_at = self.due_at(self.next);
            let is_late = now.saturating_since(due_at) > LATE;
            let (_, is_key) = self.film.frames[self.next];
            self.state = if due_at >= now {
                State::Playing
            } else {
                State::Stalled {
                    since,
                    late_since: late_since.or(Some(now)),
                }
            };
            if self.state == State::Playing {
                self.counts.stalled += now.saturating_since(since);
                return;
            }
            self.next += 1;
            if is_late && !is_key {
                self.counts.discarded += 1
            } else {
                self.counts.displayed += 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Ideal;

    const FRAME_BYTES: u64 = 1_000;
    const RATE: DataRate = DataRate::from_megabits_per_second(5);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Returns a film of 25 frames a second, all of 1000 bytes, a key frame each second.
    fn film(seconds: u64) -> StoredVideo {
        StoredVideo {
            frames: (0..seconds * 25)
                .map(|index| ((index + 1) * FRAME_BYTES, index % 25 == 0))
                .collect(),
            interval: Duration::from_millis(40),
        }
    }

    #[test]
    fn the_play_time_left_is_the_less_of_cached_frames_and_cached_bytes() {
        let mut player = StoredPlayer::new(film(10), Buffering::default(), at(0));
        assert_eq!(player.play_time_left(), Duration::ZERO);
        // Two seconds, and most of a frame.
        player.on_bytes(at(0), 50 * FRAME_BYTES + 900);
        // The first is on the screen.
        assert_eq!(player.play_time_left(), Duration::from_millis(49 * 40));
        player.on_bytes(at(1_000), 0);
        assert_eq!(player.play_time_left(), Duration::from_millis(24 * 40));
        player.on_bytes(at(9_000), 0);
        assert_eq!(player.play_time_left(), Duration::ZERO);
        // The second half has three times the bitrate: the cached part of the first half lasts a
        // third longer by its frames than by the average bitrate.
        let frames = (1..=100_u64).map(|index| index + 2 * index.saturating_sub(50));
        let uneven = StoredVideo {
            frames: frames.map(|units| (units * FRAME_BYTES, true)).collect(),
            interval: Duration::from_millis(40),
        };
        let mut player = StoredPlayer::new(uneven, Buffering::default(), at(0));
        player.on_bytes(at(0), 41 * FRAME_BYTES);
        assert_eq!(player.play_time_left(), Duration::from_millis(40 * 20));
    }

    /// Plays a film that arrives at a rate in frames per second, which may change over time.
    /// Returns the counts after some seconds.
    fn play(seconds: u64, until: u64, rate: impl Fn(u64) -> u64) -> StoredPlayerCounts {
        let mut player = StoredPlayer::new(film(seconds), Buffering::default(), at(0));
        let mut credit = 0;
        for millis in 1..=until * 1_000 {
            credit += rate(millis) * FRAME_BYTES;
            let bytes = (credit / 1_000).min(player.wanted_bytes());
            credit -= bytes * 1_000;
            credit = credit.min(FRAME_BYTES * 1_000 * 100);
            player.on_bytes(at(millis), bytes);
        }
        let counts = player.counts(at(until * 1_000));
        assert!(counts.displayed + counts.discarded <= seconds * 25);
        counts
    }

    #[test]
    fn a_network_a_tenth_faster_than_the_film_shows_all_of_it() {
        let counts = play(60, 70, |_| 28);
        assert_eq!((counts.underflows, counts.discarded), (1, 0));
        assert_eq!((counts.displayed, counts.stalled), (1_500, Duration::ZERO));
        assert_eq!(counts.start_up.unwrap().as_millis(), 893);
    }

    #[test]
    fn a_network_a_tenth_slower_stalls_for_a_tenth_of_the_time_again_and_again() {
        let counts = play(200, 200, |_| 22);
        assert!(counts.underflows > 8, "{counts:?}");
        let share = counts.stalled.as_secs_f64() / 200.0;
        assert!((0.05..0.2).contains(&share), "{counts:?}");
    }

    #[test]
    fn an_outage_a_second_longer_than_the_buffer_is_one_underflow_and_a_second_of_discards() {
        // The bytes held by the server during the outage arrive at once.
        let counts = play(40, 40, |millis| match millis {
            10_000..12_000 => 0,
            12_000..12_010 => 10_000,
            // At a rate at which one second is just buffered.
            _ if millis < 1_100 => 25,
            _ => 25,
        });
        assert_eq!(counts.underflows, 2, "{counts:?}");
        assert!((22..=26).contains(&counts.discarded), "{counts:?}");
        let stalled = counts.stalled.as_millis();
        assert!((900..1_100).contains(&stalled), "{counts:?}");
    }

    #[test]
    fn no_more_is_taken_than_ten_seconds_ahead() {
        let mut player = StoredPlayer::new(film(60), Buffering::default(), at(0));
        assert_eq!(player.wanted_bytes(), 250 * FRAME_BYTES);
        player.on_bytes(at(0), 250 * FRAME_BYTES);
        assert_eq!(player.wanted_bytes(), FRAME_BYTES);
        player.on_bytes(at(400), FRAME_BYTES);
        assert_eq!(player.wanted_bytes(), 10 * FRAME_BYTES);
        assert_eq!(player.next_at(), Some(at(440)));
    }

    #[test]
    fn read_ahead_suffices_to_play() {
        fn wanted(caching: u64, read_ahead: u64) -> (u64, bool) {
            let buffering = Buffering {
                caching: Duration::from_millis(caching),
                read_ahead: Duration::from_millis(read_ahead),
            };
            let mut player = StoredPlayer::new(film(60), buffering, at(0));
            let wanted = player.wanted_bytes();
            player.on_bytes(at(0), wanted);
            (
                wanted / FRAME_BYTES,
                player.counts(at(0)).start_up.is_some(),
            )
        }
        assert_eq!(wanted(1_000, 2_000), (50, true));
        assert_eq!(wanted(1_000, 100), (26, true));
        assert_eq!(wanted(4_990, 100), (125, true));
    }

    #[test]
    fn a_film_is_recorded_from_a_source() {
        let ideal = Ideal::new(at(500), 25, RATE, RATE).unwrap();
        let film = StoredVideo::record(&mut { ideal }, Duration::from_secs(10));
        assert_eq!(film.frames.len(), 250);
        assert_eq!(film.interval.as_millis(), 40);
        assert_eq!(film.byte_count(), RATE.bytes_in(Duration::from_secs(10)));
        assert_eq!(film.frames_in(film.byte_count()), film.frames.len());
    }
}
