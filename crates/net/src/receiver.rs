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
use crate::server::{
    LocalAddresses, PairingOutcome, Places, RefusedSender, ServerConfig, ServerRole,
};
use crate::snapshot::Snapshot;

use reception::Begun;
pub use reception::{Reception, ReturnPath};

/// A running receiver. Dropping it notifies its peers and waits for the thread.
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
    /// [`StartError`]; no thread remains.
    pub fn start(config: ServerConfig) -> Result<(Receiver, Receptions), StartError> {
        let (ports, local) = config.open()?;
        let clock = config.clock;
        let (begun, queue) = mpsc::channel();
        let mut offer = Offer::new(config.transport.clone(), move |opening| {
            let (events, reader) = event_queue::queue();
            let audience = Audience::new(events);
            // An owner that has gone takes no more sessions.
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

    /// Returns the local address, whose port is never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.udp
    }

    /// Returns the address for TCP connections, if it accepts any; the port is never 0.
    pub fn local_tcp_addr(&self) -> Option<SocketAddr> {
        self.local.tcp
    }

    /// Returns the newest session's present or last state; before the first, the counts of
    /// datagrams dropped at the socket.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.look(ServerRole::snapshot)
    }

    /// Returns the present state of all sessions.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.runtime.look(ServerRole::snapshots)
    }

    /// Returns the delays of the thread that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Sets the keys whose owners are admitted; sessions of others end.
    pub fn set_allowed(&self, allowed: &[PublicKey]) {
        self.runtime
            .change(|role, now| role.set_allowed(now, allowed));
    }

    /// Sets the groups that share places; see [`ServerConfig::places`]. Present sessions stay.
    pub fn set_places(&self, places: Vec<Places>) {
        self.runtime.change(|role, _| role.set_places(places));
    }

    /// Lets in the first sender that has `code`, until `lasts` is over; an earlier code is void.
    pub fn start_pairing(&self, code: PairingCode, lasts: Duration) {
        self.runtime
            .change(|role, now| role.start_pairing(now, code, lasts));
    }

    /// Takes the outcomes of pairing codes since the last call.
    pub fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        self.runtime.look(ServerRole::take_pairing_outcomes)
    }

    /// Takes the senders that requested a session since the last call and got none.
    pub fn take_refused_senders(&self) -> Vec<RefusedSender> {
        self.runtime.look(|role, _| role.take_refused_senders())
    }

    /// Notifies the peers that this receiver leaves, and stops listening. Each session's
    /// [`Event::Ended`](crate::Event::Ended) marks its end. A sender's stream continues with the
    /// next receiver of the same key and address.
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
    /// If none began in time, or the receiver is over.
    pub fn recv_timeout(
        &self,
        patience: core::time::Duration,
    ) -> Result<Reception, RecvTimeoutError> {
        let begun = self.queue.recv_timeout(patience);
        begun.map(|begun| self.reception(begun))
    }

    /// Returns the next session, if there is one.
    ///
    /// # Errors
    /// If there is none now, or the receiver is over.
    pub fn try_recv(&self) -> Result<Reception, TryRecvError> {
        self.queue.try_recv().map(|begun| self.reception(begun))
    }

    fn reception(&self, begun: Begun) -> Reception {
        Reception::new(begun, self.handle.clone())
    }
}
