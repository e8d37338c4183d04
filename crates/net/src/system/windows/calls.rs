//! Calls of Windows that no crate wraps.
//!
//! This is the only unsafe code of the crate. Each call gets values, or a pointer to a value that
//! outlives it, and keeps nothing.

#![allow(
    unsafe_code,
    reason = "calls of Windows that no crate wraps; see each one"
)]

use std::io;
use std::os::windows::io::AsRawSocket;

use windows_sys::Win32::Media::timeBeginPeriod;
use windows_sys::Win32::Networking::WinSock::{
    IP_UNICAST_IF, IPPROTO_IP, IPPROTO_IPV6, IPV6_UNICAST_IF, SOCKET, setsockopt,
};

/// Unit of timers in milliseconds.
const TIMER_PERIOD_MS: u32 = 1;

/// Lets unicast datagrams of a socket leave by the interface with this index.
///
/// # Errors
/// There is no such interface, or the socket is of the other family.
pub(super) fn set_unicast_interface(
    socket: &impl AsRawSocket,
    index: u32,
    is_ipv6: bool,
) -> io::Result<()> {
    let (level, option) = if is_ipv6 {
        (IPPROTO_IPV6, IPV6_UNICAST_IF)
    } else {
        (IPPROTO_IP, IP_UNICAST_IF)
    };
    let value = option_value(index, is_ipv6);
    // SAFETY: the pointer and the length are those of `value`, which outlives the call, and the
    // socket is open while it is borrowed.
    let code = unsafe {
        setsockopt(
            socket.as_raw_socket() as SOCKET,
            level,
            option,
            value.as_ptr(),
            value.len() as i32,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the bytes of the option: Windows takes the index in network byte order for IPv4, and in
/// the machine's own for IPv6.
fn option_value(index: u32, is_ipv6: bool) -> [u8; 4] {
    if is_ipv6 {
        index.to_ne_bytes()
    } else {
        index.to_be_bytes()
    }
}

/// Requests timers of a millisecond for this process.
pub(super) fn request_timer_period() {
    // SAFETY: the call takes a number, and returns a code. If it refuses, timers stay coarse.
    let _ = unsafe { timeBeginPeriod(TIMER_PERIOD_MS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_the_byte_order_of_its_family() {
        assert_eq!(option_value(0x0102_0304, false), [1, 2, 3, 4]);
        assert_eq!(option_value(0x0102_0304, true), [4, 3, 2, 1]);
    }

    #[test]
    fn a_socket_takes_the_index_of_loopback_and_refuses_others() {
        let interfaces = if_addrs::get_if_addrs().unwrap();
        let loopback = interfaces.iter().find(|found| found.ip().is_loopback());
        let index = loopback.and_then(|found| found.index).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        set_unicast_interface(&socket, index, false).unwrap();
        assert!(set_unicast_interface(&socket, 0x00ff_fff0, false).is_err());
    }
}
