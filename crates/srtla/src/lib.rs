//! The receiver of SRTLA, sans-IO: it takes time and datagrams, and returns datagrams and their
//! destinations.
//!
//! SRTLA carries the datagrams of one SRT connection over several links. Its receiver is a relay:
//! datagrams from the links go to an SRT listener, by a socket of its own for each sender, and the
//! listener's answers go back.
//!
//! ```text
//!  link ─┐             ┌──────────┐              ┌──────────────┐
//!  link ─┼─ datagrams ─┤ Receiver ├─ one socket ─┤ SRT listener │
//!  link ─┘             └──────────┘   a group    └──────────────┘
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `wire.rs` | the few fields that a receiver reads, and its answers as bytes |
//! | `names.rs` | names of groups, which prove their senders' addresses before anything is kept |
//! | `group_limits.rs` | the number of groups, and which one gives way to another |
//! | `receiver.rs` | groups of links: registration, acknowledgements, timeouts |
//!
//! The protocol has no specification. This crate follows its implementations: BELABOX/srtla (the
//! first one; registration, an acknowledgement of ten packets, times), irlserver/srtla (answers of
//! 32 bytes, groups that were not accepted give way to new ones) and irlserver/srtla_send
//! (keepalives of 10 and 38 bytes).

mod group_limits;
mod names;
mod receiver;
mod sender;
mod srt;
mod wire;

pub use group_limits::{GroupId, MAX_GROUPS, MAX_GROUPS_OF_NETWORK};
pub use names::SECRET_BYTES;
pub use receiver::{Event, LinkSummary, MAX_LINKS, Receiver, Taken};
pub use sender::{
    LinkCounters, LinkId, LinkOptions, LinkReport, LinkState, Sender, SenderCounters, SenderEvent,
    Transmit,
};
pub use wire::{ID_BYTES, SenderInfo};
