//! The end that waits for a session and receives frames, of one sender at a time.

use std::net::SocketAddr;

use anabranch_units::Lateness;

use crate::client::StartError;
#[cfg(doc)]
use crate::event::Event;
use crate::event_queue::{self, Events};
use crate::load::Frames;
use crate::port::Port;
use crate::runtime::Runtime;
use crate::served::Offer;
use crate::server::{ServerConfig, ServerRole};
use crate::snapshot::Snapshot;

/// A running receiver. Dropping it tells the peer that it goes away and waits for the thread.
#[derive(Debug)]
pub struct Receiver {
    runtime: Runtime<ServerRole>,
    local_addr: SocketAddr,
}

impl Receiver {
    /// Opens the socket and starts the thread. Each session that comes brings [`Event::Connected`]
    /// first and [`Event::Ended`] last.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: ServerConfig) -> Result<(Receiver, Events), StartError> {
        let (socket, local_addr) = config.open()?;
        let clock = config.clock;
        let (events, receiver) = event_queue::queue();
        let offer = Offer::new(config.transport.clone(), |_| Frames)?;
        let role = ServerRole::new(config, events, vec![offer]);
        let runtime = Runtime::start("receiver", clock, vec![Port::fixed(socket)], role)?;
        Ok((
            Receiver {
                runtime,
                local_addr,
            },
            receiver,
        ))
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

    /// How late the machine let the thread get to its work, in the worse of the last two seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// The session that [`Event::Ended`] told of, as it was at its end; for each such event, in
    /// their order, once. Of the last 16 that nobody asked for.
    pub fn take_ended(&self) -> Option<Snapshot> {
        self.runtime.look(|role, _| role.take_ended())
    }

    /// Tells the peer that this receiver goes away and stops listening. [`Event::Ended`] tells when
    /// it is done. The sender's stream goes on with the next receiver of the same key and address.
    pub fn close(&self) {
        self.runtime.change(|role, _| role.close());
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.close();
        let _ = self.runtime.join();
    }
}
