//! Reasons for which datagrams were sent, and their counts.
//!
//! Each datagram has one reason: the event without which it would not have left. A retransmission
//! keeps its reason on every path that the scheduler gives it to.

use core::fmt;

/// Defines [`SendReason`] by its variants and their names.
macro_rules! send_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a datagram left.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum SendReason {
            $($(#[$doc])* $reason,)*
        }

        impl SendReason {
            /// Every reason, in the order of their declaration.
            pub const ALL: [SendReason; [$($name),*].len()] = [$(SendReason::$reason),*];

            /// Returns the name in reports and traces.
            pub const fn name(self) -> &'static str {
                match self {
                    $(SendReason::$reason => $name,)*
                }
            }
        }
    };
}

send_reasons! {
    /// First transmission of a fragment or a segment.
    New = "new",
    /// Loss detection declared a copy lost.
    Lost = "lost",
    /// A copy is in flight on a path that has become suspect.
    PathSuspect = "path-suspect",
    /// A copy was in flight on a path that went out.
    PathOut = "path-out",
    /// A copy was in flight on a path that was removed.
    PathRemoved = "path-removed",
    /// A copy in flight on a congested path will miss its deadline there.
    PathCongested = "path-congested",
    /// No time is left to retransmit a retransmission: it gets a copy on another path.
    LastTry = "last-try",
    /// The same on the same path, because no other path makes the deadline.
    LastTrySamePath = "last-try-same-path",
    /// Acknowledgement is overdue, and a copy makes the deadline only if it leaves now.
    LastCall = "last-call",
    /// A lost fragment waited for repairs, which did not recover it.
    NotRecovered = "not-recovered",
    /// The scheduler gave a fragment to several paths: all copies but the one that left first.
    Duplicate = "duplicate",
    /// A segment in flight on another path, which is slow to deliver it: the peer waits for it, or
    /// there is nothing else to send. Or no path has answered yet, and the first ones leave on all.
    Reinjection = "reinjection",
    /// A stream's retransmission timer expired.
    RetransmissionTimeout = "retransmission-timeout",
    /// Tail loss probe with the last segment in flight (RFC 8985 §7).
    TailLossProbe = "tail-loss-probe",
    /// Repair symbol of forward error correction.
    Repair = "repair",
    /// Useless bytes that probe for bandwidth.
    Padding = "padding",
    /// A suspect path is asked whether it is alive.
    PathChallenge = "path-challenge",
    /// A path on which nothing is sent is asked whether it is alive, and for its round-trip time.
    IdleProbe = "idle-probe",
    /// Useless bytes that probe for a larger MTU.
    MtuProbe = "mtu-probe",
    /// No tracked content: reports, path responses, notices, window updates, the close.
    Control = "control",
}

impl SendReason {
    /// Returns whether the datagram carries another copy of a fragment or segment that left before.
    pub const fn is_copy(self) -> bool {
        self.is_retransmission() || self.is_scheduled_copy()
    }

    /// Returns whether the session, not the scheduler, asked for another copy.
    pub const fn is_retransmission(self) -> bool {
        matches!(
            self,
            SendReason::Lost
                | SendReason::PathSuspect
                | SendReason::PathOut
                | SendReason::PathRemoved
                | SendReason::PathCongested
                | SendReason::LastTry
                | SendReason::LastTrySamePath
                | SendReason::LastCall
                | SendReason::NotRecovered
                | SendReason::Reinjection
                | SendReason::RetransmissionTimeout
                | SendReason::TailLossProbe
        )
    }

    /// Returns whether the scheduler asked for another copy.
    pub const fn is_scheduled_copy(self) -> bool {
        matches!(self, SendReason::Duplicate)
    }

    /// Returns whether the datagram has a packet number and is acknowledged.
    pub const fn is_tracked(self) -> bool {
        !matches!(self, SendReason::Control)
    }
}

impl fmt::Display for SendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Datagrams of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCount {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl ReasonCount {
    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: ReasonCount) -> ReasonCount {
        ReasonCount {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Returns the increase since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: ReasonCount) -> ReasonCount {
        ReasonCount {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Datagrams sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounts([ReasonCount; SendReason::ALL.len()]);

impl ReasonCounts {
    /// Counts a datagram of `bytes` bytes on the wire.
    pub fn add(&mut self, reason: SendReason, bytes: u64) {
        let count = &mut self.0[reason as usize];
        count.packets += 1;
        count.bytes += bytes;
    }

    /// Returns the count of one reason.
    pub const fn of(&self, reason: SendReason) -> ReasonCount {
        self.0[reason as usize]
    }

    /// Iterates over every reason for which datagrams were sent, in the order of
    /// [`SendReason::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (SendReason, ReasonCount)> + '_ {
        let all = SendReason::ALL.into_iter().zip(self.0);
        all.filter(|(_, count)| count.packets > 0)
    }

    /// Returns the count of all reasons that `is_meant` selects.
    pub fn sum(&self, is_meant: impl Fn(SendReason) -> bool) -> ReasonCount {
        let meant = self.iter().filter(|(reason, _)| is_meant(*reason));
        meant.fold(ReasonCount::default(), |sum, (_, count)| sum.plus(count))
    }

    /// Returns the sum of both, reason by reason.
    #[must_use]
    pub fn plus(&self, other: &ReasonCounts) -> ReasonCounts {
        let mut sum = *self;
        for (count, other) in sum.0.iter_mut().zip(other.0) {
            *count = count.plus(other);
        }
        sum
    }

    /// Returns the increase since `earlier`, reason by reason.
    #[must_use]
    pub fn since(&self, earlier: &ReasonCounts) -> ReasonCounts {
        ReasonCounts(core::array::from_fn(|index| {
            self.0[index].since(earlier.0[index])
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_holds_every_reason_at_its_index_and_names_are_unique() {
        for (index, reason) in SendReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{reason}");
            let before = &SendReason::ALL[..index];
            assert!(before.iter().all(|other| other.name() != reason.name()));
        }
        let last = SendReason::ALL[SendReason::ALL.len() - 1];
        assert_eq!(last, SendReason::Control);
    }

    #[test]
    fn counts_add_up_and_subtract() {
        let mut counts = ReasonCounts::default();
        counts.add(SendReason::New, 1_000);
        let before = counts;
        counts.add(SendReason::Lost, 900);
        counts.add(SendReason::LastCall, 800);
        counts.add(SendReason::New, 1_000);
        let copies = counts.sum(SendReason::is_copy);
        assert_eq!((copies.packets, copies.bytes), (2, 1_700));
        let since = counts.since(&before);
        assert_eq!(since.of(SendReason::New).packets, 1);
        assert_eq!(since.plus(&before), counts);
        let reasons: Vec<_> = counts.iter().map(|(reason, _)| reason.name()).collect();
        assert_eq!(reasons, ["new", "lost", "last-call"]);
    }
}
