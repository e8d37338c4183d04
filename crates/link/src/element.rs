//! The interface that all link elements share.

use anabranch_units::{Duration, Instant};

use crate::packet::Packet;

/// A part of a network that takes packets in and gives them back later, or loses them.
///
/// The driver's loop: [`push`](Element::push) each arriving packet; at
/// [`next_at`](Element::next_at), or later, [`pop`](Element::pop) until `None`; after either,
/// [`take_dropped`](Element::take_dropped) until `None`. No packet vanishes: each that is pushed
/// comes back from exactly one of the three.
///
/// Instants never go back from call to call. A late call changes neither the losses nor any later
/// time: an element acts as of the instants at which its steps were due.
pub trait Element {
    /// Takes a packet in at `now`, or drops it immediately.
    ///
    /// # Errors
    /// The packet itself and why the element refused it.
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped>;

    /// Gives back the next packet that has left by `now`, in the order of leaving.
    fn pop(&mut self, now: Instant) -> Option<Packet>;

    /// Returns the next packet that will leave before `before`, and its departure time, if no push
    /// from `now` on can change them: only a delay lies ahead of it. A driver with a known
    /// look-ahead takes packets in batches this way. They leave in order.
    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)>;

    /// Returns the earliest instant at which a packet may leave or be dropped; `None` if no packet
    /// inside ever will. No packet need leave then (it may be lost on its way out), but once `pop`
    /// of that instant has returned `None`, `next_at` is later. A pushed packet may bring it
    /// forward.
    fn next_at(&self) -> Option<Instant>;

    /// Gives back a packet that was taken in and lost later.
    fn take_dropped(&mut self) -> Option<Dropped> {
        None
    }

    /// Brings the state up to `now` without giving anything back.
    fn advance(&mut self, _now: Instant) {}

    /// Empties the element at `now` and appends all its packets to `lost`. Packets that left before
    /// must have been popped.
    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>);

    /// Returns the number of packets inside: pushed, not yet popped, not dropped.
    fn held_packets(&self) -> usize;

    /// Returns the least time that any packet spends inside, at any time. A driver derives from it
    /// how far it can look ahead.
    fn min_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns an instant before which no packet leaves that enters at `entry` or later. With it, a
    /// chain sleeps while a packet only moves from one of its elements to the next.
    fn earliest_exit(&self, entry: Instant) -> Instant {
        entry
    }
}

/// A packet that was lost, where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Reason for the drop.
    pub cause: DropCause,
    /// Time of the drop.
    pub at: Instant,
    /// The packet.
    pub packet: Packet,
}

/// Reason for which a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// The queue had no room for the packet.
    QueueFull,
    /// A random loss: noise, interference, a loss model.
    RandomLoss,
    /// The packet was on the link, or arrived at it, while the link was down.
    Outage,
    /// The queue's discipline chose it, although there was room.
    EarlyDrop,
    /// The packet was longer than the link's MTU.
    TooLarge,
}

impl DropCause {
    /// Every cause, in the order of their counters.
    pub const ALL: [DropCause; 5] = [
        DropCause::QueueFull,
        DropCause::RandomLoss,
        DropCause::Outage,
        DropCause::EarlyDrop,
        DropCause::TooLarge,
    ];

    /// Returns the name that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::QueueFull => "queue full",
            DropCause::RandomLoss => "random loss",
            DropCause::Outage => "outage",
            DropCause::EarlyDrop => "early drop",
            DropCause::TooLarge => "too large",
        }
    }
}
