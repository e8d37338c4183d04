//! Sessions of any load as a server holds them, and their start.

use core::fmt;
use std::sync::{Arc, OnceLock};

use crate::session_parameters::SessionKind;
use anabranch_core::{Config, ConfigError, Session as Endpoint};
use anabranch_secure::{PROTECTION_OVERHEAD_BYTES, PublicKey, Session};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::driver::{Authentic, Beginning, Driver};
use crate::event::Ended;
use crate::event_queue::EventSender;
use crate::load::{Frames, Load};
use crate::peer_sockets::Peer;
use crate::port::Port;
use crate::snapshot::Snapshot;
use crate::socket::Arrival;

/// A server's view of a session; [`Driver`] documents the methods.
pub(crate) trait Served: fmt::Debug + Send {
    fn session_kind(&self) -> SessionKind;
    fn peer(&self) -> PublicKey;
    fn heard_at(&self) -> Instant;
    fn may_have_data(&self) -> bool;
    fn add_proven_peers(&self, peers: &mut Vec<Peer>);
    fn receive_adopting(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) -> bool;
    fn adopt(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>);
    fn advance(&mut self, now: Instant, ports: &[Port], events: &EventSender) -> Option<Ended>;
    fn next_at(&self) -> Option<Instant>;
    fn snapshot(&mut self, now: Instant) -> Snapshot;
    fn target_bitrate(&self) -> DataRate;
    fn frames(&mut self) -> Option<&mut Driver<Frames>>;
    fn close(&mut self, now: Instant);
    fn end(self: Box<Self>) -> Session;
}

impl<L: Load + fmt::Debug> Served for Driver<L> {
    fn session_kind(&self) -> SessionKind {
        L::SESSION_KIND
    }

    fn peer(&self) -> PublicKey {
        Driver::peer(self)
    }

    fn heard_at(&self) -> Instant {
        Driver::heard_at(self)
    }

    fn may_have_data(&self) -> bool {
        Driver::may_have_data(self)
    }

    fn add_proven_peers(&self, peers: &mut Vec<Peer>) {
        let coalesces = L::COALESCES;
        let addresses = self.proven_addresses();
        peers.extend(addresses.map(|address| Peer { address, coalesces }));
    }

    fn receive_adopting(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) -> bool {
        Driver::receive_adopting(self, now, arrival, datagram)
    }

    fn adopt(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>) {
        Driver::adopt(self, now, arrival, authentic);
    }

    fn advance(&mut self, now: Instant, ports: &[Port], events: &EventSender) -> Option<Ended> {
        Driver::advance(self, now, ports, events)
    }

    fn next_at(&self) -> Option<Instant> {
        Driver::next_at(self)
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        Driver::snapshot(self, now)
    }

    fn target_bitrate(&self) -> DataRate {
        Driver::target_bitrate(self)
    }

    fn frames(&mut self) -> Option<&mut Driver<Frames>> {
        Driver::frames(self)
    }

    fn close(&mut self, now: Instant) {
        Driver::close(self, now);
    }

    fn end(self: Box<Self>) -> Session {
        Driver::end(*self)
    }
}

/// Receivers of a session's events.
#[derive(Clone, Debug)]
pub(crate) struct Audience {
    pub(crate) events: EventSender,
    /// The session's last state.
    pub(crate) last: Arc<OnceLock<Snapshot>>,
}

impl Audience {
    pub(crate) fn new(events: EventSender) -> Self {
        Audience {
            events,
            last: Arc::default(),
        }
    }
}

/// Properties of a session that is about to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) peer: PublicKey,
    pub(crate) index: u32,
    pub(crate) latency: Option<Duration>,
    pub(crate) takes_requests: bool,
}

/// A session that has begun, and its audience.
type Begun = (Box<dyn Served>, Audience);

/// A kind of session that a server accepts.
pub(crate) struct Offer {
    session_kind: SessionKind,
    transport: Config,
    /// Reassembly wait that replaces the latency agreed on.
    reassembly_wait: Option<Duration>,
    prepare: fn(&mut Config, u32),
    begin: Box<dyn FnMut(Beginning) -> Begun + Send>,
}

impl Offer {
    /// Creates an offer of sessions with this set-up, whose loads and audiences are made by `make`.
    ///
    /// # Errors
    /// The set-up cannot work.
    pub(crate) fn new<L: Load + fmt::Debug>(
        transport: Config,
        mut make: impl FnMut(&Opening) -> (L, Audience) + Send + 'static,
    ) -> Result<Offer, ConfigError> {
        Endpoint::<L::Content>::new(transport.clone(), Seed(0), Instant::ZERO)?;
        Ok(Offer {
            session_kind: L::SESSION_KIND,
            transport,
            reassembly_wait: None,
            prepare: L::prepare_server,
            begin: Box::new(move |beginning| -> Begun {
                let (load, audience) = make(&Opening {
                    peer: beginning.peer,
                    index: beginning.session.local_index(),
                    latency: beginning.latency,
                    takes_requests: beginning.takes_requests,
                });
                let driver = Driver::new(beginning, load)
                    .expect("the transport's set-up was checked at the start");
                (Box::new(driver), audience)
            }),
        })
    }

    /// Sets the time for which an incomplete frame delays the frames after it, whatever latency is
    /// agreed on.
    pub(crate) fn set_reassembly_wait(&mut self, wait: Option<Duration>) {
        self.reassembly_wait = wait;
        if let Some(wait) = wait {
            self.transport.media.reassembly_wait = wait;
        }
    }

    pub(crate) fn session_kind(&self) -> SessionKind {
        self.session_kind
    }

    /// Returns the transport's set-up for a peer whose packets have `header_bytes` of headers and
    /// with whom `latency` was agreed on.
    pub(crate) fn transport(&self, header_bytes: u32, latency: Option<Duration>) -> Config {
        let mut config = self.transport.clone();
        if let Some(latency) = latency {
            config.media.deadline = latency;
            config.media.reassembly_wait = self.reassembly_wait.unwrap_or(latency);
        }
        config.overhead_bytes = header_bytes + PROTECTION_OVERHEAD_BYTES as u32;
        (self.prepare)(&mut config, header_bytes);
        config
    }

    pub(crate) fn begin(&mut self, beginning: Beginning) -> Begun {
        (self.begin)(beginning)
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("session_kind", &self.session_kind)
            .finish_non_exhaustive()
    }
}
