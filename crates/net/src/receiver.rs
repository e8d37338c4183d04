//! The end that waits for sessions and receives frames, of many senders at a time.

mod reception;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};

use anabranch_core::Config;
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::{Duration, Lateness, SharedMemory};

use crate::event_queue;
use crate::load::Frames;
use crate::pairing::PairingOutcome;
use crate::relay::RelayState;
use crate::runtime::{Handle, Runtime};
use crate::served::{Audience, Offer};
use crate::server::{
    LocalAddresses, RefusedSender, Relayed, ServerBuilder, ServerConfig, ServerRole, Serves,
    SessionLimit, SessionWatcher, sealed,
};
use crate::snapshot::Snapshot;
use crate::start_error::StartError;
use crate::surroundings::Surroundings;
use crate::watched::WatchedSession;

use reception::Begun;
pub use reception::{Reception, ReturnPath};

/// Memory of media of all sessions: of frames that are not whole or wait for others, and of events
/// that wait for their reader. Chosen: eight senders can have 64 MiB of each at a time.
const MEDIA_BYTES: usize = 1 << 30;

/// A running receiver. Dropping it notifies its peers and waits for the thread.
#[derive(Debug)]
pub struct Receiver {
    runtime: Runtime<ServerRole>,
    local: LocalAddresses,
}

/// The sessions that senders open, in the order in which they begin.
#[derive(Debug)]
pub struct Receptions {
    queue: flume::Receiver<Begun>,
    handle: Handle<ServerRole>,
}

impl Receiver {
    /// Returns a builder of a receiver.
    pub fn builder() -> ServerBuilder<Receiver> {
        ServerBuilder::new()
    }

    /// Opens the socket and starts the thread.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(config: ServerConfig) -> Result<(Receiver, Receptions), StartError> {
        let (ports, local) = config.open()?;
        let surroundings = Surroundings::of(&config.network, config.clock);
        let (begun, queue) = flume::unbounded();
        let memory = SharedMemory::new(MEDIA_BYTES);
        let mut transport = config.transport.clone();
        transport.media.memory = memory.clone();
        let watch = config.watch.clone();
        let mut session_count = 0;
        let mut offer = Offer::new(transport, move |opening| {
            let (mut events, reader) = event_queue::queue_within(memory.share());
            let number = session_count;
            session_count += 1;
            if let Some(watch) = &watch {
                let peer = opening.peer;
                events.set_watcher(Arc::new(SessionWatcher {
                    watch: watch.clone(),
                    session: WatchedSession { number, peer },
                }));
            }
            let audience = Audience::new(events);
            // An owner that has gone takes no more sessions.
            let _ = begun.send(Begun {
                peer: opening.peer,
                number,
                index: opening.index,
                latency: opening.latency,
                takes_requests: opening.takes_requests,
                events: reader,
                last: Arc::clone(&audience.last),
            });
            (Frames, audience)
        })?;
        offer.set_reassembly_wait(config.reassembly_wait);
        let role = ServerRole::new(config, Relayed::of(&ports), vec![offer]);
        let runtime = Runtime::start("receiver", surroundings, ports, role)?;
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

    /// Returns the state of the registration at the relay; `None` without a relay.
    pub fn relay_state(&self) -> Option<RelayState> {
        self.runtime.with_role(|role, _| role.relay_state())
    }

    /// Returns the newest session's present or last state; before the first, the counts of
    /// datagrams dropped at the socket.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.with_role(ServerRole::snapshot)
    }

    /// Returns the present state of all sessions.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.runtime.with_role(ServerRole::snapshots)
    }

    /// Returns the sizes of the tables that peers and strangers could fill.
    #[cfg(feature = "testing")]
    pub fn tables(&self) -> crate::testing::Tables {
        self.runtime.with_role(|role, _| role.tables())
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

    /// Sets the groups with a common limit; see [`ServerConfig::session_limits`]. Present sessions
    /// stay.
    pub fn set_session_limits(&self, limits: Vec<SessionLimit>) {
        self.runtime
            .change(|role, _| role.set_session_limits(limits));
    }

    /// Sets the latency that later sessions have at least.
    pub fn set_latency(&self, latency: impl Into<Duration>) {
        let latency = latency.into();
        self.runtime.change(|role, _| role.set_latency(latency));
    }

    /// Lets in the first sender that has `code`, until `lasts` is over. Several codes may wait for
    /// their senders; of more than 64, the oldest expire.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use anabranch_net::{PairingOutcome, Receiver, Sender};
    /// use anabranch_secure::{PairingCode, SecretKey};
    ///
    /// let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
    /// let (camera_name, studio_name) = (camera.public_key(), studio.public_key());
    /// // The studio allows no key, and shows a code.
    /// let (receiver, sessions) = Receiver::builder().key(studio).listen("127.0.0.1:0").start()?;
    /// let code = PairingCode::generate();
    /// receiver.start_pairing(code.clone(), Duration::from_secs(60));
    ///
    /// let (_sender, _events) = Sender::builder()
    ///     .key(camera)
    ///     .peer(studio_name)
    ///     .to(receiver.local_addr())
    ///     .pairing_code(code)
    ///     .connect()?;
    /// assert_eq!(sessions.recv()?.peer(), camera_name);
    /// // From now on the camera is allowed; a program stores its key.
    /// assert!(matches!(receiver.take_pairing_outcomes()[..], [PairingOutcome::Paired { .. }]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_pairing(&self, code: PairingCode, lasts: impl Into<Duration>) {
        let lasts = lasts.into();
        self.runtime
            .change(|role, now| role.start_pairing(now, code, lasts));
    }

    /// Takes a pairing code back, which is not in
    /// [`take_pairing_outcomes`](Self::take_pairing_outcomes) then.
    pub fn stop_pairing(&self, code: &PairingCode) {
        self.runtime.change(|role, _| role.stop_pairing(code));
    }

    /// Takes the outcomes of pairing codes since the last call.
    pub fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        self.runtime.with_role(ServerRole::take_pairing_outcomes)
    }

    /// Takes the senders that requested a session since the last call and got none.
    pub fn take_refused_senders(&self) -> Vec<RefusedSender> {
        self.runtime
            .with_role(|role, _| role.take_refused_senders())
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
    /// Waits for the next session, and blocks the thread.
    ///
    /// # Errors
    /// The receiver is over: it was closed or dropped.
    pub fn recv(&self) -> Result<Reception, RecvError> {
        let begun = self.queue.recv().map_err(|_| RecvError)?;
        Ok(self.reception(begun))
    }

    /// Waits for the next session, under any asynchronous runtime. Dropping the future loses none.
    ///
    /// # Errors
    /// The receiver is over: it was closed or dropped.
    pub async fn recv_async(&self) -> Result<Reception, RecvError> {
        let begun = self.queue.recv_async().await.map_err(|_| RecvError)?;
        Ok(self.reception(begun))
    }

    /// Waits for the next session for `patience` at most.
    ///
    /// # Errors
    /// If none began in time, or the receiver is over.
    pub fn recv_timeout(
        &self,
        patience: core::time::Duration,
    ) -> Result<Reception, RecvTimeoutError> {
        match self.queue.recv_timeout(patience) {
            Ok(begun) => Ok(self.reception(begun)),
            Err(flume::RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
            Err(flume::RecvTimeoutError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Returns the next session, if there is one.
    ///
    /// # Errors
    /// If there is none now, or the receiver is over.
    pub fn try_recv(&self) -> Result<Reception, TryRecvError> {
        match self.queue.try_recv() {
            Ok(begun) => Ok(self.reception(begun)),
            Err(flume::TryRecvError::Empty) => Err(TryRecvError::Empty),
            Err(flume::TryRecvError::Disconnected) => Err(TryRecvError::Disconnected),
        }
    }

    /// Waits for each session until the receiver is over.
    pub fn iter(&self) -> impl Iterator<Item = Reception> {
        core::iter::from_fn(|| self.recv().ok())
    }

    fn reception(&self, begun: Begun) -> Reception {
        Reception::new(begun, self.handle.clone())
    }
}

impl Serves for Receiver {}

impl sealed::Serves for Receiver {
    type Started = (Receiver, Receptions);

    fn transport() -> Option<Config> {
        None
    }

    fn start(config: ServerConfig) -> Result<Self::Started, StartError> {
        Receiver::start(config)
    }
}

impl ServerBuilder<Receiver> {
    /// Sets the wished latency: the delay of media beyond the fastest path's delay. Both ends agree
    /// on the larger of their values, for which the receiver waits for missing fragments. Default:
    /// no wish; without one at either end, it waits for 500 ms.
    #[must_use]
    pub fn latency(self, latency: impl Into<Duration>) -> Self {
        let latency = latency.into();
        self.configure(move |config| config.latency = Some(latency))
    }
}
