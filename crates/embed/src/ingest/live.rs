//! A connection in the receiver's thread: its pictures, links and events.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anabranch_core::{ClockOffset, FrameId, ReceivedFrame};
use anabranch_srt::{ConnectionId, Delivered, Statistics as SrtStatistics};
use anabranch_units::Instant;
use anabranch_video::mpeg_ts::TransportUnit;

use super::caller_socket::LinkSample;
use super::links::LinkBook;
use crate::event::Event;
use crate::receiver_event::ReceiverEvent;
use crate::statistics::Statistics;
use crate::transport_stream::TransportStream;

/// Maximum number of frames that wait for their reader, and of their bytes. Later ones are dropped
/// and counted.
const MAX_QUEUED_FRAMES: usize = 1_024;
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// State that the thread and the reader of a session share.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Bytes of frames that wait.
    pub(super) waiting_bytes: AtomicUsize,
    /// Frames that were dropped at the full queue.
    pub(super) dropped_frames: AtomicU64,
    /// The end, which is set once.
    pub(super) over: OnceLock<Over>,
}

/// The end of a session.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) reason: String,
    pub(super) statistics: Statistics,
}

/// The reader's part of a new session.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) id: ConnectionId,
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) frames: flume::Receiver<ReceivedFrame>,
    pub(super) common: Arc<Common>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Live {
    number: u64,
    name: String,
    /// The stream, if its sender or this end names one.
    stream_name: Option<String>,
    caller: SocketAddr,
    began_at: Instant,
    heard_at: Instant,
    /// Whether it is over, and its last payloads are not due yet.
    is_leaving: bool,
    frames: flume::Sender<ReceivedFrame>,
    common: Arc<Common>,
    stream: TransportStream,
    frame_count: u64,
    /// Time at which the first payload of the next frame was due.
    due_at: Option<Instant>,
    /// Whether a packet of the next frame is missing.
    has_gap: bool,
    links: LinkBook,
}

impl Live {
    /// Opens a session with this number, of this stream and with this name.
    pub(super) fn open(
        now: Instant,
        (id, number): (ConnectionId, u64),
        (stream_name, name): (Option<String>, String),
        caller: SocketAddr,
    ) -> (Live, Opened) {
        let (frames, reader) = flume::unbounded();
        let common = Arc::<Common>::default();
        let opened = Opened {
            id,
            number,
            name: name.clone(),
            frames: reader,
            common: Arc::clone(&common),
        };
        let live = Live {
            number,
            name,
            stream_name,
            caller,
            began_at: now,
            heard_at: now,
            is_leaving: false,
            frames,
            common,
            stream: TransportStream::default(),
            frame_count: 0,
            due_at: None,
            has_gap: false,
            links: LinkBook::default(),
        };
        (live, opened)
    }

    pub(super) fn caller(&self) -> SocketAddr {
        self.caller
    }

    pub(super) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Returns whether it carries this stream. Those without a name are all different.
    pub(super) fn is_of(&self, stream: Option<&str>) -> bool {
        stream.is_some() && self.stream_name.as_deref() == stream
    }

    /// Records the state of the connection.
    pub(super) fn see(&mut self, heard_at: Instant, is_leaving: bool) {
        (self.heard_at, self.is_leaving) = (heard_at, is_leaving);
    }

    /// Returns an event of this session.
    pub(super) fn event(&self, event: Event) -> ReceiverEvent {
        ReceiverEvent {
            event,
            session: Some(self.number),
            peer: Some(self.name.clone()),
        }
    }

    /// Takes a payload. Returns an event if packets before it are missing.
    pub(super) fn take(&mut self, now: Instant, delivered: Delivered) -> Option<ReceiverEvent> {
        let is_new_gap = delivered.dropped > 0 && !core::mem::replace(&mut self.has_gap, true);
        let event = is_new_gap.then(|| {
            self.event(Event::FrameDropped {
                frame: self.frame_count,
                reason: "incomplete",
            })
        });
        self.due_at.get_or_insert(delivered.due_at);
        self.stream.push(&delivered.payload);
        while let Some(unit) = self.stream.next() {
            self.give(now, unit);
            // The next frame may begin in this payload.
            self.due_at = Some(delivered.due_at);
        }
        event
    }

    fn give(&mut self, now: Instant, unit: TransportUnit) {
        let number = self.frame_count;
        self.frame_count += 1;
        self.has_gap = false;
        let (common, bytes) = (&self.common, unit.bytes.len());
        let waiting = common.waiting_bytes.load(Ordering::Relaxed);
        if self.frames.len() >= MAX_QUEUED_FRAMES || waiting + bytes > MAX_QUEUED_BYTES {
            common.dropped_frames.fetch_add(1, Ordering::Relaxed);
            return;
        }
        common.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A reader that has gone needs no frames.
        let _ = self.frames.send(ReceivedFrame {
            id: FrameId(number),
            importance: unit.importance,
            captured_at: self.due_at.take().unwrap_or(now),
            size_bytes: bytes,
            bytes: unit.bytes,
            completed_at: now,
            offset: ClockOffset::default(),
            parted_bytes: 0,
        });
    }

    /// Takes the present links. Returns the changes as events.
    pub(super) fn report(&mut self, now: Instant, links: &[LinkSample]) -> Vec<ReceiverEvent> {
        let changes = self.links.update(now, links);
        changes.into_iter().map(|event| self.event(event)).collect()
    }

    /// Returns the state in numbers.
    pub(super) fn statistics(&self, now: Instant, of_srt: SrtStatistics) -> Statistics {
        Statistics {
            connected: true,
            peer: Some(self.name.clone()),
            session_s: now.saturating_since(self.began_at).as_secs_f64(),
            frames_received: of_srt.received_packets,
            frames_dropped: of_srt.dropped_packets,
            dropped_events: self.common.dropped_frames.load(Ordering::Relaxed),
            paths: self.links.statistics(),
            ..Statistics::default()
        }
    }

    /// Hands out the rest of the stream, and records the reason of the end for the reader.
    pub(super) fn end(mut self, now: Instant, of_srt: SrtStatistics, reason: String) {
        while let Some(unit) = self.stream.finish() {
            self.give(now, unit);
        }
        let statistics = self.statistics(now, of_srt);
        // A session ends only once.
        let _ = self.common.over.set(Over { reason, statistics });
    }
}
