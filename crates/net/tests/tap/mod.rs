//! Addresses and pauses of tests over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration as StdDuration;

/// Returns the address 127.0.0.`last` with this port.
pub fn loopback(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}

/// Waits for `span`.
pub fn pause(span: StdDuration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}
