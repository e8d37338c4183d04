//! The queue between a session and its owner.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvError, RecvTimeoutError, TryRecvError};

use crate::event::Event;

/// Events that wait for their reader. What comes beyond is dropped and counted, unless a session
/// begins or ends by it.
const MAX_QUEUED_EVENTS: usize = 1_024;

/// The runtime's end. It never waits for the reader.
#[derive(Debug)]
pub(crate) struct EventSender {
    queue: mpsc::Sender<Event>,
    /// How many events wait.
    queued_count: Arc<AtomicUsize>,
    pub(crate) dropped_count: u64,
}

/// What a session tells its owner, in order. A reader that falls 1,024 events behind loses some,
/// but learns of every session's begin and end.
#[derive(Debug)]
pub struct Events {
    queue: mpsc::Receiver<Event>,
    queued_count: Arc<AtomicUsize>,
}

pub(crate) fn queue() -> (EventSender, Events) {
    let (sender, receiver) = mpsc::channel();
    let queued_count = Arc::<AtomicUsize>::default();
    let sender = EventSender {
        queue: sender,
        queued_count: Arc::clone(&queued_count),
        dropped_count: 0,
    };
    let events = Events {
        queue: receiver,
        queued_count,
    };
    (sender, events)
}

impl EventSender {
    pub(crate) fn tell(&mut self, event: Event) {
        let is_full = self.queued_count.load(Ordering::Relaxed) >= MAX_QUEUED_EVENTS;
        if is_full && !event.is_milestone() {
            self.dropped_count += 1;
            return;
        }
        self.queued_count.fetch_add(1, Ordering::Relaxed);
        // An owner that went away wants to hear nothing.
        let _ = self.queue.send(event);
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
    /// None came in time, or the session is over.
    pub fn recv_timeout(&self, patience: Duration) -> Result<Event, RecvTimeoutError> {
        let received = self.queue.recv_timeout(patience);
        received.map(|event| self.taken(event))
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// There is none now, or the session is over.
    pub fn try_recv(&self) -> Result<Event, TryRecvError> {
        self.queue.try_recv().map(|event| self.taken(event))
    }

    /// Waits for each event until the session is over.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        core::iter::from_fn(|| self.recv().ok())
    }

    fn taken(&self, event: Event) -> Event {
        self.queued_count.fetch_sub(1, Ordering::Relaxed);
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ended;
    use anabranch_units::DataRate;

    #[test]
    fn a_reader_that_sleeps_bounds_the_queue() {
        let (mut sender, events) = queue();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.tell(Event::TargetBitrate(DataRate::ZERO));
        }
        assert_eq!(sender.dropped_count, 3);
        events.try_recv().expect("it is full");
        sender.tell(Event::TargetBitrate(DataRate::ZERO));
        assert_eq!(sender.dropped_count, 3, "there was room for one");
        drop(sender);
        assert_eq!(events.iter().count(), MAX_QUEUED_EVENTS);
    }

    #[test]
    fn a_reader_that_sleeps_learns_of_the_end() {
        let (mut sender, events) = queue();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.tell(Event::TargetBitrate(DataRate::ZERO));
        }
        sender.tell(Event::Ended(Ended::ClosedByPeer));
        drop(sender);
        assert_eq!(
            events.iter().last(),
            Some(Event::Ended(Ended::ClosedByPeer))
        );
    }
}
