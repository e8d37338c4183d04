//! Argument parsing that several commands share.

use std::borrow::Cow;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};

use anyhow::anyhow;

/// Default port of receivers.
const USUAL_PORT: u16 = 7_000;

/// Returns a host with its port, which is [`USUAL_PORT`] if the text has none.
pub(crate) fn with_port(text: &str) -> Cow<'_, str> {
    let host = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_v6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    let has_none = match host {
        Some(host) => is_v6(host),
        None => !text.is_empty() && !text.contains(':'),
    };
    match has_none {
        true => format!("{text}:{USUAL_PORT}").into(),
        false => text.into(),
    }
}

/// Returns the address and port that an option names.
pub(crate) fn socket_addr(option: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let addresses = text.to_socket_addrs().ok();
    addresses
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| anyhow!("{option} {text}: expected an address and a port, as 0.0.0.0:7000"))
}

/// Parses `--listen` of an end that accepts sessions.
///
/// # Errors
/// The text is no address.
pub(crate) fn listen_addr(text: &str) -> anyhow::Result<SocketAddr> {
    socket_addr("--listen", &with_port(text))
}

/// Parses `--listen-tcp`.
///
/// # Errors
/// The text is no address with a port.
pub(crate) fn tcp_addr(text: Option<&str>) -> anyhow::Result<Option<SocketAddr>> {
    text.map(|text| socket_addr("--listen-tcp", text))
        .transpose()
}

/// Returns the words for an address that accepts TCP connections, if there is one.
pub(crate) fn told_tcp(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" and by TCP at {address}"))
}

/// Raises the limit of open files. Every connection and session needs one, and many systems start
/// with a limit of 1,024.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, later connections wait.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        let with_port = |text| with_port(text).into_owned();
        assert_eq!(with_port("studio.example"), "studio.example:7000");
        assert_eq!(with_port("192.0.2.1"), "192.0.2.1:7000");
        assert_eq!(with_port("[2001:db8::1]"), "[2001:db8::1]:7000");
        for text in ["192.0.2.1:9", "[::1]:9", "2001:db8::1", "[studio]", ""] {
            assert_eq!(with_port(text), text);
        }
        assert_eq!(listen_addr("[::]").unwrap().port(), USUAL_PORT);
    }
}
