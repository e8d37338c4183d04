//! The end that waits for sessions and receives frames, of many senders at a time.

mod reception;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvError, RecvTimeoutError, TryRecvError};

use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::{Duration, Lateness};

use crate::client::StartError;
use crate::event_queue;
use crate::load::Frames;
use crate::runtime::{Handle, Runtime};
use crate::served::{Audience, Offer};
use crate::server::{LocalAddresses, PairingNews, Places, ServerConfig, ServerRole, TurnedAway};
use crate::snapshot::Snapshot;

use reception::Begun;
pub use reception::{Reception, ReturnPath};

/// A running receiver. Dropping it tells its peers that it goes away and waits for the thread.
#[derive(Debug)]
pub struct Receiver {
    runtime: Runtime<ServerRole>,
    local: LocalAddresses,
}

/// The sessions that senders open, in the order in which they begin.
#[derive(Debug)]
pub struct Receptions {
    queue: mpsc::Receiver<Begun>,
    handle: Handle<ServerRole>,
}

impl Receiver {
    /// Opens the socket and starts the thread.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: ServerConfig) -> Result<(Receiver, Receptions), StartError> {
        let (ports, local) = config.open()?;
        let clock = config.clock;
        let (begun, queue) = mpsc::channel();
        let mut offer = Offer::new(config.transport.clone(), move |opening| {
            let (events, reader) = event_queue::queue();
            let audience = Audience::new(events);
            // An owner that went away takes no more.
            let _ = begun.send(Begun {
                peer: opening.peer,
                index: opening.index,
                latency: opening.latency,
                events: reader,
                last: Arc::clone(&audience.last),
            });
            (Frames, audience)
        })?;
        offer.set_reassembly_wait(config.reassembly_wait);
        let role = ServerRole::new(config, vec![offer]);
        let runtime = Runtime::start("receiver", clock, ports, role)?;
        let handle = runtime.handle();
        Ok((Receiver { runtime, local }, Receptions { queue, handle }))
    }

    /// Where it listens, the port never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.udp
    }

    /// Where it accepts TCP connections, if it does; the port is never 0.
    pub fn local_tcp_addr(&self) -> Option<SocketAddr> {
        self.local.tcp
    }

    /// The newest session as it is, or was when it ended; before the first, what was dropped at the
    /// socket.
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

    /// Lets in the owners of these keys from now on, and nobody else: sessions of others end.
    pub fn set_allowed(&self, allowed: &[PublicKey]) {
        self.runtime
            .change(|role, now| role.set_allowed(now, allowed));
    }

    /// Shares places in this way from now on; see [`ServerConfig::places`]. Sessions that there are
    /// stay.
    pub fn set_places(&self, places: Vec<Places>) {
        self.runtime.change(|role, _| role.set_places(places));
    }

    /// Lets in the first sender that has `code`, until `lasts` is over; an earlier code is void.
    pub fn start_pairing(&self, code: PairingCode, lasts: Duration) {
        self.runtime
            .change(|role, now| role.start_pairing(now, code, lasts));
    }

    /// What became of pairing codes since the last call.
    pub fn take_pairing_news(&self) -> Vec<PairingNews> {
        self.runtime.look(ServerRole::take_pairing_news)
    }

    /// Senders that asked for a session since the last call and got none.
    pub fn take_turned_away(&self) -> Vec<TurnedAway> {
        self.runtime.look(|role, _| role.take_turned_away())
    }

    /// Tells the peers that this receiver goes away and stops listening. Each session's
    /// [`Event::Ended`](crate::Event::Ended) tells when it is done. A sender's stream goes on with
    /// the next receiver of the same key and address.
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

impl Receptions {
    /// Waits for the next session.
    ///
    /// # Errors
    /// The receiver is over.
    pub fn recv(&self) -> Result<Reception, RecvError> {
        self.queue.recv().map(|begun| self.reception(begun))
    }

    /// Waits for the next session for `patience` at most.
    ///
    /// # Errors
    /// None came in time, or the receiver is over.
    pub fn recv_timeout(
        &self,
        patience: core::time::Duration,
    ) -> Result<Reception, RecvTimeoutError> {
        let begun = self.queue.recv_timeout(patience);
        begun.map(|begun| self.reception(begun))
    }

    /// The next session, if there is one.
    ///
    /// # Errors
    /// There is none now, or the receiver is over.
    pub fn try_recv(&self) -> Result<Reception, TryRecvError> {
        self.queue.try_recv().map(|begun| self.reception(begun))
    }

    fn reception(&self, begun: Begun) -> Reception {
        Reception::new(begun, self.handle.clone())
    }
}
