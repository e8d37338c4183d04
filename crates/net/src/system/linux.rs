//! Linux and Android.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{ReceiveTimestampns, UdpGroSegment};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of peer sockets served in a turn, so that the listening sockets get theirs in
/// between.
const MAX_READY: usize = 64;

/// Whether a socket that is bound to an interface notices that another has taken its name.
pub(crate) const KNOWS_INTERFACES_BY_NAME: bool = true;

/// Binds to the interface itself (`SO_BINDTODEVICE`), which Linux permits to everybody from 5.7 on.
pub(crate) fn bind_device(
    socket: &socket2::Socket,
    name: &str,
    _index: Option<u32>,
    _remote: SocketAddr,
) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

/// Returns the index of the interface with this name.
pub fn interface_index(socket: &socket2::Socket, name: &str) -> Option<u32> {
    rustix::net::netdevice::name_to_index(socket, name).ok()
}

/// Marks a socket's packets (`SO_MARK`).
pub(crate) fn set_mark(socket: &socket2::Socket, mark: u32) -> io::Result<()> {
    socket.set_mark(mark)
}

/// Requests exact timers, as Linux by default may wake a thread 50 µs late to wake several at a
/// time.
pub(crate) fn request_exact_timers() {
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}

/// Turns generic receive offload off, which quinn-udp turns on. Coalesced datagrams share one
/// arrival time, which hides the dispersion that controllers of media look for. In addition,
/// quinn-udp 0.6 reserves 96 bytes for the control messages of a read. These are too few for the
/// size of the parts, the time, the address and the congestion mark, which comes last and is lost.
pub(crate) fn refuse_coalescing(socket: &UdpSocket) {
    // A kernel that does not know the option does not coalesce.
    let _ = setsockopt(socket, UdpGroSegment, &false);
}

/// Lets the kernel hand over consecutive datagrams together. Arrival times are then unavailable:
/// there would be one for all of them, and there is no room for it ([`refuse_coalescing`]).
pub(crate) fn coalesce(socket: &UdpSocket) {
    if setsockopt(socket, ReceiveTimestampns, &false).is_ok() {
        let _ = setsockopt(socket, UdpGroSegment, &true);
    }
}

/// Permits other sockets at the same address and port, of which a connected one has precedence.
///
/// # Errors
/// The system refuses.
pub(crate) fn share_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_reuseport(socket, true)?)
}

/// Sockets that the kernel watches, each by a number (epoll).
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Watch(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a socket until it is closed.
    ///
    /// # Errors
    /// The system has no memory left.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        epoll::add(&self.0, socket, EventData::new_u64(number), EventFlags::IN)?;
        Ok(())
    }

    /// Returns the numbers of sockets with datagrams to read.
    pub(crate) fn ready(&self) -> Vec<u64> {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut events = Vec::with_capacity(MAX_READY);
        // Sockets that are not reported now are reported in the next turn.
        let _ = epoll::wait(
            &self.0,
            rustix::buffer::spare_capacity(&mut events),
            Some(&AT_ONCE),
        );
        events.into_iter().map(|event| event.data.u64()).collect()
    }

    /// Returns a descriptor that is readable when a socket is.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
