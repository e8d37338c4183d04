//! The end that opens a session of datagrams.

use std::sync::Arc;

use anabranch_core::Config;
use anabranch_units::{Duration, Lateness};

use super::{DEFAULT_DATAGRAM_DEADLINE, DatagramChannel, Datagrams, Shared, datagram_transport};
use crate::client::{ClientBuilder, ClientConfig, ClientRole, Opens, sealed};
use crate::event_queue::{self, Events};
use crate::runtime::Runtime;
use crate::snapshot::Snapshot;
use crate::start_error::StartError;
use crate::surroundings::Surroundings;

/// A running client. Its channel continues when a session is lost and replaced; datagrams sent
/// meanwhile are dropped.
#[derive(Debug)]
pub struct DatagramClient {
    runtime: Runtime<ClientRole<Datagrams>>,
    channel: DatagramChannel,
}

impl DatagramClient {
    /// Returns a builder of a client. Its datagrams expire after
    /// [`DEFAULT_DATAGRAM_DEADLINE`](crate::DEFAULT_DATAGRAM_DEADLINE).
    pub fn builder() -> ClientBuilder<DatagramClient> {
        ClientBuilder::new()
    }

    /// Opens the sockets, starts the thread and the handshake, as
    /// [`Sender::start`](crate::Sender::start) does.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(config: ClientConfig) -> Result<(DatagramClient, Events), StartError> {
        let ports = config.open_ports()?;
        let surroundings = Surroundings::of(&config.network, config.clock);
        let (events, receiver) = event_queue::queue();
        let mut channel = None;
        let runtime = Runtime::start_with("datagrams", surroundings, ports, |waker| {
            let shared = Shared::new(Arc::clone(&waker));
            channel = Some(DatagramChannel {
                shared: Arc::clone(&shared),
            });
            ClientRole::new(
                config,
                events,
                Box::new(move || Datagrams::begin(Arc::clone(&shared), false)),
                waker,
            )
        })?;
        let channel = channel.expect("the role was made");
        Ok((DatagramClient { runtime, channel }, receiver))
    }

    /// Returns the channel to the server and back.
    pub fn channel(&self) -> &DatagramChannel {
        &self.channel
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

    /// Ends the session once all datagrams have arrived or been given up, at the latest after
    /// [`ClientConfig::drain_timeout`]. [`Event::Ended`](crate::Event::Ended) reports the end.
    pub fn close(&self) {
        self.runtime.change(|role, now| role.close(now));
    }
}

impl Drop for DatagramClient {
    fn drop(&mut self) {
        self.runtime.change(|role, _| role.abandon());
        let _ = self.runtime.join();
        self.channel.shared.end();
    }
}

impl Opens for DatagramClient {}

impl sealed::Opens for DatagramClient {
    fn transport() -> Option<Config> {
        Some(datagram_transport(DEFAULT_DATAGRAM_DEADLINE))
    }

    fn start(config: ClientConfig) -> Result<(Self, Events), StartError> {
        DatagramClient::start(config)
    }
}

impl ClientBuilder<DatagramClient> {
    /// Sets the time after which datagrams are worthless. Those with a shorter lifetime of their
    /// own expire earlier ([`DatagramOptions`](crate::DatagramOptions)). Default:
    /// [`DEFAULT_DATAGRAM_DEADLINE`].
    #[must_use]
    pub fn deadline(self, deadline: impl Into<Duration>) -> Self {
        let deadline = deadline.into();
        self.configure(move |config| config.transport = datagram_transport(deadline))
    }
}
