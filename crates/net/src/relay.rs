//! A relay, by which senders reach receivers that no datagram reaches otherwise: behind the NAT of
//! a home or of a provider.
//!
//! A receiver registers at the relay, and keeps the way open. Senders call the relay as if it were
//! the receiver. Their session is with the receiver: the relay has none of its keys, and carries
//! datagrams that it cannot read. It knows the receiver for which an initiation is by the mark that
//! is made with the receiver's public key, which the sender's link names.
//!
//! ```text
//!  sender ── path 0 ──┐                    ┌── all paths, in one session ──┐
//!         ── path 1 ──┤ relay: one address ┤   of receiver and relay       ├── receiver
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `uplink.rs` | the receiver's side |
//! | `role.rs`, `registering.rs` | the relay's side |
//! | `registration.rs`, `flows.rs` | the relay's memory of receivers, and of paths of senders |
//! | `message.rs` | the messages between both |

mod flows;
pub(crate) mod message;
mod registering;
mod registration;
mod role;
pub(crate) mod uplink;

use std::net::SocketAddr;

use anabranch_secure::{PairingCode, PublicKey, SecretKey};
use anabranch_units::{DataRate, Duration, Lateness};

use crate::clock::Clock;
use crate::io::Network;
use crate::pairing::PairingOutcome;
use crate::port::Port;
use crate::runtime::Runtime;
use crate::server::RefusedSender;
use crate::start_error::StartError;
use crate::surroundings::Surroundings;
use role::RelayRole;
pub use uplink::{RelayAccess, RelayState};

/// Rate of a receiver's datagrams in both directions, without another wish.
const DEFAULT_RATE: DataRate = DataRate::from_megabits_per_second(100);

/// Set-up of a relay.
#[derive(Debug)]
pub struct RelayConfig {
    /// Network of the socket.
    pub network: Network,
    /// Clock of all instants.
    pub clock: Clock,
    /// Local address; with port 0, the started relay reports the port.
    pub listen: SocketAddr,
    /// The relay's key.
    pub local_key: SecretKey,
    /// Public keys of the receivers that may register.
    pub allowed: Vec<PublicKey>,
    /// Maximum rate of the datagrams of each receiver, in both directions together.
    pub rate: DataRate,
}

impl RelayConfig {
    /// Returns the set-up with which `local_key`'s owner listens for the receivers `allowed`, each
    /// with up to 100 Mbit/s.
    pub fn new(listen: SocketAddr, local_key: SecretKey, allowed: Vec<PublicKey>) -> Self {
        RelayConfig {
            network: Network::default(),
            clock: Clock::start(),
            listen,
            local_key,
            allowed,
            rate: DEFAULT_RATE,
        }
    }
}

/// A receiver that is registered at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedReceiver {
    /// Public key of the receiver.
    pub key: PublicKey,
    /// Its address, as the relay sees it.
    pub address: SocketAddr,
    /// Number of addresses from which its senders come: one for each path.
    pub flow_count: usize,
    /// Bytes of the datagrams carried in both directions.
    pub carried_bytes: u64,
    /// Datagrams that were dropped, as the rate was used up, or their sender is unknown.
    pub dropped_count: u64,
}

/// State of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelaySnapshot {
    /// The registered receivers, by key.
    pub receivers: Vec<RelayedReceiver>,
    /// Number of addresses from which senders come.
    pub flow_count: usize,
    /// Number of answered receivers that have not confirmed yet.
    pub unconfirmed_count: usize,
    /// Datagrams that were for nobody, or not authentic.
    pub unknown_count: u64,
}

/// A running relay. Dropping it notifies its receivers.
#[derive(Debug)]
pub struct Relay {
    runtime: Runtime<RelayRole>,
    local: SocketAddr,
}

impl Relay {
    /// Opens the socket and starts the thread.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(config: RelayConfig) -> Result<Relay, StartError> {
        let socket = config.network.listen(config.listen)?;
        let local = socket.local_addr().map_err(StartError::Runtime)?;
        let surroundings = Surroundings::of(&config.network, config.clock);
        let now = config.network.clock(config.clock).now();
        let ports = vec![Port::fixed(socket)];
        let role = RelayRole::new(now, config);
        let runtime = Runtime::start("relay", surroundings, ports, role)?;
        Ok(Relay { runtime, local })
    }

    /// Returns the local address, whose port is never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the present state.
    pub fn snapshot(&self) -> RelaySnapshot {
        self.runtime.with_role(|role, _| role.snapshot())
    }

    /// Sets the keys of the receivers that may register; others are forgotten.
    pub fn set_allowed(&self, allowed: &[PublicKey]) {
        self.runtime.change(|role, _| role.set_allowed(allowed));
    }

    /// Lets in the first receiver that has `code`, until `lasts` is over; see
    /// [`Receiver::start_pairing`](crate::Receiver::start_pairing).
    pub fn start_pairing(&self, code: PairingCode, lasts: impl Into<Duration>) {
        let lasts = lasts.into();
        self.runtime.change(|role, now| {
            let (pairing, responder) = role.pairing();
            pairing.start(responder, now, code, lasts);
        });
    }

    /// Takes a pairing code back.
    pub fn stop_pairing(&self, code: &PairingCode) {
        self.runtime.change(|role, _| {
            let (pairing, responder) = role.pairing();
            pairing.stop(responder, code);
        });
    }

    /// Takes the outcomes of pairing codes since the last call.
    pub fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        self.runtime.with_role(RelayRole::take_pairing_outcomes)
    }

    /// Takes the ends that requested a registration since the last call and got none.
    pub fn take_refused_senders(&self) -> Vec<RefusedSender> {
        self.runtime.with_role(|role, _| role.take_refused())
    }

    /// Returns the delays of the thread that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Notifies the receivers that this relay leaves, and stops listening.
    pub fn close(&self) {
        self.runtime.change(|role, _| role.close());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
        let _ = self.runtime.join();
    }
}
