//! The events of all sessions of a receiver in one queue, beside the queues of the sessions.
//!
//! Events of a session come by its own queue as they happen. The state of a path is known to the
//! end that has chosen it; its reports and the silence of its packets are compared four times a
//! second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;

use anabranch_core::media::DropReason;
use anabranch_core::{FrameId, PathId, PathState};
use anabranch_units::{Duration, Instant};

use super::ServerRole;
use super::refused_senders::{RefusedSender, RefusedSenders};
use super::sessions::Sessions;
use crate::event::{Ended, Event};
use crate::snapshot::PathSnapshot;
use crate::watched::{WatchedSession, Watcher};

/// Maximum number of queued events. Further events are dropped and counted.
const MAX_QUEUED_EVENTS: usize = 1_024;
/// Interval between comparisons of paths, and between reports of refused senders. Reports of links
/// come as often.
const INTERVAL: Duration = Duration::from_millis(250);

/// An event of a receiver or of one of its sessions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchedEvent {
    /// A session has begun.
    Began(WatchedSession),
    /// A path of a session has appeared, or has another state.
    PathState {
        /// The session.
        session: WatchedSession,
        /// The path.
        path: PathId,
        /// Its name. The sender chose it: it may hold any characters.
        name: String,
        /// The new state.
        state: PathState,
    },
    /// A frame of a session was given up.
    FrameDropped {
        /// The session.
        session: WatchedSession,
        /// Number of the frame.
        id: FrameId,
        /// Place and reason of the drop.
        reason: DropReason,
    },
    /// A session is over.
    Ended {
        /// The session.
        session: WatchedSession,
        /// The reason.
        ended: Ended,
    },
    /// A sender requested a session and got none. It is not in
    /// [`Receiver::take_refused_senders`](crate::Receiver::take_refused_senders) then.
    Refused(RefusedSender),
}

/// The writing end of the events, for [`ServerConfig::watch`](crate::ServerConfig::watch).
#[derive(Clone, Debug)]
pub struct SessionWatch {
    queue: flume::Sender<WatchedEvent>,
    dropped_count: Arc<AtomicU64>,
}

/// Events of a receiver and of all its sessions, in order. A reader that falls 1,024 events behind
/// loses the newest.
#[derive(Debug)]
pub struct WatchedEvents {
    queue: flume::Receiver<WatchedEvent>,
    dropped_count: Arc<AtomicU64>,
}

impl SessionWatch {
    /// Creates a watch, and the reader of its events.
    pub fn new() -> (SessionWatch, WatchedEvents) {
        let (sender, queue) = flume::unbounded();
        let dropped_count = Arc::<AtomicU64>::default();
        let watch = SessionWatch {
            queue: sender,
            dropped_count: Arc::clone(&dropped_count),
        };
        let events = WatchedEvents {
            queue,
            dropped_count,
        };
        (watch, events)
    }

    fn emit(&self, event: WatchedEvent) {
        if self.queue.len() >= MAX_QUEUED_EVENTS {
            self.dropped_count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // An owner that has gone needs no events.
        let _ = self.queue.send(event);
    }
}

impl WatchedEvents {
    /// Waits for the next event for `patience` at most.
    ///
    /// # Errors
    /// If none came in time, or the receiver is over.
    pub fn recv_timeout(
        &self,
        patience: core::time::Duration,
    ) -> Result<WatchedEvent, RecvTimeoutError> {
        match self.queue.recv_timeout(patience) {
            Ok(event) => Ok(event),
            Err(flume::RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
            Err(flume::RecvTimeoutError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Waits for the next event, under any asynchronous runtime; `None` once the receiver is over.
    /// Dropping the future loses no event.
    pub async fn recv_async(&self) -> Option<WatchedEvent> {
        self.queue.recv_async().await.ok()
    }

    /// Returns the number of events that were dropped at the full queue.
    pub fn dropped_count(&self) -> u64 {
        self.dropped_count.load(Ordering::Relaxed)
    }
}

/// Writes the events of one session.
#[derive(Debug)]
pub(crate) struct SessionWatcher {
    pub(crate) watch: SessionWatch,
    pub(crate) session: WatchedSession,
}

impl Watcher for SessionWatcher {
    fn session(&self) -> WatchedSession {
        self.session
    }

    fn see(&self, event: &Event) {
        let session = self.session;
        match event {
            Event::Connected { .. } => self.watch.emit(WatchedEvent::Began(session)),
            Event::FrameDropped { id, reason } => self.watch.emit(WatchedEvent::FrameDropped {
                session,
                id: *id,
                reason: *reason,
            }),
            Event::Ended(ended) => self.watch.emit(WatchedEvent::Ended {
                session,
                ended: ended.clone(),
            }),
            _ => {}
        }
    }
}

/// Name and state of a path at the last comparison.
type Known = Option<(String, PathState)>;

/// Comparisons of the paths of all sessions.
#[derive(Debug)]
pub(super) struct PathWatch {
    watch: SessionWatch,
    due_at: Instant,
    /// Paths of each session, by its number.
    known: BTreeMap<u64, Vec<Known>>,
}

impl PathWatch {
    pub(super) fn new(watch: SessionWatch) -> Self {
        PathWatch {
            watch,
            due_at: Instant::ZERO,
            known: BTreeMap::new(),
        }
    }

    /// Reports changes if it is time. Returns the time of the next comparison, if there is
    /// something to compare.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        sessions: &mut Sessions,
        refused: &mut RefusedSenders,
    ) -> Option<Instant> {
        if now >= self.due_at {
            self.due_at = now + INTERVAL;
            for sender in refused.take() {
                self.watch.emit(WatchedEvent::Refused(sender));
            }
            self.compare(now, sessions);
        }
        let is_idle = sessions.is_empty() && refused.is_empty();
        (!is_idle).then_some(self.due_at)
    }

    fn compare(&mut self, now: Instant, sessions: &mut Sessions) {
        let mut before = core::mem::take(&mut self.known);
        for held in sessions.iter_mut() {
            let Some(session) = held.audience.events.watched_session() else {
                continue;
            };
            let mut known = before.remove(&session.number).unwrap_or_default();
            let seen = held.session.snapshot(now);
            known.resize(seen.paths.len(), None);
            for (index, (known, seen)) in known.iter_mut().zip(&seen.paths).enumerate() {
                let present = present(seen);
                if *known == present {
                    continue;
                }
                known.clone_from(&present);
                if let Some((name, state)) = present {
                    let path = PathId(index as u8);
                    self.watch.emit(WatchedEvent::PathState {
                        session,
                        path,
                        name,
                        state,
                    });
                }
            }
            self.known.insert(session.number, known);
        }
    }
}

impl ServerRole {
    /// Reports changes of paths and refused senders. Returns the time of the next call.
    pub(super) fn advance_watch(&mut self, now: Instant) -> Option<Instant> {
        let watch = self.watch.as_mut()?;
        watch.advance(now, &mut self.sessions, &mut self.refused_senders)
    }
}

/// Returns a path's name and state, once its sender has reported it.
fn present(path: &PathSnapshot) -> Known {
    let link = path.link.as_ref()?;
    Some((link.name.clone(), link.state))
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn a_reader_that_sleeps_bounds_the_queue() {
        let (watch, events) = SessionWatch::new();
        let session = WatchedSession {
            number: 0,
            peer: SecretKey::generate().public_key(),
        };
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            watch.emit(WatchedEvent::Began(session));
        }
        assert_eq!(events.dropped_count(), 3);
        drop(watch);
        for _ in 0..MAX_QUEUED_EVENTS {
            events.queue.try_recv().expect("an event");
        }
        let over = events.queue.try_recv();
        assert_eq!(over, Err(flume::TryRecvError::Disconnected));
    }
}
