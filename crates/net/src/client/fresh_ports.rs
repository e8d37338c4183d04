//! Fresh local ports for paths that stay silent.
//!
//! An address translator may keep an entry that leads nowhere, as after its line has come back
//! before its own translation. Each packet of the path renews that entry, so only another local
//! port gets another one. The peer follows the path as it follows any that has moved.

use anabranch_units::{Duration, Instant};

use super::ClientRole;
use crate::load::Load;

/// Silence after which a path gets a fresh port: beyond a hand-over of a mobile network, and the
/// restart of a receiver (chosen).
const FIRST_PAUSE: Duration = Duration::from_secs(3);
/// Longest time between two fresh ports of a path: translators have thousands of entries, which
/// last for 30 s at least (RFC 4787, REQ-5).
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// State of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreshPort {
    pause: Duration,
    /// Time of the next fresh port; `None` while the path answers.
    due_at: Option<Instant>,
}

impl Default for FreshPort {
    fn default() -> Self {
        FreshPort {
            pause: FIRST_PAUSE,
            due_at: None,
        }
    }
}

impl FreshPort {
    /// Records whether the path is silent. Returns whether a fresh port is due now.
    fn is_due(&mut self, now: Instant, is_silent: bool) -> bool {
        if !is_silent {
            *self = FreshPort::default();
            return false;
        }
        let due_at = *self.due_at.get_or_insert(now + self.pause);
        let is_due = now >= due_at;
        if is_due {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            self.due_at = Some(now + self.pause);
        }
        is_due
    }
}

impl<L: Load> ClientRole<L> {
    /// Asks for fresh ports of paths that stay silent. The thread makes them before the next
    /// packet.
    pub(super) fn freshen_ports(&mut self, now: Instant) {
        if self.closing_at.is_some() {
            return;
        }
        let is_session_silent = self.handshake.is_some();
        for index in 0..self.paths.count() {
            let is_silent = is_session_silent
                || self
                    .driver
                    .as_ref()
                    .is_some_and(|driver| driver.is_out(index));
            let Some(managed) = self.paths.get_mut(index) else {
                continue;
            };
            let is_silent = is_silent && !managed.is_absent;
            if managed.fresh_port.is_due(now, is_silent) {
                self.paths.freshen(index);
            }
        }
    }

    /// Returns the time of the next fresh port; `None` at the end, which brings none.
    pub(super) fn fresh_port_at(&self) -> Option<Instant> {
        if self.closing_at.is_some() {
            return None;
        }
        let paths = self.paths.iter();
        paths.filter_map(|managed| managed.fresh_port.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_path_gets_fresh_ports_at_growing_intervals() {
        let mut fresh = FreshPort::default();
        let mut due = Vec::new();
        for second in 0..210 {
            // It answers after ten seconds, and once more.
            let is_silent = second >= 10 && second != 200;
            if fresh.is_due(Instant::from_secs(second), is_silent) {
                due.push(second);
            }
        }
        assert_eq!(due, [13, 19, 31, 55, 103, 163, 204]);
    }
}
