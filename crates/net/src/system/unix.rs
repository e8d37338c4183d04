//! Linux, Android and the systems of Apple.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use rustix::fs::OFlags;
use rustix::io::Errno;

pub use super::local_address_unix::LocalAddresses;
pub use super::udp_state_unix::UdpState;

/// One end of a pair of streams inside this process, which a thread can wait for.
pub type LocalStream = UnixStream;

/// Error of a socket whose interface has gone.
#[cfg(feature = "testing")]
pub(crate) const NO_DEVICE: Errno = Errno::NODEV;
/// Error of a call that takes a privilege.
#[cfg(feature = "testing")]
pub(crate) const NOT_PERMITTED: Errno = Errno::PERM;

/// Makes a pair of connected streams.
///
/// # Errors
/// The system has no descriptors left.
pub fn stream_pair() -> io::Result<(LocalStream, LocalStream)> {
    UnixStream::pair()
}

/// Lets only its owner read and write a file that these options create.
pub fn allow_owner_alone(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Makes opening a named pipe without a partner return at once.
pub fn open_without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32)
}

/// Makes opening fail if the path is a link, and return at once if it is a named pipe.
pub fn open_file_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
}

/// Returns whether the error of a connect says that it goes on.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INPROGRESS)
}

/// Returns whether a socket's interface or address has gone.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NODEV | Errno::NXIO | Errno::ADDRNOTAVAIL)
    )
}

/// Returns whether there is no route now.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NETUNREACH | Errno::NETDOWN)
    )
}

/// Returns whether an interface refused a datagram for its length. quinn-udp forbids the
/// fragmentation of datagrams, and makes the kernel ignore ICMP messages on MTUs, which anybody may
/// forge.
pub(crate) fn is_message_too_long(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}
