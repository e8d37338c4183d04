//! Sessions as a server holds them, whatever they carry, and how they begin.

use core::fmt;

use anabranch_core::{Config, ConfigError, Session as Endpoint};
use anabranch_secure::{Cargo, PROTECTION_OVERHEAD_BYTES, PublicKey, Session};
use anabranch_units::{Instant, Seed};

use crate::driver::{Authentic, Beginning, Driver};
use crate::event::Ended;
use crate::event_queue::EventSender;
use crate::lanes::Peer;
use crate::load::Load;
use crate::port::Port;
use crate::snapshot::Snapshot;
use crate::socket::Arrival;

/// What a server asks of a session; [`Driver`] has the words.
pub(crate) trait Served: fmt::Debug + Send {
    fn cargo(&self) -> Cargo;
    fn peer(&self) -> PublicKey;
    fn session_index(&self) -> u32;
    fn heard_at(&self) -> Instant;
    fn add_proven_peers(&self, peers: &mut Vec<Peer>);
    fn receive_adopting(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]);
    fn adopt(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>);
    fn advance(&mut self, now: Instant, ports: &[Port], events: &mut EventSender) -> Option<Ended>;
    fn next_at(&self) -> Option<Instant>;
    fn snapshot(&mut self, now: Instant) -> Snapshot;
    fn close(&mut self, now: Instant);
    fn end(self: Box<Self>) -> Session;
}

impl<L: Load + fmt::Debug> Served for Driver<L> {
    fn cargo(&self) -> Cargo {
        L::CARGO
    }

    fn peer(&self) -> PublicKey {
        Driver::peer(self)
    }

    fn session_index(&self) -> u32 {
        Driver::session_index(self)
    }

    fn heard_at(&self) -> Instant {
        Driver::heard_at(self)
    }

    fn add_proven_peers(&self, peers: &mut Vec<Peer>) {
        let coalesces = L::COALESCES;
        peers.extend(
            self.proven_addresses()
                .map(|address| Peer { address, coalesces }),
        );
    }

    fn receive_adopting(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) {
        Driver::receive_adopting(self, now, arrival, datagram);
    }

    fn adopt(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>) {
        Driver::adopt(self, now, arrival, authentic);
    }

    fn advance(&mut self, now: Instant, ports: &[Port], events: &mut EventSender) -> Option<Ended> {
        Driver::advance(self, now, ports, events)
    }

    fn next_at(&self) -> Option<Instant> {
        Driver::next_at(self)
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        Driver::snapshot(self, now)
    }

    fn close(&mut self, now: Instant) {
        Driver::close(self, now);
    }

    fn end(self: Box<Self>) -> Session {
        Driver::end(*self)
    }
}

type Begin = Box<dyn FnMut(Beginning) -> Box<dyn Served> + Send>;

/// One kind of session that a server takes.
pub(crate) struct Offer {
    cargo: Cargo,
    transport: Config,
    prepare: fn(&mut Config, u32),
    begin: Begin,
}

impl Offer {
    /// Sessions with this set-up, whose loads are made by the peer.
    ///
    /// # Errors
    /// The set-up cannot work.
    pub(crate) fn new<L: Load + fmt::Debug>(
        transport: Config,
        mut make_load: impl FnMut(PublicKey) -> L + Send + 'static,
    ) -> Result<Offer, ConfigError> {
        Endpoint::<L::Content>::new(transport.clone(), Seed(0), Instant::ZERO)?;
        let begin = move |beginning: Beginning| -> Box<dyn Served> {
            let load = make_load(beginning.peer);
            let driver = Driver::new(beginning, load);
            Box::new(driver.expect("the transport's set-up was checked at the start"))
        };
        Ok(Offer {
            cargo: L::CARGO,
            transport,
            prepare: L::prepare_server,
            begin: Box::new(begin),
        })
    }

    pub(crate) fn cargo(&self) -> Cargo {
        self.cargo
    }

    /// The transport's set-up for a peer whose packets have so many bytes of headers.
    pub(crate) fn transport(&self, header_bytes: u32) -> Config {
        let mut config = self.transport.clone();
        config.overhead_bytes = header_bytes + PROTECTION_OVERHEAD_BYTES as u32;
        (self.prepare)(&mut config, header_bytes);
        config
    }

    pub(crate) fn begin(&mut self, beginning: Beginning) -> Box<dyn Served> {
        (self.begin)(beginning)
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("cargo", &self.cargo)
            .finish_non_exhaustive()
    }
}
