//! The check of a session's invariants.

use anabranch_units::Instant;

use super::{Content, Session};
use crate::invariants::{Checker, Invariant, Violation};
use crate::path::Path;
use crate::send_reason::SendReason;

impl<C: Content> Session<C> {
    /// Returns every invariant that does not hold now, between two calls.
    pub fn check_invariants(&self) -> Vec<Violation> {
        let mut checker = Checker::default();
        for path in &self.paths {
            path.check(&mut checker);
        }
        self.content.check(&self.paths, &mut checker);
        checker.violations
    }

    /// Returns the same for a session at rest: [`Session::handle_timeout`] has been called at
    /// `now`, and then [`Session::poll_transmit`] until it returned `None`.
    pub fn check_invariants_at_rest(&self, now: Instant) -> Vec<Violation> {
        let mut checker = Checker {
            violations: self.check_invariants(),
        };
        if let Some((at, timer)) = self.poll_timeout() {
            checker.require(Invariant::Timer, at > now, || {
                format!("{timer:?} of {at} is still due at {now}")
            });
        }
        checker.violations
    }
}

impl Path {
    fn check(&self, checker: &mut Checker) {
        let begin = checker.violations.len();
        self.check_queue(checker);
        self.recovery.check(checker);
        let earliest = self.liveness.due_at_earliest(&self.recovery);
        let due_at = self.liveness.due_at(&self.recovery);
        let holds = due_at.is_none_or(|due_at| earliest.is_some_and(|at| at <= due_at));
        checker.require(Invariant::Timer, holds, || {
            format!("its silence is due at {due_at:?}, and was to be at {earliest:?} or later")
        });
        let counters = &self.counters;
        let reasons = &counters.reasons;
        let tracked = (counters.sent_packets, counters.sent_bytes);
        let control = (counters.control_packets, counters.control_bytes);
        let padding = (counters.padding_packets, counters.padding_bytes);
        for (of, kept, count) in [
            ("tracked", tracked, reasons.sum(SendReason::is_tracked)),
            ("control", control, reasons.of(SendReason::Control)),
            ("padding", padding, reasons.of(SendReason::Padding)),
        ] {
            let is_same = kept == (count.packets, count.bytes);
            checker.require(Invariant::Reasons, is_same, || {
                format!("{of} packets: {kept:?}, by reason {count:?}")
            });
        }
        let repairs = counters.reasons.of(SendReason::Repair).packets;
        let (kept, of) = (counters.repair_packets, "repairs");
        checker.equal(Invariant::Reasons, of, kept, repairs);
        for violation in &mut checker.violations[begin..] {
            violation
                .detail
                .insert_str(0, &format!("path {}: ", self.id));
        }
    }
}
