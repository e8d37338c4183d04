//! Limit of the bytes that the peer may have in all streams together: QUIC's MAX_DATA (RFC 9000
//! §4.1), whose memory all sessions of a program share.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::violation::Violation;

/// Memory that the sessions of a program share. It is for arrived bytes, beyond the least that each
/// session has, and the same amount for unsent bytes.
///
/// Clones share the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes: u64,
    left_bytes: AtomicU64,
    session_count: AtomicU64,
}

impl Budget {
    /// Creates a budget of `bytes` in each direction.
    pub fn new(bytes: u64) -> Self {
        Budget(Arc::new(Shared {
            bytes,
            left_bytes: AtomicU64::new(bytes),
            session_count: AtomicU64::new(0),
        }))
    }

    /// Returns the number of bytes that belong to no session.
    fn left_bytes(&self) -> u64 {
        self.0.left_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of a session that may wait to be sent.
    fn send_bytes(&self) -> u64 {
        self.0.bytes / self.0.session_count.load(Ordering::Relaxed).max(1)
    }

    /// Takes `wanted` bytes, or all that are left.
    fn take(&self, wanted: u64) -> u64 {
        let left = &self.0.left_bytes;
        // The closure returns no None.
        let (Ok(before) | Err(before)) =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(wanted))
            });
        before.min(wanted)
    }

    fn give_back(&self, bytes: u64) {
        self.0.left_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The receiving end's account of one session.
#[derive(Debug)]
pub(crate) struct SessionWindow {
    budget: Budget,
    /// Bytes that every session has.
    least_bytes: u64,
    /// Part of the budget that this session has taken.
    taken_bytes: u64,
    /// Number of bytes of all streams that have arrived …
    received: u64,
    /// … and have been read, or are no longer of use.
    consumed: u64,
    /// Number of bytes up to which the peer may send.
    announced_max: u64,
}

impl SessionWindow {
    pub(crate) fn new(least_bytes: u64, budget: Budget) -> Self {
        budget.0.session_count.fetch_add(1, Ordering::Relaxed);
        SessionWindow {
            budget,
            least_bytes,
            taken_bytes: 0,
            received: 0,
            consumed: 0,
            announced_max: least_bytes,
        }
    }

    /// Returns the number of bytes of the session that may wait to be sent, so that all sessions
    /// together stay within the budget.
    pub(crate) fn send_bytes(&self) -> u64 {
        self.budget.send_bytes()
    }

    /// Returns the number of bytes held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.received - self.consumed
    }

    /// Counts arrived bytes of a stream.
    pub(crate) fn on_received(&mut self, bytes: u64) -> Result<(), Violation> {
        self.received = self.received.saturating_add(bytes);
        if self.received > self.announced_max {
            Err(Violation::WindowExceeded)
        } else {
            Ok(())
        }
    }

    /// Counts bytes of a stream that are no longer held.
    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// Returns the peer's credit for all streams if it must be announced now: half of the window
    /// has been read, or the window should double. `wanted` is the size that it should have.
    pub(crate) fn credit(&mut self, wanted: u64) -> Option<u64> {
        let ahead = self.announced_max - self.consumed;
        let window = self.least_bytes + self.taken_bytes;
        let may_grow = wanted >= 2 * window && self.budget.left_bytes() > 0;
        if ahead > window / 2 && !may_grow {
            return None;
        }
        let needed = wanted.saturating_sub(self.least_bytes);
        match needed.checked_sub(self.taken_bytes) {
            Some(more) => self.taken_bytes += self.budget.take(more),
            // The peer's credit keeps its memory.
            None => self.give_back(needed.max(ahead.saturating_sub(self.least_bytes))),
        }
        let max = self.consumed + self.least_bytes + self.taken_bytes;
        (max > self.announced_max).then(|| {
            self.announced_max = max;
            max
        })
    }

    /// Keeps `kept` bytes and returns the others to the budget.
    fn give_back(&mut self, kept: u64) {
        let surplus = self.taken_bytes.saturating_sub(kept);
        self.taken_bytes -= surplus;
        self.budget.give_back(surplus);
    }
}

impl Drop for SessionWindow {
    fn drop(&mut self) {
        self.give_back(0);
        self.budget.0.session_count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_credit_keeps_its_memory_when_the_window_shrinks() {
        let budget = Budget::new(1_000);
        let mut window = SessionWindow::new(100, budget.clone());
        assert_eq!(window.credit(900), Some(900));
        window.on_received(500).unwrap();
        window.on_consumed(500);
        // The peer may still send 400 bytes, of which the session's least are 100.
        assert_eq!(window.credit(100), None);
        assert_eq!(budget.left_bytes(), 700);
        window.on_received(400).unwrap();
        window.on_consumed(400);
        assert_eq!(window.credit(100), Some(1_000));
        assert_eq!(budget.left_bytes(), 1_000);
    }

    #[test]
    fn what_sessions_hold_is_bounded_by_the_budget_and_comes_back() {
        let budget = Budget::new(1_000);
        let mut one = SessionWindow::new(100, budget.clone());
        let mut other = SessionWindow::new(100, budget.clone());
        assert_eq!(one.credit(900), Some(900));
        assert_eq!(other.credit(900), Some(300), "all that is left");
        assert_eq!(budget.left_bytes(), 0);
        assert_eq!(other.on_received(300), Ok(()));
        other.on_consumed(300);
        assert_eq!(other.credit(900), Some(600));
        assert_eq!(other.on_received(301), Err(Violation::WindowExceeded));
        // Credit comes when half of the window has been read; then less is wanted.
        assert_eq!(one.on_received(900), Ok(()));
        one.on_consumed(400);
        assert_eq!(one.credit(900), None);
        one.on_consumed(500);
        assert_eq!(one.credit(200), Some(1_100));
        assert_eq!(budget.left_bytes(), 700);
        assert_eq!(one.send_bytes(), 500);
        drop(one);
        assert_eq!(other.send_bytes(), 1_000);
        drop(other);
        assert_eq!(budget.left_bytes(), 1_000);
    }
}
