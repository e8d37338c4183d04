//! Argument parsing that several commands share.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

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
    if has_none {
        format!("{text}:{USUAL_PORT}").into()
    } else {
        text.into()
    }
}

/// Returns the address and port that an option names.
pub(crate) fn socket_addr(option: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let addresses = text.to_socket_addrs().ok();
    addresses
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| anyhow!("{option} {text}: expected an address and a port, as 0.0.0.0:7000"))
}

/// Returns the address and port at which an option listens. A port alone is one of `host`.
///
/// # Errors
/// The text is neither.
pub(crate) fn port_or_addr(option: &str, text: &str, host: IpAddr) -> anyhow::Result<SocketAddr> {
    match text.parse::<u16>() {
        Ok(port) => Ok((host, port).into()),
        Err(_) => socket_addr(option, text),
    }
}

/// Parses `--listen` of an end that accepts sessions. A port alone is one of all IPv4 addresses.
///
/// # Errors
/// The text is no address.
pub(crate) fn listen_addr(text: &str) -> anyhow::Result<SocketAddr> {
    let text = match text.parse::<u16>() {
        Ok(_) => text.into(),
        Err(_) => with_port(text),
    };
    port_or_addr("--listen", &text, Ipv4Addr::UNSPECIFIED.into())
}

/// Parses `--listen-tcp`.
///
/// # Errors
/// The text is no address with a port.
pub(crate) fn tcp_addr(text: Option<&str>) -> anyhow::Result<Option<SocketAddr>> {
    text.map(|text| port_or_addr("--listen-tcp", text, Ipv4Addr::UNSPECIFIED.into()))
        .transpose()
}

/// Returns the words for an address that accepts TCP connections, if there is one.
pub(crate) fn describe_tcp(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" and by TCP at {address}"))
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

    #[test]
    fn a_port_alone_is_one_of_all_addresses_or_of_this_machine() {
        let shown = |address: anyhow::Result<SocketAddr>| address.unwrap().to_string();
        assert_eq!(shown(listen_addr("25011")), "0.0.0.0:25011");
        let tcp = tcp_addr(Some("443")).unwrap().unwrap();
        assert_eq!(tcp.to_string(), "0.0.0.0:443");
        let here = Ipv4Addr::LOCALHOST.into();
        let port = port_or_addr("--listen", "8080", here);
        assert_eq!(shown(port), "127.0.0.1:8080");
        let address = port_or_addr("--listen", "192.0.2.1:8080", here);
        assert_eq!(shown(address), "192.0.2.1:8080");
        assert!(port_or_addr("--listen", "99999", here).is_err());
    }
}
