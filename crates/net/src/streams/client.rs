//! The end that opens a session of streams, and streams in it.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::Config;
use anabranch_mux::{Budget, Role};
use anabranch_units::Lateness;

use super::{ByteStream, CLIENT_BUDGET_BYTES, Shared, Streams, default_stream_transport};
use crate::client::{ClientBuilder, ClientConfig, ClientRole, Opens, sealed};
use crate::event_queue::{self, Events};
use crate::runtime::Runtime;
use crate::snapshot::Snapshot;
use crate::start_error::StartError;
use crate::surroundings::Surroundings;

/// Reason for which no stream was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no session: wait for [`Event::Connected`](crate::Event::Connected).
    #[error("there is no session yet")]
    NotConnected,
    /// The maximum number of streams is open, or the session is over.
    #[error(transparent)]
    Refused(#[from] anabranch_mux::OpenError),
}

/// A running client. Its streams end when it is dropped, or when its session is lost; others can be
/// opened once there is a new session.
#[derive(Debug)]
pub struct StreamClient {
    runtime: Runtime<ClientRole<Streams>>,
    /// The streams of the newest session.
    newest: Arc<Mutex<Option<Arc<Shared>>>>,
}

impl StreamClient {
    /// Returns a builder of a client. It has the controller `bbr3` and the scheduler of streams.
    pub fn builder() -> ClientBuilder<StreamClient> {
        ClientBuilder::new()
    }

    /// Opens the sockets, starts the thread and the handshake, as
    /// [`Sender::start`](crate::Sender::start) does.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(config: ClientConfig) -> Result<(StreamClient, Events), StartError> {
        let mut ports = config.open_ports()?;
        for port in &mut ports {
            port.coalesce();
        }
        let surroundings = Surroundings::of(&config.network, config.clock);
        let (events, receiver) = event_queue::queue();
        let newest = Arc::<Mutex<Option<Arc<Shared>>>>::default();
        let kept = Arc::clone(&newest);
        let runtime = Runtime::start_with("streams", surroundings, ports, |waker| {
            let woken = Arc::clone(&waker);
            ClientRole::new(
                config,
                events,
                Box::new(move || {
                    let budget = Budget::new(CLIENT_BUDGET_BYTES);
                    let shared = Shared::new(Role::Client, budget, Arc::clone(&woken));
                    let mut newest = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    *newest = Some(Arc::clone(&shared));
                    Streams::new(shared, None)
                }),
                waker,
            )
        })?;
        Ok((StreamClient { runtime, newest }, receiver))
    }

    /// Opens a stream. Its first bytes announce it to the server.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self) -> Result<ByteStream, OpenError> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = newest.as_ref().ok_or(OpenError::NotConnected)?;
        let id = shared.act(|state| state.mux.open())?;
        Ok(ByteStream::new(Arc::clone(shared), id))
    }

    /// Returns the session's present or last state; its counts include those of earlier sessions.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.with_role(ClientRole::snapshot)
    }

    /// Returns the delays of the thread that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Ends the session once all written bytes have arrived, at the latest after
    /// [`ClientConfig::drain_timeout`]. [`Event::Ended`](crate::Event::Ended) reports the end.
    pub fn close(&self) {
        self.runtime.change(|role, now| role.close(now));
    }
}

impl Drop for StreamClient {
    fn drop(&mut self) {
        self.runtime.change(|role, _| role.abandon());
        let _ = self.runtime.join();
    }
}

impl Opens for StreamClient {}

impl sealed::Opens for StreamClient {
    fn transport() -> Option<Config> {
        Some(default_stream_transport())
    }

    fn start(config: ClientConfig) -> Result<(Self, Events), StartError> {
        StreamClient::start(config)
    }
}
