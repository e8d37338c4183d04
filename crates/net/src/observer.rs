//! Observers of every packet ([decision
//! 173](../../../docs/decisions/0173-what-is-seen-from-outside.md)).

use core::fmt;

use crate::session_parameters::SessionKind;
use anabranch_core::{FrameId, PathId, SendReason};
use anabranch_secure::PublicKey;
use anabranch_units::Instant;

/// Observer of the packets of all sessions of an end. It runs in the thread that serves the
/// sockets, so it must be quick and must not wait. Without an observer there is no cost.
pub trait PacketObserver: fmt::Debug + Send + Sync {
    /// Handles an event of a packet.
    fn on_packet(&self, event: &PacketEvent);
}

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Time by the end's clock. For a paced packet, it is the time set by the pacer.
    pub at: Instant,
    /// Public key of the other end.
    pub peer: PublicKey,
    /// Kind of the session.
    pub session_kind: SessionKind,
    /// The packet's path.
    pub path: PathId,
    /// The packet's event.
    pub kind: PacketEventKind,
}

/// Events of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEventKind {
    /// The packet left.
    Sent {
        /// Number of the datagram on its path in this session, from its header; both ends know it.
        number: u64,
        /// Bytes of UDP's payload: with packet protection, without headers of IP and UDP.
        bytes: usize,
        /// Reason for sending it.
        reason: SendReason,
        /// Frame and index of the fragment that it carries, if any.
        fragment: Option<(FrameId, u16)>,
    },
    /// The packet arrived and is authentic.
    Received {
        /// Number as in [`Sent`](Self::Sent).
        number: u64,
        /// Bytes as in [`Sent`](Self::Sent).
        bytes: usize,
    },
    /// Packets of the path count as lost; the event does not name them.
    Lost {
        /// Number of packets.
        count: u64,
    },
}
