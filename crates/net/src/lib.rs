//! The UDP runtime: sans-IO sessions over real sockets.
//!
//! A [`Sender`] opens a session with a [`Receiver`] and sends it frames over one or more paths,
//! each with a socket of its own. A [`StreamClient`] opens [`ByteStream`]s to a [`StreamServer`] in
//! the same way. Each runs in a thread of its own and reports [`Event`]s.
//!
//! Programs use the crate `anabranch`, which re-exports this one. Start at [`Sender::builder`] and
//! [`Receiver::builder`]; [`ClientBuilder`] has an example of both ends.
//!
//! ```text
//!                 ┌ core ─────┐   ┌ secure ─┐   ┌ sockets ─────────────────┐
//! send_frame ───▶ │ Session   │──▶│ Session │──▶│ batches (GSO)            │──▶
//! events ◀─────── │ of frames │◀──│ of keys │◀──│ marks, kernel's stamps   │◀──
//!                 └───────────┘   └─────────┘   └──────────────────────────┘
//! ```
//!
//! The thread waits by `ppoll`, exactly until the session's next timer: an asynchronous runtime's
//! timers are too coarse for a pacer. The session spaces packets by exact gaps; packets due within
//! 250 µs leave together.
//!
//! Errors of sockets are no errors of a session. A path that cannot be sent on is silent, and the
//! transport notices the silence, or is notified by the port.

// The files:
//
// | file | idea |
// |---|---|
// | `client.rs`, `server.rs` | the two roles: the time before, between and after sessions |
// | `sender.rs`, `receiver.rs` | the roles with frames |
// | `streams.rs`, `streams/` | the roles with streams of bytes, which tasks read and write |
// | `client/builder.rs`, `server/builder.rs` | set-ups by the wishes of their owners |
// | `handshake.rs` | the client's way to a session, and to another when that falls silent |
// | `session_parameters.rs` | kind and latency, as the handshake carries them |
// | `displaced.rs` | notices to senders that another has displaced |
// | `driver.rs` | a session that is up: endpoint, packet protection and routes |
// | `load.rs`, `streams.rs`, `datagrams.rs` | the loads of sessions |
// | `served.rs` | sessions of any load as a server holds them |
// | `runtime.rs` | the thread: wait, receive, advance |
// | `outbox.rs` | sealed datagrams, grouped into batches |
// | `carrier.rs` | the protocols that carry datagrams |
// | `accept.rs` | the ports of accepted TCP connections, and their number |
// | `io.rs` | the network: the operating system's, or a world's in memory |
// | `surroundings.rs` | network and clock of an end, with randomness and names |
// | `plain_socket.rs`, `worker.rs` | sockets and threads for other protocols, in both networks |
// | `port.rs` | the local side of a path, whose interface may vanish and return |
// | `listen.rs` | listening sockets, of both kinds of IP |
// | `system.rs`, `system/` | the operating system's part: one file for each |
// | `socket.rs` | one UDP socket with batches in and out |
// | `handshake_limiter.rs` | limits on the public-key work of a receiver |
// | `tcp.rs`, `tcp/` | TCP connections instead, where UDP is blocked |
// | `peer_sockets.rs` | a queue of the kernel's own for each peer |
// | `via.rs` | the interface or address by which a path leaves this machine |
// | `route.rs`, `driver/reachability.rs` | the destination of a path's datagrams, and its changes |
// | `start_error.rs` | reasons for which an end did not start |
// | `event.rs`, `event_queue.rs`, `snapshot.rs` | the owner's events and counters |
// | `watched.rs`, `server/watch.rs` | events of all sessions of a receiver |
// | `key_file.rs` | files of secret keys |
// | `clock.rs`, `random.rs` | the only places with a clock, and with the system's randomness |
// | `testing.rs`, `testing/` | worlds in memory, for tests |
// | `waker.rs` | waking the thread |

mod accept;
mod carrier;
mod client;
mod clock;
mod datagrams;
mod displaced;
mod driver;
mod event;
mod event_queue;
mod frame_writer;
pub mod fuzzing;
mod handshake;
mod handshake_limiter;
mod io;
mod key_file;
mod link;
pub mod listen;
mod load;
mod names;
mod observer;
mod outbox;
mod own_socket;
mod pairing;
mod peer_sockets;
mod plain_socket;
mod port;
mod random;
mod receiver;
pub(crate) mod relay;
mod remote;
mod roster;
mod route;
mod runtime;
mod search;
mod sender;
mod served;
mod server;
mod session_parameters;
mod snapshot;
mod socket;
mod start_error;
mod streams;
mod surroundings;
pub mod system;
mod tcp;
#[cfg(feature = "testing")]
pub mod testing;
mod via;
mod waker;
mod watched;
pub mod words;
mod worker;

pub use anabranch_mux::OpenError as RefusedStream;
pub use carrier::Carrier;
pub use client::{ClientBuilder, ClientConfig, ClientPath, ConnectError, Opens};
pub use clock::{Clock, Reading};
pub use datagrams::{
    AcceptedDatagrams, DEFAULT_DATAGRAM_DEADLINE, DatagramChannel, DatagramClient, DatagramOptions,
    MAX_UNDIVIDED_BYTES, datagram_transport,
};
pub use event::{Ended, Event, Refused};
pub use event_queue::{Events, SessionOver};
pub use frame_writer::FrameWriter;
pub use io::Network;
pub use key_file::{KeyFileError, read_or_create_key};
pub use link::{LinkCap, LinkReport};
pub use names::ResolveError;
pub use observer::{PacketEvent, PacketEventKind, PacketObserver};
pub use own_socket::OwnSocket;
pub use pairing::PairingOutcome;
pub use plain_socket::PlainSocket;
pub use receiver::{Receiver, Reception, Receptions, ReturnPath};
pub use relay::{Relay, RelayAccess, RelayConfig, RelaySnapshot, RelayState, RelayedReceiver};
pub use remote::{HostName, Remote, RemoteError};
pub use roster::{PathPlace, PresentPath, Roster, Vacancy};
pub use sender::{SendError, Sender};
pub use server::{
    RefusedSender, ServerBuilder, ServerConfig, Serves, SessionLimit, SessionWatch, WatchedEvent,
    WatchedEvents,
};
pub use session_parameters::{SessionKind, SessionParameters};
pub use snapshot::{EdgeCounters, PathSnapshot, Snapshot};
pub use start_error::StartError;
pub use streams::{
    Accepted, ByteStream, OpenError, Started, StreamClient, StreamReader, StreamServer,
    StreamWriter, stream_transport,
};
pub use surroundings::{OnAddresses, Surroundings};
pub use tcp::TcpFallback;
pub use via::{Via, ViaError, interfaces, mark_sockets};
pub use watched::WatchedSession;
pub use worker::{Work, Worker, WorkerWaker};
