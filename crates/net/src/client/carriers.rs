//! The carriers of a client's paths: UDP, or TCP where UDP is blocked.

use std::net::SocketAddr;

use anabranch_core::PathId;
use anabranch_units::Instant;

use super::ClientRole;
use crate::carrier::Carrier;
use crate::event::Event;
use crate::handshake::Handshake;
use crate::load::Load;
use crate::port::Port;
use crate::tcp::TcpFallback;
use crate::tcp::dial::{Carriers, Dial};
use crate::tcp::fallback::FallbackEvent;

impl<L: Load> ClientRole<L> {
    /// Returns the start of the wait for an answer on any path, if a packet was sent.
    fn unanswered_since(&self) -> Option<Instant> {
        let handshake = self.handshake.as_ref();
        match &self.driver {
            Some(_) if self.closing_at.is_some() => None,
            // A receiver that refuses another session has answered, too.
            Some(driver) => {
                let answered_at = handshake.and_then(Handshake::answered_at);
                driver
                    .unanswered_since()
                    .map(|since| since.max(answered_at.unwrap_or(since)))
            }
            None => handshake.and_then(Handshake::unanswered_since),
        }
    }

    /// Returns the TCP destination of a path.
    fn tcp_remote(&self, index: usize) -> Option<SocketAddr> {
        let mut remote = self.paths.address(index)?;
        match self.config.tcp {
            TcpFallback::Off => return None,
            TcpFallback::Port(port) => remote.set_port(port),
            TcpFallback::Only => {}
        }
        Some(remote)
    }

    /// Decides on the carriers of the paths' datagrams, and steers the ports.
    pub(super) fn advance_carriers(&mut self, now: Instant, ports: &[Port]) {
        if self.config.tcp == TcpFallback::Off {
            return;
        }
        for (index, dial) in dials(ports) {
            if self.fallback.carriers(index) == Carriers::Tcp && !dial.is_open() {
                self.fallback.on_failure(now, index, Carrier::Tcp);
            } else if self
                .driver
                .as_ref()
                .is_some_and(|driver| driver.is_out(index))
            {
                self.fallback.on_failure(now, index, Carrier::Udp);
            }
        }
        let silent_since = self.unanswered_since();
        self.fallback.advance(now, silent_since, ports.len());
        for (index, dial) in dials(ports) {
            self.steer(now, index, dial, ports);
        }
        self.report_carriers(ports.len());
    }

    fn steer(&mut self, now: Instant, index: usize, dial: &Dial, ports: &[Port]) {
        let carriers = self.fallback.carriers(index);
        let remote = if self.fallback.wants_connection(now, index) {
            self.tcp_remote(index)
        } else {
            None
        };
        dial.steer(carriers, remote);
        if dial.take_opened()
            && let Some(handshake) = &mut self.handshake
        {
            // The path keeps its address until the connection has asked it.
            self.paths.on_sign(index);
            handshake.on_new_path(now);
        }
        let asks = self.fallback.asks(now, index);
        let Some(driver) = &mut self.driver else {
            return;
        };
        driver.set_answered_carrier(
            index,
            match carriers {
                Carriers::Udp => Some(Carrier::Udp),
                Carriers::Both => None,
                Carriers::Tcp | Carriers::TcpOnly => Some(Carrier::Tcp),
            },
        );
        if asks {
            driver.ask_by_udp(index, ports);
        }
    }

    fn report_carriers(&mut self, path_count: usize) {
        let remote = (0..path_count).find_map(|index| self.tcp_remote(index));
        for fallback_event in self.fallback.take_events() {
            let event = match (fallback_event, remote) {
                (FallbackEvent::Tries, Some(remote)) => Event::TriesTcp { remote },
                (FallbackEvent::Blocked, Some(remote)) => Event::UdpBlocked { remote },
                (FallbackEvent::Carrier { index, carrier }, _) => Event::PathCarrier {
                    path: PathId(index as u8),
                    carrier,
                },
                (FallbackEvent::Tries | FallbackEvent::Blocked, None) => continue,
            };
            self.events.emit(event);
        }
    }

    /// Returns the time at which [`advance_carriers`](Self::advance_carriers) has something to do.
    pub(super) fn carriers_next_at(&self) -> Option<Instant> {
        self.fallback.next_at(self.unanswered_since())
    }
}

/// Returns the ports' TCP sides, with their paths' indexes.
fn dials(ports: &[Port]) -> impl Iterator<Item = (usize, &Dial)> {
    let dials = ports.iter().enumerate();
    dials.filter_map(|(index, port)| port.dial().map(|dial| (index, dial)))
}
