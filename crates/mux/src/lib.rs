//! Many streams of bytes in one session of messages, sans-IO.
//!
//! The session below carries each message once, whole and in any order: a lost one delays only the
//! stream that it belongs to. Each stream has an order, a window and an end of its own in each
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
//! | `mux.rs` | all streams of a session: their turns, and the effects of messages |
//! | `send.rs`, `receive.rs` | the two halves of a stream |
//! | `limits.rs` | limits on a session's memory |
//! | `session_window.rs` | the bytes that the peer may have in all streams, and in all sessions |
//! | `chunks.rs` | bytes for a reader; short messages share memory |
//! | `peer_ids.rs` | the streams that the peer has opened, though messages overtake one another |
//! | `message.rs` | messages as bytes |
//! | `violation.rs` | violations of the protocol by a peer |
//!
//! Streams and their windows are like QUIC's (RFC 9000 §2–4). They run over messages like SCTP's,
//! which may arrive in any order (RFC 9260 §6.6).

mod chunks;
mod limits;
mod message;
mod mux;
mod peer_ids;
mod receive;
mod send;
mod session_window;
mod violation;

pub use limits::Limits;
pub use message::{MAX_HEADER_BYTES, StreamId};
pub use mux::{Event, Mux, OpenError, Role, StreamError};
pub use session_window::Budget;
pub use violation::Violation;
