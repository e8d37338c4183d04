//! `emulate --listen`: the address of each route.

use core::str::FromStr;
use std::net::{Ipv4Addr, SocketAddr};

use anabranch_units::known_names;
use anyhow::{Context, bail, ensure};

const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7_101);

/// The address of a route, or of the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenAt {
    route: Option<String>,
    address: SocketAddr,
}

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (route, address) = match text.rsplit_once('=') {
            Some((route, address)) => (Some(route.to_owned()), address),
            None => (None, text),
        };
        let expected = "write an address and a port, as in 127.0.0.1:7101, or a route's name \
                        before them, as in wifi=127.0.0.1:7101";
        let address = address.parse().map_err(|_| expected.to_owned())?;
        Ok(ListenAt { route, address })
    }
}

/// Returns where each route listens, in the order of `routes`.
///
/// # Errors
/// An unknown or repeated name, two addresses for the first route, or no ports left.
pub(super) fn addresses(wanted: &[ListenAt], routes: &[&str]) -> anyhow::Result<Vec<SocketAddr>> {
    let mut unnamed = wanted.iter().filter(|listen| listen.route.is_none());
    let first = unnamed.next().map_or(DEFAULT, |listen| listen.address);
    if let Some(second) = unnamed.next() {
        bail!(
            "--listen {}: the first route has an address already; name the route, as in \
             `--listen {}={}`",
            second.address,
            routes.last().unwrap_or(&"wifi"),
            second.address
        );
    }
    let named: Vec<&str> = wanted
        .iter()
        .filter_map(|listen| listen.route.as_deref())
        .collect();
    for (index, name) in named.iter().enumerate() {
        ensure!(
            routes.contains(name),
            "--listen: the scenario has no route {name:?}; known are {}",
            known_names(name, routes.iter().copied())
        );
        let is_new = !named[..index].contains(name);
        ensure!(is_new, "--listen: two addresses for the route {name:?}");
    }
    let all = routes.iter().enumerate().map(|(index, route)| {
        match wanted
            .iter()
            .find(|listen| listen.route.as_deref() == Some(route))
        {
            Some(listen) => Ok(listen.address),
            None => following(first, index),
        }
    });
    all.collect()
}

/// Returns the address `index` ports behind the first.
fn following(first: SocketAddr, index: usize) -> anyhow::Result<SocketAddr> {
    let mut address = first;
    if first.port() != 0 {
        let port = u16::try_from(index)
            .ok()
            .and_then(|index| first.port().checked_add(index));
        address.set_port(port.context("--listen: no ports are left behind this one")?);
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(wanted: &[&str]) -> Result<Vec<String>, String> {
        let wanted: Vec<ListenAt> = wanted.iter().map(|text| text.parse().unwrap()).collect();
        let addresses =
            addresses(&wanted, &["wifi", "lte", "dsl"]).map_err(|error| error.to_string())?;
        Ok(addresses.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn routes_have_ports_in_their_order_and_named_ones_their_own() {
        let expected = ["127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"];
        assert_eq!(parsed(&[]).unwrap(), expected);
        let named = parsed(&["lte=[::1]:9", "10.0.0.1:80"]).unwrap();
        assert_eq!(named, ["10.0.0.1:80", "[::1]:9", "10.0.0.1:82"]);
    }

    #[test]
    fn errors_show_valid_syntax() {
        let error = parsed(&["wfi=127.0.0.1:1"]).unwrap_err();
        assert!(error.contains("\"wfi\"; known are wifi"), "{error}");
        let error = parsed(&["127.0.0.1:1", "127.0.0.1:2"]).unwrap_err();
        assert!(error.contains("--listen dsl=127.0.0.1:2"), "{error}");
        assert!(parsed(&["lte=127.0.0.1:1", "lte=127.0.0.1:2"]).is_err());
        assert!(
            parsed(&["127.0.0.1:65535"])
                .unwrap_err()
                .contains("no ports")
        );
        let error = "wifi=7101".parse::<ListenAt>().unwrap_err();
        assert!(error.contains("wifi=127.0.0.1:7101"), "{error}");
    }
}
