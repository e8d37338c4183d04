//! SRT in live mode, sans-IO: the driver hands in time and datagrams, and takes datagrams, payloads
//! and the time of the next call.
//!
//! A [`Caller`] has one [`Connection`]. A [`Listener`] has many at one port, and asks its driver
//! about each caller, by the stream ID. Payloads leave a [`Connection`] by their timestamps, as the
//! latency says.
//!
//! ```text
//!            induction, conclusion                      admit(stream ID)
//!  Caller ─────────────────────────── Listener ──────────────────────────── driver
//!    │                                   │
//!    └── Connection ── data, ACK, NAK ── Connection ── payloads, each at its time
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `wire.rs`, `wire/` | packets as bytes |
//! | `caller.rs`, `listener.rs`, `negotiation.rs`, `cookie.rs` | handshakes |
//! | `connection.rs`, `connection/` | a connection: timers, acknowledgements, reports, its end |
//! | `send_buffer.rs`, `pacer.rs` | packets that leave, and leave again |
//! | `receive_buffer.rs`, `missing.rs`, `tsbpd.rs` | packets that arrive, are missing and are due |
//! | `overtaking.rs` | retransmissions that are lost |
//! | `crypto.rs`, `sending_keys.rs` | encryption, change of keys |
//! | `rtt.rs`, `statistics.rs` | round-trip time, counters |
//! | `stream_id.rs` | forms of stream IDs |
//!
//! Sources: draft-sharabayko-srt-01, whose sections are cited as §, and the behaviour of libsrt
//! 1.5.1. File mode, stream mode, packet filters (FEC), bonding groups, rendezvous and AES-GCM are
//! absent; handshakes that ask for them are refused by their [`Rejection`].
//!
//! *Deviations* from libsrt: a missing packet is asked for again when packets arrive that left
//! after its retransmission, instead of in half of the longest round trip; the first and the last
//! packet in flight are sent again if no acknowledgement comes; an announced key is used only after
//! the peer has acknowledged it; capacity is not estimated by packet pairs;
//! [`Connection::finish`] delays the shutdown until the peer has delivered the last payload.

mod caller;
mod connection;
mod cookie;
mod crypto;
mod entropy;
mod listener;
mod missing;
mod negotiation;
mod overtaking;
mod pacer;
mod receive_buffer;
mod rejection;
mod rtt;
mod send_buffer;
mod sending_keys;
mod settings;
mod statistics;
mod stream_id;
#[cfg(test)]
mod tests;
mod tsbpd;
pub mod wire;

pub use caller::Caller;
pub use connection::{CloseReason, Connection, SendError};
pub use entropy::{Entropy, SECRET_BYTES};
pub use listener::{
    Admit, ConnectionId, Event, Listener, MAX_BUFFERED_BYTES, MAX_CONNECTIONS, Request,
};
pub use receive_buffer::Delivered;
pub use rejection::Rejection;
pub use settings::{KeyLength, KeyRefresh, MaxBandwidth, Passphrase, Settings};
pub use statistics::Statistics;
pub use stream_id::stream_names;
