//! The end that waits for sessions of streams, and of datagrams.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_core::Config;
use anabranch_mux::{Budget, Role};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::{Duration, Lateness};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{ByteStream, SERVER_BUDGET_BYTES, Shared, Streams, default_stream_transport};
use crate::datagrams::{AcceptedDatagrams, Datagrams, datagram_transport};
use crate::event_queue::{self, Events};
use crate::pairing::PairingOutcome;
use crate::runtime::Runtime;
use crate::served::{Audience, Offer};
use crate::server::{
    LocalAddresses, RefusedSender, Relayed, ServerBuilder, ServerConfig, ServerRole, Serves,
    SessionLimit, sealed,
};
use crate::snapshot::Snapshot;
use crate::start_error::StartError;
use crate::surroundings::Surroundings;

/// A stream that a client has opened.
#[derive(Debug)]
pub struct Accepted {
    /// Public key of the peer.
    pub peer: PublicKey,
    /// The stream.
    pub stream: ByteStream,
}

/// A running server. Dropping it notifies its clients, and ends their streams.
#[derive(Debug)]
pub struct StreamServer {
    runtime: Runtime<ServerRole>,
    local: LocalAddresses,
}

/// A server with the queues of accepted streams and datagrams, and its events.
pub type Started = (
    StreamServer,
    UnboundedReceiver<Accepted>,
    UnboundedReceiver<AcceptedDatagrams>,
    Events,
);

impl StreamServer {
    /// Returns a builder of a server. It has the controller `bbr3` and the scheduler of streams.
    pub fn builder() -> ServerBuilder<StreamServer> {
        ServerBuilder::new()
    }

    /// Opens the socket and starts the thread. Streams that clients open are queued: as many may
    /// wait as sessions may have open.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(
        config: ServerConfig,
    ) -> Result<(StreamServer, UnboundedReceiver<Accepted>, Events), StartError> {
        let (server, accepted, _, events) = StreamServer::start_both(config, None)?;
        Ok((server, accepted, events))
    }

    /// Does the same as [`start`](Self::start), also for sessions of datagrams with the set-up
    /// `datagrams`: these come from the second queue.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start_with_datagrams(
        config: ServerConfig,
        datagrams: Config,
    ) -> Result<Started, StartError> {
        StreamServer::start_both(config, Some(datagrams))
    }

    fn start_both(config: ServerConfig, datagrams: Option<Config>) -> Result<Started, StartError> {
        let (ports, local) = config.open()?;
        let surroundings = Surroundings::of(&config.network, config.clock);
        let (events, receiver) = event_queue::queue();
        let (queue, accepted) = mpsc::unbounded_channel();
        let (datagram_queue, accepted_datagrams) = mpsc::unbounded_channel();
        let relayed = Relayed::of(&ports);
        let runtime = Runtime::start_with("streams", surroundings, ports, |waker| {
            let (streams_waker, streams_events) = (Arc::clone(&waker), events.clone());
            let budget = Budget::new(SERVER_BUDGET_BYTES);
            let streams = Offer::new(config.transport.clone(), move |opening| {
                let shared = Shared::new(Role::Server, budget.clone(), Arc::clone(&streams_waker));
                let streams = Streams::new(shared, Some((opening.peer, queue.clone())));
                (streams, Audience::new(streams_events.clone()))
            })?;
            let mut offers = vec![streams];
            if let Some(transport) = datagrams {
                offers.push(Offer::new(transport, move |opening| {
                    let waker = Arc::clone(&waker);
                    let datagrams = Datagrams::accept(opening.peer, waker, &datagram_queue);
                    (datagrams, Audience::new(events.clone()))
                })?);
            }
            Ok(ServerRole::new(config, relayed, offers))
        })?;
        let server = StreamServer { runtime, local };
        Ok((server, accepted, accepted_datagrams, receiver))
    }

    /// Returns the local address, whose port is never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.udp
    }

    /// Returns the address for TCP connections, if it accepts any; the port is never 0.
    pub fn local_tcp_addr(&self) -> Option<SocketAddr> {
        self.local.tcp
    }

    /// Returns the newest session's present or last state.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.with_role(ServerRole::snapshot)
    }

    /// Returns the present state of all sessions.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.runtime.with_role(ServerRole::snapshots)
    }

    /// Returns the last state of the session of the oldest [`Event::Ended`](crate::Event::Ended),
    /// once for each such event, in their order. Keeps the last 16 that were not taken.
    pub fn take_ended(&self) -> Option<Snapshot> {
        self.runtime.with_role(|role, _| role.take_ended())
    }

    /// Sets the keys whose owners are admitted; sessions of others end.
    pub fn set_allowed(&self, allowed: &[PublicKey]) {
        self.runtime
            .change(|role, now| role.set_allowed(now, allowed));
    }

    /// Sets the groups with a common limit; see [`ServerConfig::session_limits`]. Present sessions
    /// stay.
    pub fn set_session_limits(&self, limits: Vec<SessionLimit>) {
        self.runtime
            .change(|role, _| role.set_session_limits(limits));
    }

    /// Lets in the first client that has `code`, until `lasts` is over; see
    /// [`Receiver::start_pairing`](crate::Receiver::start_pairing).
    pub fn start_pairing(&self, code: PairingCode, lasts: impl Into<Duration>) {
        let lasts = lasts.into();
        self.runtime
            .change(|role, now| role.start_pairing(now, code, lasts));
    }

    /// Takes a pairing code back.
    pub fn stop_pairing(&self, code: &PairingCode) {
        self.runtime.change(|role, _| role.stop_pairing(code));
    }

    /// Takes the outcomes of pairing codes since the last call.
    pub fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        self.runtime.with_role(ServerRole::take_pairing_outcomes)
    }

    /// Takes the clients that requested a session since the last call and got none.
    pub fn take_refused_senders(&self) -> Vec<RefusedSender> {
        self.runtime
            .with_role(|role, _| role.take_refused_senders())
    }

    /// Returns the delays of the thread that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Notifies the clients that this server leaves, and stops listening.
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

impl Serves for StreamServer {}

impl sealed::Serves for StreamServer {
    type Started = (StreamServer, UnboundedReceiver<Accepted>, Events);

    fn transport() -> Option<Config> {
        Some(default_stream_transport())
    }

    fn start(config: ServerConfig) -> Result<Self::Started, StartError> {
        StreamServer::start(config)
    }
}

impl ServerBuilder<StreamServer> {
    /// Does the same as [`start`](Self::start), also for sessions of datagrams that are worthless
    /// after `deadline`: these come from the second queue.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start_with_datagrams(
        self,
        deadline: impl Into<Duration>,
    ) -> Result<Started, StartError> {
        let datagrams = datagram_transport(deadline.into());
        StreamServer::start_with_datagrams(self.build()?, datagrams)
    }
}
