//! A socket that the application has made and bound, as the local side of a path.

use core::fmt;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A UDP socket of the application, by which a path leaves this machine
/// ([`Via::Socket`](crate::Via::Socket)). Where interfaces are chosen by the system's own calls, as
/// by Android's `Network.bindSocket`, the application makes and binds the socket.
///
/// The socket belongs to the library from then on. Clones are the same socket;
/// [`close`](Self::close) closes it.
#[derive(Clone)]
pub struct OwnSocket(Arc<Inner>);

struct Inner {
    name: String,
    socket: Mutex<Option<UdpSocket>>,
}

impl OwnSocket {
    /// Takes a socket that is bound to its network, and its name for people, such as `wlan0`.
    pub fn new(name: impl Into<String>, socket: UdpSocket) -> Self {
        OwnSocket(Arc::new(Inner {
            name: name.into(),
            socket: Mutex::new(Some(socket)),
        }))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Closes the socket. Its path has no local side from then on, once the session has noticed
    /// ([`Sender::switch_path`](crate::Sender::switch_path)).
    pub fn close(&self) {
        self.lock().take();
    }

    /// Returns another handle of the system's for the same socket.
    ///
    /// # Errors
    /// It was closed, or the system has no room for another handle.
    pub(crate) fn handle(&self) -> io::Result<UdpSocket> {
        match &*self.lock() {
            Some(socket) => socket.try_clone(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UdpSocket>> {
        self.0.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for OwnSocket {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnSocket {}

impl fmt::Debug for OwnSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnSocket").field(&self.0.name).finish()
    }
}
