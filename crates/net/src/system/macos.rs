//! macOS and the other systems of Apple.

use core::num::NonZeroU32;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::fd::BorrowedFd;

/// Whether a socket that is bound to an interface notices that another has taken its name. It is
/// bound to a number, which an interface that comes back may not have.
pub(crate) const KNOWS_INTERFACES_BY_NAME: bool = false;

/// Binds to the interface itself (`IP_BOUND_IF`, `IPV6_BOUND_IF`), which everybody may do.
pub(crate) fn bind_device(
    socket: &socket2::Socket,
    _name: &str,
    index: Option<u32>,
    remote: SocketAddr,
) -> io::Result<()> {
    let interface = index.and_then(NonZeroU32::new);
    // Without an interface the call would remove the binding.
    if interface.is_none() {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    match remote {
        SocketAddr::V4(_) => socket.bind_device_by_index_v4(interface),
        SocketAddr::V6(_) => socket.bind_device_by_index_v6(interface),
    }
}

/// Returns the index of the interface with this name, if it has an address.
pub fn interface_index(_socket: &socket2::Socket, name: &str) -> Option<u32> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    let found = interfaces.iter().find(|found| found.name == name)?;
    found.index
}

/// Refuses: packets have no marks here.
pub(crate) fn set_mark(_: &socket2::Socket, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: timers are as exact as a wait's unit, the millisecond.
pub(crate) fn request_exact_timers() {}

/// Does nothing: the kernel never coalesces.
pub(crate) fn refuse_coalescing(_: &UdpSocket) {}

/// Does nothing: the kernel never coalesces.
pub(crate) fn coalesce(_: &UdpSocket) {}

/// Refuses: a connected socket has no precedence over a listening one.
///
/// # Errors
/// Always.
pub(crate) fn share_port(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sockets that the kernel watches: none, since there are no peer sockets.
#[derive(Debug)]
pub(crate) enum Watch {}

impl Watch {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called.
    pub(crate) fn add(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Cannot be called.
    pub(crate) fn ready(&self) -> Vec<u64> {
        match *self {}
    }

    /// Cannot be called.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
