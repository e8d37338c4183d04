//! Applications: the sources of flows.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_core::{Config, PathCounters};
use anabranch_units::{Duration, Instant, Rng};
use anabranch_video::adaptive_player::{
    AdaptiveCounts, AdaptivePlayer, SegmentBuffer, SegmentedVideo,
};
use anabranch_video::source::FrameSource;
use anabranch_video::stored_player::{Buffering, StoredPlayer, StoredPlayerCounts, StoredVideo};

/// The source of a flow's data.
#[derive(Debug)]
pub enum Application {
    /// Frames of video. The first is due at the flow's start or later.
    Media(Box<dyn FrameSource>),
    /// An endless stream that uses all available capacity.
    Greedy,
    /// A stream of the given number of bytes.
    Bytes(u64),
    /// One stream after the other, with pauses.
    Short(ShortObjects),
    /// A film that is played while it is downloaded.
    Download(StoredVideo, Buffering),
    /// Segments of video, which their viewer requests one after the other, at bitrates of its
    /// choice.
    Adaptive(SegmentedVideo, SegmentBuffer),
}

/// Objects fetched one after the other, as browsers do. RFC 8868 §6.5: 30 to 50 kB, equally likely,
/// then idle for an exponentially distributed time of 10 s on average.
///
/// Short objects. Each has a session of its own and so starts slowly: short flows stand for new
/// connections, which have not learnt the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortObjects {
    /// Minimum size of an object in bytes.
    pub min_bytes: u64,
    /// Maximum size of an object in bytes.
    pub max_bytes: u64,
    /// Average time from an object's end to the next one's beginning.
    pub mean_idle: Duration,
    /// Whether the flow begins with a pause.
    pub starts_idle: bool,
}

impl Default for ShortObjects {
    fn default() -> Self {
        ShortObjects {
            min_bytes: 30_000,
            max_bytes: 50_000,
            mean_idle: Duration::from_secs(10),
            starts_idle: false,
        }
    }
}

/// Short objects being sent.
#[derive(Debug)]
pub(crate) struct Objects {
    plan: ShortObjects,
    rng: Rng,
    /// Bytes of the present object that are still to be written.
    pub(crate) unwritten_bytes: u64,
    /// Whether an object is in flight.
    pub(crate) is_active: bool,
    /// Set-up of the sender and of the receiver, from which new sessions are made.
    pub(crate) configs: [Arc<Config>; 2],
    /// Counters of the senders of earlier sessions, by path.
    pub(crate) counted: Vec<PathCounters>,
}

impl Objects {
    pub(crate) fn new(
        plan: ShortObjects,
        rng: Rng,
        configs: [Arc<Config>; 2],
        path_count: usize,
    ) -> Self {
        Objects {
            plan,
            rng,
            unwritten_bytes: 0,
            is_active: false,
            configs,
            counted: vec![PathCounters::default(); path_count],
        }
    }

    /// Returns the start of the first object, if the flow starts at `start`.
    pub(crate) fn first_at(&mut self, start: Instant) -> Instant {
        if self.plan.starts_idle {
            start + self.idle_time()
        } else {
            start
        }
    }

    /// Begins the next object.
    pub(crate) fn begin(&mut self) {
        let ShortObjects {
            min_bytes,
            max_bytes,
            ..
        } = self.plan;
        let span = max_bytes.saturating_sub(min_bytes) + 1;
        self.unwritten_bytes = min_bytes + self.rng.below(span);
        self.is_active = true;
    }

    /// Draws the time from the present object's end to the next one's beginning.
    pub(crate) fn idle_time(&mut self) -> Duration {
        // The number is in [0, 1), and its complement above zero.
        let mean = self.plan.mean_idle;
        mean.mul_f64(-libm::log(1.0 - self.rng.next_f64()))
    }
}

/// A film that is downloaded by its viewer.
#[derive(Debug)]
pub(crate) struct Download {
    /// Bytes that are still to be written.
    pub(crate) unwritten_bytes: u64,
    /// Whether it is known that all has arrived.
    pub(crate) is_over: bool,
    /// The film, until its flow begins.
    film: Option<StoredVideo>,
    buffering: Buffering,
    player: Option<StoredPlayer>,
}

impl Download {
    pub(crate) fn new(film: StoredVideo, buffering: Buffering) -> Self {
        Download {
            unwritten_bytes: film.byte_count(),
            is_over: false,
            film: Some(film),
            buffering,
            player: None,
        }
    }

    /// Returns the viewer; opens the film now if it has not been opened yet.
    pub(crate) fn player(&mut self, now: Instant) -> Option<&mut StoredPlayer> {
        if let Some(film) = self.film.take() {
            self.player = Some(StoredPlayer::new(film, self.buffering, now));
        }
        self.player.as_mut()
    }

    pub(crate) fn counts(&self, now: Instant) -> StoredPlayerCounts {
        let counts = self.player.as_ref().map(|player| player.counts(now));
        counts.unwrap_or_default()
    }
}

/// Segments of video that are requested by their viewer.
#[derive(Debug)]
pub(crate) struct Adaptive {
    /// Requested bytes that are still to be written.
    pub(crate) unwritten_bytes: u64,
    /// Whether it is known that all has arrived.
    pub(crate) is_over: bool,
    video: SegmentedVideo,
    buffer: SegmentBuffer,
    player: Option<AdaptivePlayer>,
    /// Bytes of segments whose requests are in flight.
    requests: VecDeque<u64>,
    /// Bytes of an incomplete request at the server.
    heard_bytes: u64,
    /// Number of segments that have not been requested.
    left: u64,
}

impl Adaptive {
    /// Size of a request with its headers; chosen.
    pub(crate) const REQUEST_BYTES: u64 = 300;

    pub(crate) fn new(video: SegmentedVideo, buffer: SegmentBuffer) -> Self {
        Adaptive {
            unwritten_bytes: 0,
            is_over: false,
            left: video.segment_count(),
            video,
            buffer,
            player: None,
            requests: VecDeque::new(),
            heard_bytes: 0,
        }
    }

    /// Hands bytes to the viewer; starts playback if it has not started. Returns whether a
    /// request leaves, and the time of the viewer's next action.
    pub(crate) fn watch(&mut self, now: Instant, bytes: u64) -> (bool, Option<Instant>) {
        let player = self
            .player
            .get_or_insert_with(|| AdaptivePlayer::new(self.video.clone(), self.buffer, now));
        player.on_bytes(now, bytes);
        let request = player.next_request(now);
        self.requests.extend(request);
        (request.is_some(), player.next_at())
    }

    /// Returns the play time that is buffered; `None` before playback has begun.
    pub(crate) fn play_time_left(&self, now: Instant) -> Option<Duration> {
        self.player
            .as_ref()
            .map(|player| player.play_time_left(now))
    }

    /// Reads `bytes` of requests at the server, which then writes the requested data.
    pub(crate) fn hear(&mut self, bytes: u64) {
        self.heard_bytes += bytes;
        while self.heard_bytes >= Self::REQUEST_BYTES
            && let Some(request) = self.requests.pop_front()
        {
            self.heard_bytes -= Self::REQUEST_BYTES;
            self.unwritten_bytes += request;
            self.left -= 1;
        }
    }

    /// Returns whether there are more requests to come.
    pub(crate) fn has_more(&self) -> bool {
        self.left > 0
    }

    pub(crate) fn counts(&self, now: Instant) -> AdaptiveCounts {
        let counts = self.player.as_ref().map(|player| player.counts(now));
        counts.unwrap_or_default()
    }
}
