//! A loopback socket that accepts only datagrams of this user's programs. Any local user may send
//! to a loopback port, so the socket is connected to the first of these programs: then the kernel
//! keeps others' datagrams out of its buffer.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_net::system::{Feature, lacks};
use anabranch_units::{Duration, Instant};

/// Time after which an admitted source is checked again: another user may own its port by then.
const ADMISSION: Duration = Duration::from_secs(1);
/// Minimum time between two reads of the kernel's table of sockets.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Number of times that the table is read for a source that it lacks. The kernel returns a page at
/// a time, and skips a socket of the next page if one of the pages before was closed meanwhile.
const READS: usize = 4;
/// Number of free ports that are tried.
const TRIES: usize = 8;

/// The admitted source.
#[derive(Debug, Default)]
pub(super) struct SameUser {
    admitted: Option<(SocketAddr, Instant)>,
    table: Vec<Owned>,
    looked_at: Option<Instant>,
}

/// A socket of the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    address: Ipv4Addr,
    port: u16,
    user: u32,
}

impl Owned {
    /// Returns whether the socket may have sent a datagram from this address.
    fn may_send_from(&self, from: SocketAddr) -> bool {
        let is_bound_to_ip = match from.ip() {
            IpAddr::V4(ip) => self.address == ip || self.address.is_unspecified(),
            IpAddr::V6(_) => false,
        };
        self.port == from.port() && is_bound_to_ip
    }
}

impl SameUser {
    /// Returns whether the datagram's sender is a program of this user, and connects `socket` to
    /// it. Systems other than Linux have no table of sockets: there, every local program is
    /// admitted.
    pub(super) fn admits(&mut self, socket: &UdpSocket, now: Instant, from: SocketAddr) -> bool {
        if self
            .admitted
            .is_some_and(|(source, until)| source == from && now < until)
        {
            return true;
        }
        if !self.is_ours(now, from) {
            return false;
        }
        self.admitted = Some((from, now + ADMISSION));
        if lacks(Feature::SourceUser).is_none() {
            // Without a connection, others can only fill the buffer.
            let _ = socket.connect(from);
        }
        true
    }

    /// Takes datagrams of any program of this user again, if the admitted one has gone.
    pub(super) fn on_silence(&mut self, socket: &UdpSocket, now: Instant) {
        let Some((source, _)) = self.admitted.filter(|(_, until)| now >= *until) else {
            return;
        };
        if self.is_ours(now, source) {
            self.admitted = Some((source, now + ADMISSION));
        } else {
            self.admitted = None;
            let _ = rustix::net::connect_unspec(socket);
        }
    }

    /// Returns whether the source is a program of this user.
    fn is_ours(&mut self, now: Instant, source: SocketAddr) -> bool {
        let Some(user) = own_user() else {
            return source.ip().is_loopback();
        };
        let is_old = self.looked_at.is_none_or(|at| now >= at + POLL_INTERVAL);
        if is_old {
            self.looked_at = Some(now);
            self.table = table_with(source, sockets);
        }
        is_of_user(source, user, &self.table)
    }
}

/// Binds a socket that keeps its port when its connection ends. Linux takes a port away that it
/// has chosen itself (`__udp_disconnect`), so a port that is free is asked for.
///
/// # Errors
/// The address is taken, or no port is free.
pub(super) fn bind_to_keep(address: SocketAddr) -> io::Result<UdpSocket> {
    if address.port() != 0 {
        return UdpSocket::bind(address);
    }
    let mut tries = TRIES;
    loop {
        let chosen = UdpSocket::bind(address)?.local_addr()?;
        let bound = UdpSocket::bind(chosen);
        tries -= 1;
        // If it is taken, another program was faster.
        if bound.is_ok() || tries == 0 {
            return bound;
        }
    }
}

/// Returns the table of sockets, read again while it lacks the source, and [`READS`] times at most.
fn table_with(source: SocketAddr, mut sockets: impl FnMut() -> String) -> Vec<Owned> {
    let mut table = Vec::new();
    for _ in 0..READS {
        table = owned(&sockets());
        if table.iter().any(|owned| owned.may_send_from(source)) {
            break;
        }
    }
    table
}

/// Returns this user's number, on systems with a table of sockets.
#[cfg(target_os = "linux")]
fn own_user() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}

#[cfg(not(target_os = "linux"))]
fn own_user() -> Option<u32> {
    None
}

/// Returns the kernel's table of UDP sockets.
fn sockets() -> String {
    fs::read_to_string("/proc/net/udp").unwrap_or_default()
}

/// Parses the kernel's table of UDP sockets.
fn owned(sockets: &str) -> Vec<Owned> {
    let owned = sockets.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (ip, port) = fields.nth(1)?.split_once(':')?;
        Some(Owned {
            // The table prints the address as a number in this machine's byte order.
            address: Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes()),
            port: u16::from_str_radix(port, 16).ok()?,
            user: fields.nth(5)?.parse::<u32>().ok()?,
        })
    });
    owned.collect()
}

/// Returns whether all sockets that may have sent from this address belong to the user, and at
/// least one exists.
fn is_of_user(from: SocketAddr, user: u32, table: &[Owned]) -> bool {
    let mut owners = table
        .iter()
        .filter(|owned| owned.may_send_from(from))
        .map(|owned| owned.user)
        .peekable();
    owners.peek().is_some() && owners.all(|owner| owner == user)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn socket() -> (UdpSocket, SocketAddr) {
        let socket = bind_to_keep((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[test]
    fn a_socket_of_this_user_is_admitted_until_it_is_closed() {
        let ((input, _), (socket, address)) = (socket(), socket());
        let mut guard = SameUser::default();
        let at = Instant::from_millis;
        assert!(guard.admits(&input, at(0), address));
        drop(socket);
        assert!(guard.admits(&input, at(999), address), "it was looked at");
        assert!(!guard.admits(&input, at(1_000), address));
    }

    #[test]
    fn others_do_not_reach_the_socket_until_the_admitted_one_has_gone() {
        let ((input, to), (helper, address)) = (socket(), socket());
        let (next, its_address) = socket();
        let mut guard = SameUser::default();
        let at = Instant::from_millis;
        assert!(guard.admits(&input, at(0), address));
        input.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16];
        next.send_to(b"flood", to).unwrap();
        assert!(input.recv(&mut buffer).is_err(), "the kernel has let it in");
        guard.on_silence(&input, at(1_000));
        next.send_to(b"flood", to).unwrap();
        assert!(input.recv(&mut buffer).is_err(), "the helper has answered");
        drop(helper);
        guard.on_silence(&input, at(1_999));
        guard.on_silence(&input, at(2_000));
        next.send_to(b"media", to).unwrap();
        assert_eq!(input.recv(&mut buffer).unwrap(), 5);
        assert!(guard.admits(&input, at(2_010), its_address));
    }

    #[test]
    fn a_socket_of_another_user_is_not() {
        let (_socket, address) = socket();
        let user = rustix::process::getuid().as_raw();
        let table = owned(&sockets());
        assert!(is_of_user(address, user, &table));
        assert!(!is_of_user(address, user + 1, &table));
        assert!(!is_of_user(address, user, &[]), "nobody has it");
    }

    #[test]
    fn a_socket_that_the_kernel_skipped_is_found_by_another_read() {
        let (_socket, address) = socket();
        let mut reads = 0;
        let table = table_with(address, || {
            reads += 1;
            if reads == 2 { sockets() } else { String::new() }
        });
        assert_eq!(reads, 2, "it stops when the source is ready");
        assert!(is_of_user(
            address,
            rustix::process::getuid().as_raw(),
            &table
        ));
        let mut reads = 0;
        table_with(address, || {
            reads += 1;
            String::new()
        });
        assert_eq!(reads, READS, "a flood costs a bounded number");
    }

    #[test]
    fn a_flood_neither_looks_often_nor_hides_the_helper() {
        let mut guard = SameUser::default();
        let ((input, _), (_early, early)) = (socket(), socket());
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let at = Instant::from_millis;
        assert!(!guard.admits(&input, at(0), none));
        let (_late, late) = socket();
        assert!(
            !guard.admits(&input, at(9), late),
            "it is newer than the look"
        );
        // The last look has seen it.
        assert!(guard.admits(&input, at(9), early));
        assert!(guard.admits(&input, at(10), late));
    }
}
