//! The operating system's part of the runtime: one file for each system, with the same functions.
//!
//! Everything else in this workspace calls these functions, or crates that work everywhere. The
//! list [`lacks`] names the features that a system has not
//! ([decision 286](../../../docs/decisions/0286-one-seam-for-operating-systems.md)).
//!
//! | file | idea |
//! |---|---|
//! | `feature.rs` | the list of features that some systems lack |
//! | `linux.rs` | Linux and Android |
//! | `macos.rs` | macOS and other systems of Apple |
//! | `unix.rs` | both of these |
//! | `local_address_unix.rs` | local addresses of datagrams there |
//! | `udp_state_unix.rs` | datagrams with marks and stamps there |
//! | `windows.rs` | Windows; `windows/` has the same parts |
//! | `windows/calls.rs` | its calls that no crate wraps: the only unsafe code |

mod feature;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(unix)]
mod local_address_unix;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod macos;
#[cfg(unix)]
mod udp_state_unix;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as here;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
use macos as here;
#[cfg(unix)]
use unix as family;
#[cfg(windows)]
use windows as family;
#[cfg(windows)]
use windows as here;

use anabranch_units::Duration;
use rustix::event::{Nsecs, Timespec};

/// Borrowed and owned sockets, and files where the system can wait for them too.
pub use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

pub use family::is_gone;
pub use family::{
    LocalAddresses, LocalStream, UdpState, allow_owner_alone, open_file_itself,
    open_without_waiting, stream_pair,
};
#[cfg(feature = "testing")]
pub(crate) use family::{NO_DEVICE, NOT_PERMITTED};
pub(crate) use family::{is_connecting, is_message_too_long, is_unreachable};
pub use feature::{Feature, Lack, MissingFeature, ensure_has, lacks};
pub use here::interface_index;
pub(crate) use here::{
    KNOWS_INTERFACES_BY_NAME, Watch, bind_device, coalesce, refuse_coalescing,
    request_exact_timers, set_mark, share_port,
};

/// Name of this operating system in messages.
pub const NAME: &str = if cfg!(windows) {
    "Windows"
} else if cfg!(target_vendor = "apple") {
    "macOS"
} else {
    "Linux"
};

/// Longest wait: systems without `ppoll` count milliseconds in 31 bits.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// Returns a wait for `poll`, of a day at most: a loop that waits for more goes round once more.
pub fn timespec(wait: Duration) -> Timespec {
    let wait = wait.min(LONGEST_WAIT).to_std();
    Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos() as Nsecs,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_pair_carries_bytes_both_ways() {
        let (mut one, mut other) = stream_pair().unwrap();
        one.write_all(b"there").unwrap();
        let mut buffer = [0; 5];
        other.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"there");
        other.write_all(b"again").unwrap();
        one.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"again");
        drop(one);
        assert_eq!(other.read(&mut buffer).unwrap(), 0);
    }
}
