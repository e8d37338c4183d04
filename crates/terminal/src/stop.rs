//! The stop signal, and waits that it ends.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anabranch_net::Clock;
use anabranch_net::system::{AsFd, BorrowedFd, LocalStream, stream_pair, timespec};
use anabranch_units::{Duration, Instant, Lateness, Punctuality};
use rustix::event::{PollFd, PollFlags, poll};

use crate::system;

static OF_SIGNALS: OnceLock<Stop> = OnceLock::new();

/// Flag that SIGINT, SIGTERM, a closing terminal or [`Stop::stop`] sets until [`Stop::clear`]. It
/// ends waits early. Clones share it.
#[derive(Clone, Debug)]
pub struct Stop {
    is_stopped: Arc<AtomicBool>,
    /// Socket that is readable while stopped.
    bell: Arc<LocalStream>,
    ringer: Arc<LocalStream>,
    /// Lateness of the ends of waits.
    punctuality: Arc<Mutex<Punctuality>>,
}

impl Stop {
    /// Creates a flag that is not set.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (ringer, bell) = stream_pair()?;
        ringer.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Stop {
            is_stopped: Arc::default(),
            bell: Arc::new(bell),
            ringer: Arc::new(ringer),
            punctuality: Arc::default(),
        })
    }

    /// Stops on the first SIGINT or SIGTERM (Ctrl-C or Ctrl-Break on Windows); a second one ends
    /// the program at once. A terminal that closes stops too, and never ends the program at once:
    /// shells and the kernel both report it.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn on_signals(&self) -> io::Result<()> {
        system::on_signals(&self.is_stopped, &self.ringer)?;
        // Signals reach all registered instances; a wait needs only one of them.
        let _ = OF_SIGNALS.set(self.clone());
        Ok(())
    }

    /// Returns the first instance that signals stop, or otherwise one that nothing stops.
    pub fn of_signals() -> io::Result<Self> {
        OF_SIGNALS.get().cloned().map_or_else(Stop::new, Ok)
    }

    /// Sets the flag, which ends all waits.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let _ = (&*self.ringer).write(&[0]);
    }

    /// Resets the flag, so that it can be stopped again.
    pub fn clear(&self) {
        self.is_stopped.store(false, Ordering::SeqCst);
        let mut rings = [0; 64];
        while matches!((&*self.bell).read(&mut rings), Ok(1..)) {}
    }

    /// Returns whether the flag is set.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Waits until `at`. Returns false when stopped.
    pub fn wait_until(&self, clock: &Clock, at: Instant) -> bool {
        // Time that has passed before the call is not the machine's lateness.
        let due_at = at.max(clock.now());
        while !self.is_stopped() {
            let now = clock.now();
            let wait = at.saturating_since(now);
            if wait.is_zero() {
                self.punctuality().on_turn(now, due_at);
                return true;
            }
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)],
                Some(&timespec(wait)),
            );
        }
        false
    }

    /// Returns the lateness of waits until a time, in the worse of the last two seconds.
    pub fn lateness(&self, clock: &Clock) -> Lateness {
        self.punctuality().lateness(clock.now())
    }

    fn punctuality(&self) -> MutexGuard<'_, Punctuality> {
        self.punctuality
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `source` is readable, for `patience` at most. Returns whether it is.
    pub fn wait_readable(&self, source: BorrowedFd<'_>, patience: Duration) -> bool {
        let mut awaited = [
            PollFd::from_borrowed_fd(source, PollFlags::IN),
            PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN),
        ];
        let ready = poll(&mut awaited, Some(&timespec(patience)));
        ready.is_ok() && !awaited[0].revents().is_empty() && !self.is_stopped()
    }
}

impl Stop {
    /// Waits until `target` is writable. Returns false when stopped.
    pub fn wait_writable(&self, target: BorrowedFd<'_>) -> bool {
        while !self.is_stopped() {
            let mut awaited = [
                PollFd::from_borrowed_fd(target, PollFlags::OUT),
                PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN),
            ];
            if poll(&mut awaited, None).is_ok() && !awaited[0].revents().is_empty() {
                return true;
            }
        }
        false
    }

    /// Waits until `target` is writable, for `patience` at most, even when stopped.
    pub fn wait_writable_for(target: BorrowedFd<'_>, patience: Duration) -> bool {
        let mut awaited = [PollFd::from_borrowed_fd(target, PollFlags::OUT)];
        poll(&mut awaited, Some(&timespec(patience))).is_ok_and(|count| count > 0)
    }

    /// Returns a socket that is readable while stopped.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

// Needs a clock: a thread waits for a real signal.
#[cfg(test)]
mod real_time_tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_stopped_and_not_before_its_time_otherwise() {
        let clock = Clock::start();
        let stop = Stop::new().unwrap();
        let at = clock.now() + Duration::from_millis(20);
        assert!(stop.wait_until(&clock, at));
        assert!(clock.now() >= at);
        let other = stop.clone();
        let stopper = std::thread::spawn(move || other.stop());
        let far = clock.now() + Duration::from_secs(60);
        assert!(!stop.wait_until(&clock, far));
        assert!(clock.now() < far);
        stopper.join().unwrap();
        stop.clear();
        let at = clock.now() + Duration::from_millis(20);
        assert!(stop.wait_until(&clock, at), "cleared");
        assert!(clock.now() >= at);
    }

    #[test]
    fn readable_differs_from_stopped() {
        let stop = Stop::new().unwrap();
        let (mut from, to) = stream_pair().unwrap();
        assert!(!stop.wait_readable(to.as_fd(), Duration::from_millis(5)));
        from.write_all(b"x").unwrap();
        assert!(stop.wait_readable(to.as_fd(), Duration::from_secs(5)));
        stop.stop();
        assert!(!stop.wait_readable(to.as_fd(), Duration::from_secs(5)));
    }
}
