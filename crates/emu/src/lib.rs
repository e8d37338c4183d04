//! Emulation: the elements of [`anabranch_link`] in real time, between sockets or interfaces.
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
//! | `port.rs` | one link of UDP: two sockets and the two directions between them |
//! | `packet_port.rs` | one link of IP: two interfaces and the two directions between them |
//! | `interface.rs` | TUN interfaces, and packet sockets on virtual Ethernet |
//! | `ip.rs` | fields of IP packets, and a router's answers |
//! | `network.rs` | two namespaces, and an interface in each for every path |
//! | `namespace.rs` | network namespaces without names |
//! | `listeners.rs` | ports at which programs listen in a namespace |
//! | `program.rs` | programs in a network's namespaces |
//! | `recorder.rs` | the packets' fates, for another thread |
//! | `release_error.rs` | the lateness of departures |
//! | `real_time.rs` | requests for exact times |
//! | `damage.rs` | copies of packets, and wrong bytes |
//! | `direction.rs` | one direction: datagrams in, a link, datagrams out |
//! | `socket.rs` | a UDP socket that reads and sets the ECN field |
//! | `bell.rs` | waking the thread |
//! | `clock.rs` | the only place that reads the clock |
//!
//! On Linux, [`Relay::between_interfaces`] carries packets of IP between network interfaces, in
//! network namespaces that [`namespace`] makes.
//!
//! A relay is a router: datagrams keep their ECN field, and disciplines may mark it. Disciplines
//! that queue by flow see every source, address and port, as a flow.
//!
//! Times are as exact as the operating system wakes a thread: a datagram leaves no earlier than its
//! link permits, and on an idle machine some tens of microseconds later. The lateness of one does
//! not move the next, since links act as of the instants at which their steps were due.

#[cfg(target_os = "linux")]
mod address_plan;
mod bell;
mod clock;
mod config;
#[cfg(target_os = "linux")]
mod damage;
mod direction;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod ip;
#[cfg(target_os = "linux")]
mod listeners;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod packet_port;
mod port;
#[cfg(target_os = "linux")]
mod program;
mod real_time;
#[cfg(target_os = "linux")]
mod recorder;
mod relay;
mod release_error;
mod socket;
mod worker;

#[cfg(target_os = "linux")]
pub use address_plan::{AddressPlan, Ends};
pub use config::{LinkDirection, RelayConfig, RelayError, RelayLink};
#[cfg(target_os = "linux")]
pub use damage::Damage;
pub use direction::{DirectionStatistics, RelayLinkStatistics};
#[cfg(target_os = "linux")]
pub use interface::{Frames, PacketSocket, TunInterface};
#[cfg(target_os = "linux")]
pub use network::{InterfaceKind, Network, NetworkConfig, NetworkError};
#[cfg(target_os = "linux")]
pub use packet_port::PacketLink;
#[cfg(target_os = "linux")]
pub use program::{End, Program, ProgramConfig, ProgramError};
#[cfg(target_os = "linux")]
pub use recorder::{PacketEvent, PacketFate, Recorder};
pub use relay::Relay;
pub use release_error::{MAX_RELEASE_ERROR, ReleaseErrors};
