//! The check of an endpoint's invariants.

use anabranch_units::Instant;

use super::Endpoint;
use crate::invariants::{Checker, Exceptions, Invariant, Places, Violation};
use crate::path::Path;
use crate::send_reason::SendReason;

impl Endpoint {
    /// Every invariant that does not hold now, between two calls.
    pub fn check_invariants(&self) -> Vec<Violation> {
        let mut checker = Checker::default();
        let mut places = Places::default();
        let exceptions = Exceptions {
            is_redundant: self.scheduler.is_redundant(),
            has_halves: self.config.mtu.is_some(),
        };
        for path in &self.paths {
            path.check(&mut checker);
            for packet in path.bound_packets() {
                let is_only = places.add_bound(path.id, packet);
                let holds = is_only || exceptions.is_redundant;
                checker.require(Invariant::Lists, holds, || {
                    format!("path {}: bound twice: {packet:?}", path.id)
                });
            }
            for packet in path.recovery.outstanding() {
                places.add_outstanding(path.id, packet);
            }
        }
        self.send_buffer
            .check(&mut places, exceptions, &mut checker);
        self.reassembly.check(&mut checker);
        self.budget.check(&mut checker);
        if let Some(stream) = &self.stream {
            let outstanding = self
                .paths
                .iter()
                .flat_map(|path| path.recovery.outstanding());
            stream.send.check(outstanding, &mut checker);
        }
        checker.violations
    }

    /// The same of an endpoint that is at rest: [`Endpoint::handle_timeout`] has been called at
    /// `now`, and then [`Endpoint::poll_transmit`] until it returned `None`.
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
        let counters = &self.counters;
        let mut counted = |of: &str, packets, bytes, is_meant: fn(SendReason) -> bool| {
            let count = counters.reasons.sum(is_meant);
            let kept = (packets, bytes);
            let is_same = kept == (count.packets, count.bytes);
            checker.require(Invariant::Reasons, is_same, || {
                format!("{of} packets: {kept:?}, by reason {count:?}")
            });
        };
        counted(
            "tracked",
            counters.sent_packets,
            counters.sent_bytes,
            SendReason::is_tracked,
        );
        counted(
            "control",
            counters.control_packets,
            counters.control_bytes,
            |reason| reason == SendReason::Control,
        );
        counted(
            "padding",
            counters.padding_packets,
            counters.padding_bytes,
            |reason| reason == SendReason::Padding,
        );
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
