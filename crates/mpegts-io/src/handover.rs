//! A bounded queue between two threads, whose reader waits for it and for sockets together.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anabranch_net::WorkerWaker;
use anabranch_net::system::{AsFd, BorrowedFd, LocalStream, stream_pair};
use anabranch_units::Instant;

/// Most items: as many packets as SRT has in flight.
const MAX_ITEMS: usize = 8_192;

struct Shared<T> {
    items: Mutex<VecDeque<T>>,
    /// Holds a byte while `is_rung`.
    bell: (LocalStream, LocalStream),
    is_rung: AtomicBool,
    /// The worker that reads, if one does.
    worker: OnceLock<WorkerWaker>,
}

/// Writing end.
pub(super) struct Giver<T>(Arc<Shared<T>>);

/// Reading end. Its socket is readable while items wait.
pub(super) struct Taker<T>(Arc<Shared<T>>);

/// Makes a queue.
///
/// # Errors
/// The system has no descriptors left.
pub(super) fn handover<T>() -> io::Result<(Giver<T>, Taker<T>)> {
    let shared = Arc::new(Shared {
        items: Mutex::default(),
        bell: stream_pair()?,
        is_rung: AtomicBool::new(false),
        worker: OnceLock::new(),
    });
    Ok((Giver(Arc::clone(&shared)), Taker(shared)))
}

impl<T> Giver<T> {
    /// Adds an item. Returns whether there was room.
    pub(super) fn give(&self, item: T) -> bool {
        let mut items = self.0.items.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = items.len() < MAX_ITEMS;
        if has_room {
            items.push_back(item);
        }
        drop(items);
        if !self.0.is_rung.swap(true, Ordering::SeqCst) {
            // The stream is empty, so this neither blocks nor fails.
            let _ = (&self.0.bell.1).write(&[0]);
            if let Some(worker) = self.0.worker.get() {
                worker.wake();
            }
        }
        has_room
    }
}

impl<T> Taker<T> {
    /// Makes items wake the worker that takes them.
    pub(super) fn wake(&self, worker: WorkerWaker) {
        let _ = self.0.worker.set(worker);
    }

    /// Returns a socket that is readable while items wait.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.bell.0.as_fd()
    }

    /// Takes all items.
    pub(super) fn take(&self) -> VecDeque<T> {
        if self.0.is_rung.load(Ordering::SeqCst) {
            // The byte has been written, or is about to be.
            let _ = (&self.0.bell.0).read(&mut [0]);
            self.0.is_rung.store(false, Ordering::SeqCst);
        }
        let mut items = self.0.items.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::take(&mut items)
    }
}

impl<T> Clone for Taker<T> {
    fn clone(&self) -> Self {
        Taker(Arc::clone(&self.0))
    }
}

impl<T> core::fmt::Debug for Giver<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Giver")
    }
}

impl<T> core::fmt::Debug for Taker<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Taker")
    }
}

/// A payload and the time at which it was due.
pub(super) type Payload = (Instant, Vec<u8>);

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable<T>(taker: &Taker<T>) -> bool {
        let mut awaited = [PollFd::from_borrowed_fd(taker.as_fd(), PollFlags::IN)];
        poll(&mut awaited, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_reader_is_woken_while_items_wait() {
        let (giver, taker) = handover().unwrap();
        assert!(!is_readable(&taker) && taker.take().is_empty());
        assert!(giver.give(1) && giver.give(2));
        assert!(is_readable(&taker));
        assert_eq!(taker.take(), [1, 2]);
        assert!(!is_readable(&taker));
        let thread = std::thread::spawn(move || {
            let mut given = 0;
            for _ in 0..100_000 {
                given += usize::from(giver.give(3));
            }
            given
        });
        let mut count = 0;
        while !thread.is_finished() || is_readable(&taker) {
            count += taker.take().len();
        }
        assert_eq!(thread.join().unwrap(), count);
    }

    #[test]
    fn a_reader_that_sleeps_costs_no_more_memory() {
        let (giver, taker) = handover().unwrap();
        let given = (0..MAX_ITEMS + 5).filter(|item| giver.give(*item)).count();
        assert_eq!((given, taker.take().len()), (MAX_ITEMS, MAX_ITEMS));
        assert!(giver.give(0));
    }
}
