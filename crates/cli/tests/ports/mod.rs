//! Ports for programs that take the port on which they listen as an argument.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// First port, and number of ports. The kernel gives none of these to sockets that ask for no port:
/// its range begins at 32,768 (Linux) or 49,152. `make test-real` uses ports below.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// Returns a port of loopback that is free for UDP and TCP, and that nothing else takes before the
/// program that gets it: no two calls return the same port, and the kernel chooses none of them.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test programs that run at the same time begin at different ports.
    let first = std::process::id().wrapping_mul(509);
    let attempts = std::iter::repeat_with(|| {
        let offset = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).unwrap();
        let address = (Ipv4Addr::LOCALHOST, port);
        let is_free = UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok();
        is_free.then_some(port)
    });
    attempts.take(1_000).flatten().next().expect("a free port")
}
