//! The UDP runtime: sans-IO sessions over real sockets.
//!
//! A [`Sender`] opens a session with a [`Receiver`] and sends it frames over one or more paths,
//! each with a socket of its own. A [`StreamClient`] opens [`ByteStream`]s to a [`StreamServer`] in
//! the same way. Each runs in a thread of its own and tells what happens as [`Event`]s.
//!
//! ```text
//!                 ┌ core ─────┐   ┌ secure ─┐   ┌ sockets ─────────────────┐
//! send_frame ───▶ │ Endpoint  │──▶│ Session │──▶│ batches (GSO)            │──▶
//! events ◀─────── │           │◀──│         │◀──│ marks, kernel's stamps   │◀──
//!                 └───────────┘   └─────────┘   └──────────────────────────┘
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `client.rs`, `server.rs` | the two roles: what comes before, between and after sessions |
//! | `load.rs` | what sessions carry, as the roles see it |
//! | `sender.rs`, `receiver.rs` | the roles with frames |
//! | `streams.rs`, `streams/` | the roles with streams of bytes, which tasks read and write |
//! | `handshake.rs` | how a client comes to a session, and to another when that falls silent |
//! | `displaced.rs` | telling a sender that another has taken its place |
//! | `driver.rs` | a session that is up: endpoint, packet protection and routes |
//! | `load.rs`, `streams.rs`, `datagrams.rs` | what a session carries |
//! | `served.rs` | sessions as a server holds them, whatever they carry |
//! | `runtime.rs` | the thread: wait, receive, advance |
//! | `outbox.rs` | sealed datagrams, grouped into batches |
//! | `port.rs` | the local side of a path, whose interface may come and go |
//! | `socket.rs` | one UDP socket with batches in and out |
//! | `gate.rs` | who may make a receiver do public-key work, and how often |
//! | `tcp.rs`, `tcp/` | TCP connections instead, where UDP is blocked |
//! | `lanes.rs` | a queue of the kernel's own for each peer |
//! | `via.rs` | what a path leaves this machine by |
//! | `route.rs`, `driver/reachability.rs` | where a path's datagrams go, and when that may change |
//! | `event.rs`, `event_queue.rs`, `snapshot.rs` | what the owner is told, and can look at |
//! | `clock.rs`, `random.rs` | the only places with a clock, and with the system's chance |
//! | `waker.rs` | waking the thread |
//!
//! The thread waits by `ppoll`, exactly until the endpoint's next moment: an asynchronous runtime's
//! timers are too coarse for a pacer. The endpoint spaces packets by exact gaps; what is due within
//! 250 µs leaves together.
//!
//! Errors of sockets are no errors of a session: a path that cannot be sent on is silent, and the
//! transport notices silence, or is told of what a port has noticed.

mod client;
mod clock;
mod datagrams;
mod displaced;
mod driver;
mod event;
mod event_queue;
pub mod fuzzing;
mod gate;
mod handshake;
mod lanes;
mod link;
mod load;
mod names;
mod observer;
mod outbox;
mod port;
mod random;
mod receiver;
mod remote;
mod route;
mod runtime;
mod search;
mod sender;
mod served;
mod server;
mod snapshot;
mod socket;
mod streams;
mod tcp;
mod via;
mod waker;

pub use anabranch_mux::OpenError as RefusedStream;
pub use client::{ClientConfig, ClientPath, StartError};
pub use clock::{Clock, Reading};
pub use datagrams::{
    AcceptedDatagrams, DATAGRAM_FRAGMENT_BYTES, DatagramChannel, DatagramClient, datagram_transport,
};
pub use event::{Ended, Event, Refused};
pub use event_queue::Events;
pub use link::{LinkCap, LinkReport};
pub use observer::{PacketEvent, PacketNews, PacketObserver};
pub use receiver::{Receiver, Reception, Receptions, ReturnPath};
pub use remote::{HostName, Remote, RemoteError};
pub use sender::{SendError, Sender};
pub use server::{PairingNews, Places, ServerConfig, TurnedAway};
pub use snapshot::{EdgeCounters, PathSnapshot, Snapshot};
pub use streams::{
    Accepted, ByteStream, OpenError, Started, StreamClient, StreamReader, StreamServer,
    StreamWriter, stream_transport,
};
pub use tcp::{Carrier, TcpFallback};
pub use via::{Via, ViaError, interfaces};
