//! Windows.

pub(crate) mod calls;
mod local_address;
mod udp_state;

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::windows::fs::OpenOptionsExt;
use std::sync::Once;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

pub use local_address::LocalAddresses;
pub use udp_state::UdpState;

/// One end of a pair of streams inside this process, which a thread can wait for. Only sockets can
/// be waited for here, so it is a connection on loopback.
pub type LocalStream = TcpStream;

/// Error of a socket whose interface has gone.
#[cfg(feature = "testing")]
pub(crate) const NO_DEVICE: Errno = Errno::ADDRNOTAVAIL;
/// Error of a call that takes a privilege.
#[cfg(feature = "testing")]
pub(crate) const NOT_PERMITTED: Errno = Errno::ACCESS;

/// Whether a socket that is bound to an interface notices that another has taken its name. It is
/// bound to a number, which an interface that comes back may not have.
pub(crate) const KNOWS_INTERFACES_BY_NAME: bool = false;

/// Makes a pair of connected streams.
///
/// # Errors
/// The system has no sockets left.
pub fn stream_pair() -> io::Result<(LocalStream, LocalStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let own = one.local_addr()?;
    loop {
        // Another program may have found the port in the meantime.
        let (other, peer) = listener.accept()?;
        if peer == own {
            one.set_nodelay(true)?;
            other.set_nodelay(true)?;
            return Ok((one, other));
        }
    }
}

/// Does nothing: a file inherits the rights of its folder, and those of a user's own folders leave
/// others out.
pub fn allow_owner_alone(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Does nothing: no path in the file system names a pipe.
pub fn open_without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a link itself instead of its target (`FILE_FLAG_OPEN_REPARSE_POINT`). It is no file then.
pub fn open_file_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    options.custom_flags(OPEN_REPARSE_POINT)
}

/// Lets a socket's datagrams leave by an interface (`IP_UNICAST_IF`, `IPV6_UNICAST_IF`), which
/// everybody may do.
pub(crate) fn bind_device(
    socket: &socket2::Socket,
    _name: &str,
    index: Option<u32>,
    remote: SocketAddr,
) -> io::Result<()> {
    let index = index.ok_or(io::ErrorKind::AddrNotAvailable)?;
    calls::set_unicast_interface(socket, index, remote.is_ipv6())
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

/// Requests timers of a millisecond for this process, instead of 15.6 of them.
pub(crate) fn request_exact_timers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(calls::request_timer_period);
}

/// Does nothing: quinn-udp leaves coalescing off.
pub(crate) fn refuse_coalescing(_: &UdpSocket) {}

/// Does nothing: coalescing stays off, as quinn-udp has it.
pub(crate) fn coalesce(_: &UdpSocket) {}

/// Refuses: a connected socket has no precedence over a listening one.
///
/// # Errors
/// Always.
pub(crate) fn share_port(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether the error of a connect says that it goes on.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns whether a socket's interface or address has gone.
pub fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ADDRNOTAVAIL)
}

/// Returns whether there is no route now. An index of an absent interface counts as one.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTUNREACH | Errno::INVAL)
    )
}

/// Returns whether an interface refused a datagram for its length; quinn-udp forbids fragments.
pub(crate) fn is_message_too_long(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
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
