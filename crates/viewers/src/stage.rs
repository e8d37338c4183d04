//! The streams that are shown, and their viewers, without threads and sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use anabranch_units::{Instant, MemoryShare, SharedMemory};

use crate::film::{FilmPieces, Films, MAX_FILMS_OF_STREAM};
use crate::refusal::{Refusal, check_film, check_webrtc};
use crate::samples::{Format, Sampler};
#[cfg(feature = "webrtc")]
use crate::webrtc::{Offer, Peers, ViewerId};

/// Bytes that all streams keep for newcomers (chosen: 40 s of 12 Mbit/s).
const MAX_BACKLOG_BYTES: usize = 64 << 20;
/// Most viewers of films of all streams.
const MAX_FILMS: usize = 32;

/// The sessions' end of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) stream: Arc<str>,
    /// Later sources of a stream have higher numbers.
    pub(crate) number: u64,
    /// Bytes on their way to the viewers' thread.
    pub(crate) waiting: MemoryShare,
}

/// All streams.
pub(crate) struct Stage {
    memory: SharedMemory,
    channels: BTreeMap<Arc<str>, Channel>,
    #[cfg(feature = "webrtc")]
    pub(crate) peers: Peers,
}

/// One stream.
struct Channel {
    source: Weak<Source>,
    source_number: u64,
    sampler: Sampler,
    epoch: u32,
    films: Films,
}

impl Stage {
    /// Creates the stage without streams. Instants count from `origin`.
    pub(crate) fn new(origin: std::time::Instant) -> Self {
        #[cfg(not(feature = "webrtc"))]
        let _ = origin;
        Stage {
            memory: SharedMemory::new(MAX_BACKLOG_BYTES),
            channels: BTreeMap::new(),
            #[cfg(feature = "webrtc")]
            peers: Peers::new(origin),
        }
    }

    /// Takes a picture's transport packets. `has_lost`: packets before them were lost on the way
    /// here.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        source: &Arc<Source>,
        packets: &[u8],
        has_lost: bool,
    ) {
        let memory = &self.memory;
        let channel = self
            .channels
            .entry(Arc::clone(&source.stream))
            .or_insert_with(|| Channel::new(memory.share()));
        if source.number < channel.source_number {
            return;
        }
        let is_new = source.number > channel.source_number;
        if is_new {
            channel.source_number = source.number;
            channel.source = Arc::downgrade(source);
        }
        if is_new || has_lost {
            channel.sampler.skip();
        }
        channel.sampler.push(now, packets);
        while let Some(sample) = channel.sampler.next_sample() {
            if sample.epoch != channel.epoch {
                channel.epoch = sample.epoch;
                channel.films.end();
                #[cfg(feature = "webrtc")]
                self.peers.await_key(&source.stream);
            }
            channel.films.write(&sample);
            #[cfg(feature = "webrtc")]
            self.peers.write(now, &source.stream, &sample);
        }
        #[cfg(feature = "webrtc")]
        if channel.sampler.format().reorders {
            self.peers.end_all_of(&source.stream);
        }
    }

    /// Returns a stream's format, or `None` if there is no such stream.
    pub(crate) fn format(&self, stream: &str) -> Option<&Format> {
        let channel = self.channels.get(stream);
        channel.map(|channel| channel.sampler.format())
    }

    /// Adds a viewer of a film.
    ///
    /// # Errors
    /// The stream has no picture that MP4 viewers can show, or all places are taken.
    pub(crate) fn film(&mut self, stream: &str, wants_sound: bool) -> Result<FilmPieces, Refusal> {
        let counts = self.channels.values_mut();
        let count: usize = counts.map(|channel| channel.films.count()).sum();
        let channel = self.channels.get_mut(stream).ok_or(Refusal::NoStream)?;
        let format = channel.sampler.format();
        check_film(format)?;
        if count >= MAX_FILMS || channel.films.count() >= MAX_FILMS_OF_STREAM {
            return Err(Refusal::TooMany);
        }
        let format = channel.sampler.format();
        channel
            .films
            .add(format, wants_sound)
            .ok_or(Refusal::NotYet)
    }

    /// Takes a viewer's offer. Returns its name and the answer.
    ///
    /// # Errors
    /// The stream has no picture for WebRTC, or the offer cannot be answered.
    #[cfg(feature = "webrtc")]
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        stream: &str,
        sdp: &str,
        addresses: &[SocketAddr],
    ) -> Result<(ViewerId, String), Refusal> {
        let channel = self.channels.get_key_value(stream);
        let (stream, channel) = channel.ok_or(Refusal::NoStream)?;
        let format = channel.sampler.format();
        check_webrtc(format)?;
        let offer = Offer {
            stream,
            format,
            sdp,
            addresses,
        };
        self.peers.accept(now, &offer)
    }

    /// Returns that this build has no WebRTC.
    #[cfg(not(feature = "webrtc"))]
    pub(crate) fn offer(
        &mut self,
        _: Instant,
        stream: &str,
        _: &str,
        _: &[SocketAddr],
    ) -> Result<(core::convert::Infallible, String), Refusal> {
        let format = self.format(stream).ok_or(Refusal::NoStream)?;
        check_webrtc(format)?;
        Err(Refusal::NoWebRtc)
    }

    /// Forgets streams that have ended. Their viewers stay until another one of the name comes, or
    /// they leave. Returns whether any stream has viewers.
    pub(crate) fn sweep(&mut self) -> bool {
        let mut has_viewers = false;
        #[cfg(feature = "webrtc")]
        let peers = &self.peers;
        self.channels.retain(|_name, channel| {
            #[cfg(feature = "webrtc")]
            let is_watched = channel.films.count() > 0 || peers.count_of(_name) > 0;
            #[cfg(not(feature = "webrtc"))]
            let is_watched = channel.films.count() > 0;
            has_viewers |= is_watched;
            is_watched || channel.source.strong_count() > 0
        });
        has_viewers
    }
}

impl Channel {
    fn new(memory: MemoryShare) -> Self {
        Channel {
            source: Weak::new(),
            source_number: 0,
            sampler: Sampler::new(),
            epoch: 0,
            films: Films::new(memory),
        }
    }
}
