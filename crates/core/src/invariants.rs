//! Invariants of a session between any two calls, checked from outside the code that keeps them.
//!
//! [`Session::check_invariants`](crate::Session::check_invariants) looks at all state, and its time
//! grows with it. It exists with debug assertions, and with the feature `invariants`.

use core::fmt;

/// Property that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// A sum or count that is kept is that of its parts.
    Sums,
    /// A fragment that is queued is in exactly one place: it waits for the scheduler, is bound to
    /// paths, or waits for repairs. One that is not queued is in none, except for the scheduler's
    /// copies. Fragments that have arrived and frames that were given up are exempt: their
    /// remaining packets are dropped later. Redundant schedulers are, too.
    OnePlace,
    /// A fragment is in flight on exactly the paths on which recovery has a copy outstanding.
    InFlight,
    /// A fragment that has not arrived is queued or in flight, unless its frame was given up or
    /// repairs may still recover it.
    NotForgotten,
    /// Lists are in order and hold their own kind of entries, no more than once.
    Lists,
    /// Datagrams counted by reason add up to those counted otherwise.
    Reasons,
    /// The segments of a stream lie side by side, and waiting retransmissions are not in flight.
    Segments,
    /// Repairs are paid from their budget.
    Budget,
    /// A session that has performed all due actions asks to be called later than now. No timer
    /// expires before the time that is kept as the earliest.
    Timer,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// Object and kind of the violation.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

/// Collects violations.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violations: Vec<Violation>,
}

impl Checker {
    pub(crate) fn require(
        &mut self,
        invariant: Invariant,
        holds: bool,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            let detail = detail();
            self.violations.push(Violation { invariant, detail });
        }
    }

    /// Checks that a `kept` sum equals the `counted` one.
    pub(crate) fn sum(&mut self, of: &str, kept: u64, counted: u64) {
        self.equal(Invariant::Sums, of, kept, counted);
    }

    pub(crate) fn equal(&mut self, invariant: Invariant, of: &str, kept: u64, counted: u64) {
        self.require(invariant, kept == counted, || {
            format!("{of}: {kept}, counted {counted}")
        });
    }
}
