//! Who wants to hear of every packet
//! ([decision 173](../../../docs/decisions/0173-what-is-seen-from-outside.md)).

use core::fmt;

use anabranch_core::{FrameId, PathId, SendReason};
use anabranch_secure::{Cargo, PublicKey};
use anabranch_units::Instant;

/// Hears of the packets of all sessions of an end, in the thread that serves its sockets: what it
/// does must be quick and must not wait. Without one nothing is done for it.
pub trait PacketObserver: fmt::Debug + Send + Sync {
    /// Something happened to a packet.
    fn on_packet(&self, event: &PacketEvent);
}

/// Something that happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// When, by the end's clock. A paced packet's is the moment that the pacer gave it.
    pub at: Instant,
    /// Who is at the other end.
    pub peer: PublicKey,
    /// What the session carries.
    pub cargo: Cargo,
    /// The packet's path.
    pub path: PathId,
    /// What it is.
    pub news: PacketNews,
}

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketNews {
    /// It left.
    Sent {
        /// Counts the datagrams of the path in this session, as its header says; both ends know it.
        number: u64,
        /// Of UDP's payload: packet protection included, headers of IP and UDP not.
        bytes: usize,
        /// Why.
        reason: SendReason,
        /// Which fragment of which frame it carries, if any.
        fragment: Option<(FrameId, u16)>,
    },
    /// It arrived and is authentic.
    Received {
        /// As in [`Sent`](Self::Sent).
        number: u64,
        /// As in [`Sent`](Self::Sent).
        bytes: usize,
    },
    /// Packets of the path count as lost. Which they are is not told.
    Lost {
        /// How many.
        count: u64,
    },
}
