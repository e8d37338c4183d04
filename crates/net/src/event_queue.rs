//! The queue between a session and its owner.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};

use anabranch_units::MemoryShare;
use tokio::sync::watch;

use crate::event::{Ended, Event};
use crate::watched::{WatchedSession, Watcher};

/// Maximum number of queued events. Further events are dropped and counted, unless they begin or
/// end a session.
const MAX_QUEUED_EVENTS: usize = 1_024;
/// Inverse of the part of the queue that parts of frames may fill. Their frames repeat their bytes,
/// so that a slow reader loses nothing if a part is dropped.
const PARTS_SHARE: usize = 2;
/// Maximum number of bytes of their frames: ten seconds of 50 Mbit/s. A thousand of the largest
/// frames would be 8 GiB.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// Sizes of the queue.
#[derive(Debug, Default)]
struct Queued {
    events: AtomicUsize,
    bytes: MemoryShare,
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
    /// `None` after the last event.
    queue: Option<flume::Sender<Event>>,
    queued: Arc<Queued>,
    ended: watch::Sender<Option<Ended>>,
    /// Copies events for the watch of a receiver.
    watcher: Option<Arc<dyn Watcher>>,
}

/// Events of a session, in order. A reader that falls 1,024 events or 64 MiB behind loses some, but
/// receives the begin and end of every session. Parts of frames may be missing at half of that.
///
/// Threads wait by [`recv`](Self::recv), tasks by [`recv_async`](Self::recv_async). A program that
/// needs no events may drop them.
///
/// ```
/// use std::time::Duration;
///
/// use anabranch_net::{Ended, Event, Sender};
/// use anabranch_secure::SecretKey;
///
/// // Nobody answers at the port for discarded data.
/// let (_sender, events) = Sender::builder()
///     .key(SecretKey::generate())
///     .peer(SecretKey::generate().public_key())
///     .to("127.0.0.1:9")
///     .connect_timeout(Duration::from_millis(100))
///     .start()?;
/// while let Ok(event) = events.recv() {
///     if let Event::Ended(ended) = event {
///         println!("{ended}");
///     }
/// }
/// // The reason stays available.
/// assert!(matches!(events.ended(), Some(Ended::NoAnswer { .. })));
/// # Ok::<(), anabranch_net::StartError>(())
/// ```
#[derive(Debug)]
pub struct Events {
    queue: flume::Receiver<Event>,
    queued: Arc<Queued>,
    ended: watch::Receiver<Option<Ended>>,
}

/// Error of a wait for an event that cannot come: the session is over, and its last event was
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
#[non_exhaustive]
pub struct SessionOver {
    /// Reason of the end; `None` if the session was dropped without one.
    #[source]
    pub ended: Option<Ended>,
}

/// Creates a queue of its own.
pub(crate) fn queue() -> (EventSender, Events) {
    queue_within(MemoryShare::default())
}

/// Creates a queue whose bytes are part of a total.
pub(crate) fn queue_within(memory: MemoryShare) -> (EventSender, Events) {
    let (sender, receiver) = flume::unbounded();
    let (ended, has_ended) = watch::channel(None);
    let queued = Arc::new(Queued {
        bytes: memory,
        ..Queued::default()
    });
    let sender = EventSender {
        queue: Some(sender),
        queued: Arc::clone(&queued),
        ended,
        watcher: None,
    };
    let events = Events {
        queue: receiver,
        queued,
        ended: has_ended,
    };
    (sender, events)
}

impl EventSender {
    /// Copies all events to a watcher from now on.
    pub(crate) fn set_watcher(&mut self, watcher: Arc<dyn Watcher>) {
        self.watcher = Some(watcher);
    }

    /// Returns the session as a watch names it, if it is watched.
    pub(crate) fn watched_session(&self) -> Option<WatchedSession> {
        self.watcher.as_ref().map(|watcher| watcher.session())
    }

    pub(crate) fn emit(&self, event: Event) {
        if let Some(watcher) = &self.watcher {
            watcher.see(&event);
        }
        let bytes = bytes_of(&event);
        let Some(queue) = &self.queue else { return };
        let is_part = matches!(event, Event::FramePart(_));
        let share = if is_part { PARTS_SHARE } else { 1 };
        let is_full = self.queued.events.load(Ordering::Relaxed) >= MAX_QUEUED_EVENTS / share
            || self.queued.bytes.bytes() + bytes > MAX_QUEUED_BYTES / share
            || (bytes > 0 && self.queued.bytes.is_exceeded_with(bytes));
        if is_full && is_part {
            return;
        }
        if is_full && !event.is_milestone() {
            self.queued.dropped_count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Event::Ended(ended) = &event {
            self.ended.send_replace(Some(ended.clone()));
        }
        self.queued.events.fetch_add(1, Ordering::Relaxed);
        self.queued.bytes.add(bytes);
        // An owner that has gone needs no events.
        let _ = queue.send(event);
    }

    /// Ends the queue behind the last event: the reader must not wait for more.
    pub(crate) fn close(&mut self) {
        self.queue = None;
    }

    /// Returns the number of events dropped at the full queue.
    pub(crate) fn dropped_count(&self) -> u64 {
        self.queued.dropped_count.load(Ordering::Relaxed)
    }
}

impl Events {
    /// Waits for the next event, and blocks the thread.
    ///
    /// # Errors
    /// [`SessionOver`] with the reason of the end, once the last event was taken.
    pub fn recv(&self) -> Result<Event, SessionOver> {
        let received = self.queue.recv();
        self.taken(received)
    }

    /// Waits for the next event, under any asynchronous runtime. Dropping the future loses no
    /// event.
    ///
    /// # Errors
    /// [`SessionOver`] with the reason of the end, once the last event was taken.
    pub async fn recv_async(&self) -> Result<Event, SessionOver> {
        let received = self.queue.recv_async().await;
        self.taken(received)
    }

    /// Waits for the next event for `patience` at most.
    ///
    /// # Errors
    /// If none came in time, or the session is over; [`ended`](Self::ended) returns the reason.
    pub fn recv_timeout(&self, patience: Duration) -> Result<Event, RecvTimeoutError> {
        match self.queue.recv_timeout(patience) {
            Ok(event) => Ok(self.count(event)),
            Err(flume::RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
            Err(flume::RecvTimeoutError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// If there is none now, or the session is over; [`ended`](Self::ended) returns the reason.
    pub fn try_recv(&self) -> Result<Event, TryRecvError> {
        match self.queue.try_recv() {
            Ok(event) => Ok(self.count(event)),
            Err(flume::TryRecvError::Empty) => Err(TryRecvError::Empty),
            Err(flume::TryRecvError::Disconnected) => Err(TryRecvError::Disconnected),
        }
    }

    /// Waits for each event until the session is over.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        core::iter::from_fn(|| self.recv().ok())
    }

    /// Returns the reason of the end of the session, or of a server's newest ended session, even if
    /// its event was not taken yet.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }

    /// Returns a watch of the end.
    pub(crate) fn end_watch(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.clone()
    }

    fn taken(&self, received: Result<Event, flume::RecvError>) -> Result<Event, SessionOver> {
        received
            .map(|event| self.count(event))
            .map_err(|_| SessionOver {
                ended: self.ended(),
            })
    }

    fn count(&self, event: Event) -> Event {
        self.queued.events.fetch_sub(1, Ordering::Relaxed);
        self.queued.bytes.remove(bytes_of(&event));
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ended;
    use anabranch_core::{ClockOffset, FrameId, FramePart, ReceivedFrame};
    use anabranch_units::{DataRate, Importance, Instant, SharedMemory};

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

    fn frame(bytes: usize) -> Event {
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
    }

    fn part(begin: usize, bytes: usize) -> Event {
        Event::FramePart(FramePart {
            id: FrameId(0),
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
            offset: ClockOffset::default(),
            begin,
            bytes: vec![0; bytes],
        })
    }

    #[test]
    fn a_reader_that_sleeps_bounds_the_queues_memory() {
        let (sender, events) = queue();
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
    fn queues_of_a_receiver_share_a_total() {
        let memory = SharedMemory::new(10_000);
        let queues: Vec<_> = (0..9).map(|_| queue_within(memory.share())).collect();
        let part = part(0, 100);
        for _ in 0..100 {
            for (sender, _) in &queues {
                sender.emit(part.clone());
                assert!(memory.held_bytes() <= 10_000);
            }
        }
        for (_, events) in &queues {
            let mut count = 0;
            while events.try_recv().is_ok() {
                count += 1;
            }
            assert!((9..=11).contains(&count), "{count}");
        }
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn parts_take_no_room_from_frames() {
        let (sender, events) = queue();
        for number in 0..MAX_QUEUED_EVENTS {
            sender.emit(part(9 * number, 9));
        }
        for _ in 0..MAX_QUEUED_EVENTS / 2 {
            sender.emit(Event::TargetBitrate(DataRate::ZERO));
        }
        assert_eq!(sender.dropped_count(), 0, "their frames repeat them");
        drop(sender);
        assert_eq!(events.iter().count(), MAX_QUEUED_EVENTS);
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

    #[test]
    fn the_reason_of_the_end_outlives_its_event() {
        let (sender, events) = queue();
        assert_eq!(events.ended(), None);
        sender.emit(Event::Ended(Ended::Replaced));
        drop(sender);
        assert_eq!(events.recv(), Ok(Event::Ended(Ended::Replaced)));
        let over = events.recv().expect_err("the last event was taken");
        assert_eq!(over.ended, Some(Ended::Replaced));
        let source = std::error::Error::source(&over).expect("the reason");
        assert_eq!(source.to_string(), Ended::Replaced.to_string());
    }
}
