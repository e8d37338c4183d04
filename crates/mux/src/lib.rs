//! Many streams of bytes in one session of messages, sans-IO.
//!
//! The session below carries each message once, whole and in any order: a lost one holds up only
//! the stream that it belongs to. Each stream has an order, a window and an end of its own in each
//! direction.
//!
//! ```text
//!  write, finish, reset ─▶ ┌─────┐ next_message ─▶ ╔═════════╗ ─▶ handle_message ┌─────┐ ─▶ read
//!                          │ Mux │                 ║ session ║                   │ Mux │
//!  read ◀───────────────── └─────┘ ◀────────────── ╚═════════╝ ◀──────────────── └─────┘ ◀─ write
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `mux.rs` | all streams of a session: whose turn it is, what a message does |
//! | `send.rs`, `receive.rs` | the two halves of a stream |
//! | `peer_ids.rs` | which streams the peer has opened, though messages overtake one another |
//! | `message.rs` | messages as bytes |
//!
//! Streams and their windows are as QUIC's (RFC 9000 §2–4), over messages as SCTP's, which may
//! arrive in any order (RFC 9260 §6.6).

mod message;
mod mux;
mod peer_ids;
mod receive;
mod send;

pub use message::{MAX_HEADER_BYTES, StreamId};
pub use mux::{Event, Limits, Mux, OpenError, Role, StreamError, Violation};
