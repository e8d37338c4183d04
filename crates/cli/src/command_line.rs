//! Argument parsing that several commands share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use anabranch_net::words::with_port;
use anyhow::anyhow;

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

    fn shown(address: anyhow::Result<SocketAddr>) -> String {
        address.unwrap().to_string()
    }

    #[test]
    fn a_port_alone_is_one_of_all_addresses_or_of_this_machine() {
        assert_eq!(shown(listen_addr("25011")), "0.0.0.0:25011");
        assert_eq!(shown(listen_addr("[::]")), "[::]:7000");
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
