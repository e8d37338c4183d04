//! Peers that come by a relay: their datagrams are unwrapped before the role sees them, and the
//! port wraps those to them.

use core::ops::Range;

use anabranch_secure::SecretKey;
use anabranch_units::{Ecn, Instant};

use super::ServerConfig;
use crate::peer_sockets::Peer;
use crate::port::Port;
use crate::relay::uplink::{SharedUplink, Uplink, canonical};
use crate::relay::{RelayAccess, RelayState};
use crate::socket::{Arrival, Batch};
use crate::start_error::StartError;
use crate::via::Via;

impl ServerConfig {
    /// Opens the port to the relay, if there is one.
    pub(super) fn open_relay(&self) -> Result<Option<Port>, StartError> {
        let Some(access) = &self.relay else {
            return Ok(None);
        };
        let socket = self.network.open(&Via::DefaultRoute, access.address)?;
        // The key has one more holder, in this program.
        let local =
            SecretKey::from_text(&self.local_key.to_text()).expect("a key reads as it is written");
        let access = RelayAccess {
            address: access.address,
            key: access.key,
            code: access.code.clone(),
        };
        let uplink = SharedUplink::new(Uplink::new(local, access));
        Ok(Some(Port::relayed(socket, uplink)))
    }
}

/// The port to the relay, and its registration.
#[derive(Debug)]
pub(crate) struct Relayed {
    port: usize,
    uplink: SharedUplink,
    /// Number of the last change of the peers' proven addresses.
    version: Option<u64>,
}

impl Relayed {
    /// Finds the port to the relay.
    pub(crate) fn of(ports: &[Port]) -> Option<Relayed> {
        let mut ports = ports.iter().enumerate();
        let (port, uplink) = ports.find_map(|(index, port)| Some((index, port.uplink()?)))?;
        Some(Relayed {
            port,
            uplink: uplink.clone(),
            version: None,
        })
    }

    pub(super) fn state(&self) -> RelayState {
        self.uplink.lock().state()
    }

    /// Returns whether a datagram has come by the relay's port.
    pub(super) fn is_by(&self, arrival: &Arrival) -> bool {
        arrival.socket == self.port
    }

    /// Returns the arrival of the datagram within one of the relay's, and its position.
    pub(super) fn unwrap(
        &self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
    ) -> Option<(Arrival, Range<usize>)> {
        let (from, inner) = self.uplink.lock().receive(now, arrival.from, datagram)?;
        let arrival = Arrival {
            from,
            to: None,
            ..*arrival
        };
        Some((arrival, inner))
    }

    /// Performs due steps, and takes over which addresses are proven. Returns the time of the next
    /// step.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        (version, peers): (u64, &[Peer]),
        is_over: bool,
        ports: &[Port],
    ) -> Instant {
        let mut uplink = self.uplink.lock();
        if self.version.replace(version) != Some(version) {
            let its = peers.iter().filter(|peer| peer.address.socket == self.port);
            uplink.set_proven(its.map(|peer| canonical(peer.address.peer)).collect());
        }
        if is_over {
            uplink.close();
        }
        let next_at = uplink.advance(now);
        for datagram in uplink.take_outgoing() {
            // A lost one is sent again.
            let _ = ports[self.port].send_by_udp(&Batch {
                to: uplink.address(),
                from: None,
                ecn: Ecn::NotEct,
                bytes: &datagram,
                datagram_bytes: datagram.len(),
            });
        }
        next_at
    }
}
