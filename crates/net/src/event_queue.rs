//! The queue between a session and its owner.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvError, RecvTimeoutError, TryRecvError};

use crate::event::Event;

/// Maximum number of queued events. Further events are dropped and counted, unless they begin or
/// end a session.
const MAX_QUEUED_EVENTS: usize = 1_024;
/// Maximum number of bytes of their frames: ten seconds of 50 Mbit/s. A thousand of the largest
/// frames would be 8 GiB.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// Sizes of the queue.
#[derive(Debug, Default)]
struct Queued {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// Number of events dropped at the full queue.
    dropped_count: AtomicU64,
}

fn bytes_of(event: &Event) -> usize {
    match event {
        Event::FrameReceived(frame) => frame.bytes.len(),
        Event::FramePart(part) => part.bytes.len(),
        _ => 0,
    }
}

/// The runtime's end. It never waits for the reader. Clones write to the same queue.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    queue: mpsc::Sender<Event>,
    queued: Arc<Queued>,
}

/// Events of a session, in order. A reader that falls 1,024 events or 64 MiB behind loses some, but
/// receives the begin and end of every session.
#[derive(Debug)]
pub struct Events {
    queue: mpsc::Receiver<Event>,
    queued: Arc<Queued>,
}

pub(crate) fn queue() -> (EventSender, Events) {
    let (sender, receiver) = mpsc::channel();
    let queued = Arc::<Queued>::default();
    let sender = EventSender {
        queue: sender,
        queued: Arc::clone(&queued),
    };
    let events = Events {
        queue: receiver,
        queued,
    };
    (sender, events)
}

impl EventSender {
    pub(crate) fn emit(&self, event: Event) {
        let bytes = bytes_of(&event);
        let is_full = self.queued.events.load(Ordering::Relaxed) >= MAX_QUEUED_EVENTS
            || self.queued.bytes.load(Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES;
        if is_full && !event.is_milestone() {
            self.queued.dropped_count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queued.events.fetch_add(1, Ordering::Relaxed);
        self.queued.bytes.fetch_add(bytes, Ordering::Relaxed);
        // An owner that has gone needs no events.
        let _ = self.queue.send(event);
    }

    /// Returns the number of events dropped at the full queue.
    pub(crate) fn dropped_count(&self) -> u64 {
        self.queued.dropped_count.load(Ordering::Relaxed)
    }
}

impl Events {
    /// Waits for the next event.
    ///
    /// # Errors
    /// The session is over, and its last event was taken.
    pub fn recv(&self) -> Result<Event, RecvError> {
        self.queue.recv().map(|event| self.taken(event))
    }

    /// Waits for the next event for `patience` at most.
    ///
    /// # Errors
    /// If none came in time, or the session is over.
    pub fn recv_timeout(&self, patience: Duration) -> Result<Event, RecvTimeoutError> {
        let received = self.queue.recv_timeout(patience);
        received.map(|event| self.taken(event))
    }

    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// If there is none now, or the session is over.
    pub fn try_recv(&self) -> Result<Event, TryRecvError> {
        self.queue.try_recv().map(|event| self.taken(event))
    }

    /// Waits for each event until the session is over.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        core::iter::from_fn(|| self.recv().ok())
    }

    fn taken(&self, event: Event) -> Event {
        self.queued.events.fetch_sub(1, Ordering::Relaxed);
        self.queued
            .bytes
            .fetch_sub(bytes_of(&event), Ordering::Relaxed);
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ended;
    use anabranch_core::{ClockOffset, FrameId, ReceivedFrame};
    use anabranch_units::{DataRate, Importance, Instant};

    #[test]
    fn a_reader_that_sleeps_bounds_the_queue() {
        let (sender, events) = queue();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.emit(Event::TargetBitrate(DataRate::ZERO));
        }
        assert_eq!(sender.dropped_count(), 3);
        events.try_recv().expect("it is full");
        sender.emit(Event::TargetBitrate(DataRate::ZERO));
        assert_eq!(sender.dropped_count(), 3, "there was room for one");
        drop(sender);
        assert_eq!(events.iter().count(), MAX_QUEUED_EVENTS);
    }

    #[test]
    fn a_reader_that_sleeps_bounds_the_queues_memory() {
        let (sender, events) = queue();
        let frame = |bytes: usize| {
            Event::FrameReceived(ReceivedFrame {
                id: FrameId(0),
                importance: Importance::Reference,
                captured_at: Instant::ZERO,
                size_bytes: bytes,
                bytes: vec![0; bytes],
                completed_at: Instant::ZERO,
                offset: ClockOffset::default(),
                parted_bytes: 0,
            })
        };
        for _ in 0..20 {
            sender.emit(frame(8 << 20));
        }
        assert_eq!(sender.dropped_count(), 12, "eight of 8 MiB fit");
        sender.emit(Event::TargetBitrate(DataRate::ZERO));
        assert_eq!(sender.dropped_count(), 12, "what has no bytes fits still");
        events.try_recv().expect("a frame");
        sender.emit(frame(8 << 20));
        assert_eq!(sender.dropped_count(), 12, "there was room for one");
    }

    #[test]
    fn a_reader_that_sleeps_learns_of_the_end() {
        let (sender, events) = queue();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.emit(Event::TargetBitrate(DataRate::ZERO));
        }
        sender.emit(Event::Ended(Ended::ClosedByPeer));
        drop(sender);
        assert_eq!(
            events.iter().last(),
            Some(Event::Ended(Ended::ClosedByPeer))
        );
    }
}
