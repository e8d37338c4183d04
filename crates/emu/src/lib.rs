//! Emulation: the elements of [`anabranch_link`] in real time, between real sockets.
//!
//! A [`Relay`] is a set of links, each a UDP address to send to. Datagrams from a client go through
//! the link's forward direction to its target; the target's answers come back through the reverse
//! direction. It needs no privileges and no network namespaces, and any program that speaks UDP can
//! be put behind it.
//!
//! ```text
//! client ⇄ listen ── forward: Link ──▶ upstream ⇄ target
//!                 ◀── reverse: Link ──
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `config.rs` | the set-up of a relay, and reasons for which it may not start |
//! | `relay.rs` | the handle of a running relay |
//! | `worker.rs` | the thread that waits for all of a relay's links at once |
//! | `port.rs` | one link: two sockets and the two directions between them |
//! | `direction.rs` | one direction: datagrams in, a link, datagrams out |
//! | `socket.rs` | a UDP socket that reads and sets the ECN field |
//! | `clock.rs` | the only place that reads the clock |
//!
//! A relay is a router: datagrams keep their ECN field, and disciplines may mark it. Disciplines
//! that queue by flow see every source, address and port, as a flow.
//!
//! Times are as exact as the operating system wakes a thread: a datagram leaves no earlier than its
//! link permits, and on an idle machine some tens of microseconds later. The lateness of one does
//! not move the next, since links act as of the instants at which their steps were due.

mod clock;
mod config;
mod direction;
mod port;
mod relay;
mod socket;
mod worker;

pub use config::{LinkDirection, RelayConfig, RelayError, RelayLink};
pub use direction::DirectionStatistics;
pub use port::RelayLinkStatistics;
pub use relay::Relay;
