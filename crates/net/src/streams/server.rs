//! The end that waits for sessions of streams.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_mux::Role;
use anabranch_secure::PublicKey;
use anabranch_units::Lateness;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{ByteStream, Shared, Streams};
use crate::client::StartError;
use crate::event_queue::{self, Events};
use crate::port::Port;
use crate::runtime::Runtime;
use crate::server::{ServerConfig, ServerRole};
use crate::snapshot::Snapshot;

/// A stream that a client has opened.
#[derive(Debug)]
pub struct Accepted {
    /// Who.
    pub peer: PublicKey,
    /// The stream.
    pub stream: ByteStream,
}

/// A running server. Dropping it tells its clients that it goes away, and ends their streams.
#[derive(Debug)]
pub struct StreamServer {
    runtime: Runtime<ServerRole<Streams>>,
    local_addr: SocketAddr,
}

impl StreamServer {
    /// Opens the socket and starts the thread. Streams that clients open come from the queue: as
    /// many may wait as sessions may have open.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(
        config: ServerConfig,
    ) -> Result<(StreamServer, UnboundedReceiver<Accepted>, Events), StartError> {
        let (socket, local_addr) = config.open::<Streams>()?;
        let clock = config.clock;
        let (events, receiver) = event_queue::queue();
        let (queue, accepted) = mpsc::unbounded_channel();
        let ports = vec![Port::fixed(socket)];
        let runtime = Runtime::start_with("streams", clock, ports, |waker| {
            let make_load = move |peer| {
                let shared = Shared::new(Role::Server, Arc::clone(&waker));
                Streams::new(shared, Some((peer, queue.clone())))
            };
            Ok(ServerRole::new(config, events, Box::new(make_load)))
        })?;
        let server = StreamServer {
            runtime,
            local_addr,
        };
        Ok((server, accepted, receiver))
    }

    /// Where it listens, the port never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The newest session as it is, or was when it ended.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.look(ServerRole::snapshot)
    }

    /// The sessions as they are.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.runtime.look(ServerRole::snapshots)
    }

    /// The session that [`Event::Ended`](crate::Event::Ended) told of, as it was at its end; for
    /// each such event, in their order, once. Of the last 16 that nobody asked for.
    pub fn take_ended(&self) -> Option<Snapshot> {
        self.runtime.look(|role, _| role.take_ended())
    }

    /// How late the machine let the thread get to its work, in the worse of the last two seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Tells the clients that this server goes away and stops listening.
    pub fn close(&self) {
        self.runtime.change(|role, _| role.close());
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.close();
        let _ = self.runtime.join();
    }
}
