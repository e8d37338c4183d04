//! The hosts behind relays of this program, by which a listener limits callers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses from which groups of SRTLA were registered, by the sockets through which relays pass
/// their packets on to a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(Arc<Mutex<BTreeMap<SocketAddr, IpAddr>>>);

impl Origins {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a relay's socket.
    pub(crate) fn add(&self, socket: SocketAddr, origin: IpAddr) {
        self.lock().insert(socket, origin);
    }

    /// Removes a relay's socket.
    pub(crate) fn remove(&self, socket: SocketAddr) {
        self.lock().remove(&socket);
    }

    /// Returns the origin of a datagram that has come from `caller`.
    pub(super) fn of(&self, caller: SocketAddr) -> IpAddr {
        self.lock().get(&caller).copied().unwrap_or(caller.ip())
    }
}
