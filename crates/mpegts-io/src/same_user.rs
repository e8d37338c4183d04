//! A loopback socket that accepts only datagrams of this user's programs. Any local user may send
//! to a loopback port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_units::{Duration, Instant};

/// Time after which an admitted source is checked again: another user may own its port by then.
const ADMISSION: Duration = Duration::from_secs(1);
/// Minimum time between two checks of new sources. Each reads the kernel's table of sockets.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The admitted source.
#[derive(Debug, Default)]
pub(super) struct SameUser {
    admitted: Option<(SocketAddr, Instant)>,
    looked_at: Option<Instant>,
}

impl SameUser {
    /// Returns whether the datagram's sender is a program of this user. Systems other than Linux
    /// have no table of sockets: there, every local program is admitted.
    pub(super) fn admits(&mut self, now: Instant, from: SocketAddr) -> bool {
        let is_known = |(source, until)| source == from && now < until;
        if self.admitted.is_some_and(is_known) {
            return true;
        }
        let next = self.looked_at.map(|at| at + LOOK_INTERVAL);
        if next.is_some_and(|next| now < next) {
            return false;
        }
        self.looked_at = Some(now);
        let is_ours = match cfg!(target_os = "linux") {
            true => is_of_user(from, rustix::process::getuid().as_raw(), &sockets()),
            false => from.ip().is_loopback(),
        };
        if is_ours {
            self.admitted = Some((from, now + ADMISSION));
        }
        is_ours
    }
}

/// Returns the kernel's table of UDP sockets.
fn sockets() -> String {
    fs::read_to_string("/proc/net/udp").unwrap_or_default()
}

/// Returns whether all sockets that may have sent from this address belong to the user, and at
/// least one exists.
fn is_of_user(from: SocketAddr, user: u32, sockets: &str) -> bool {
    let IpAddr::V4(address) = from.ip() else {
        return false;
    };
    let owners = sockets.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (ip, port) = fields.nth(1)?.split_once(':')?;
        // The table prints the address as a number in this machine's byte order.
        let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes());
        let port = u16::from_str_radix(port, 16).ok()?;
        let is_it = port == from.port() && (ip == address || ip.is_unspecified());
        let owner = fields.nth(5)?.parse::<u32>().ok()?;
        is_it.then_some(owner)
    });
    let owners: Vec<u32> = owners.collect();
    !owners.is_empty() && owners.iter().all(|owner| *owner == user)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn socket() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[test]
    fn a_socket_of_this_user_is_admitted_until_it_is_closed() {
        let (socket, address) = socket();
        let mut guard = SameUser::default();
        let at = Instant::from_millis;
        assert!(guard.admits(at(0), address));
        drop(socket);
        assert!(guard.admits(at(999), address), "it was looked at");
        assert!(!guard.admits(at(1_000), address));
    }

    #[test]
    fn a_socket_of_another_user_is_not() {
        let (_socket, address) = socket();
        let user = rustix::process::getuid().as_raw();
        let table = sockets();
        assert!(is_of_user(address, user, &table));
        assert!(!is_of_user(address, user + 1, &table));
        assert!(!is_of_user(address, user, ""), "nobody has it");
    }

    #[test]
    fn looks_are_limited() {
        let mut guard = SameUser::default();
        let (_socket, ours) = socket();
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let at = Instant::from_millis;
        assert!(!guard.admits(at(0), none));
        assert!(!guard.admits(at(9), ours), "too soon");
        assert!(guard.admits(at(10), ours));
        // Other datagrams do not affect the admitted source.
        assert!(!guard.admits(at(20), none));
        assert!(guard.admits(at(20), ours));
    }
}
