//! The `Host` of requests to `--metrics`.
//!
//! A web page can have its own name resolved to this machine (DNS rebinding). The browser then
//! lets the page read the answers, but names the page's host in the request.

use core::str::FromStr;
use std::net::IpAddr;

use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};

/// A name that a request may use for this machine, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        {
            Ok(HostName(canonical(text)))
        } else {
            Err("expected a host's name without a port, as camera.example".to_owned())
        }
    }
}

/// Names that requests may use for this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    names: Vec<HostName>,
}

impl Hosts {
    pub(super) fn new(names: Vec<HostName>) -> Self {
        Hosts { names }
    }

    /// Returns whether each host in a request is this machine. Browsers always name one; simple
    /// programs may not.
    pub(super) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut of_headers = headers
            .get_all(HOST)
            .iter()
            .map(|value| value.to_str().ok()?.parse().ok());
        uri.authority().is_none_or(|target| self.is_ours(target))
            && of_headers.all(|host| host.is_some_and(|host| self.is_ours(&host)))
    }

    /// Returns whether the host is this machine. No page can rebind an address, because it is not
    /// resolved; any address is allowed, as behind port forwarding. RFC 6761 §6.3 assigns
    /// `localhost` to this machine.
    fn is_ours(&self, host: &Authority) -> bool {
        let host = host.host();
        let address = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if address.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = canonical(host);
        host == "localhost"
            || host.ends_with(".localhost")
            || self.names.iter().any(|name| name.0 == host)
    }
}

fn canonical(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn admits(hosts: &Hosts, target: &str, named: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in named {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        hosts.admit(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn a_page_that_rebinds_its_name_is_refused() {
        let hosts = Hosts::new(vec!["Camera.example.".parse().unwrap()]);
        for ours in [
            "localhost:9797",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1:9797",
            "[::1]:9797",
            "192.0.2.1",
            "camera.example:9797",
            "CAMERA.example.",
        ] {
            assert!(admits(&hosts, "/metrics", &[ours]), "{ours}");
        }
        for foreign in [
            "evil.example",
            "evil.example:9797",
            "127.0.0.1.evil.example",
            "camera.example.evil.example",
            "x.camera.example",
            "notlocalhost",
            "127.1",
            "",
            "a b",
            "localhost/evil.example",
        ] {
            assert!(!admits(&hosts, "/metrics", &[foreign]), "{foreign}");
            assert!(!admits(&hosts, "/metrics", &["localhost", foreign]));
        }
        assert!(admits(&hosts, "/metrics", &[]), "HTTP/1.0");
        assert!(!admits(
            &hosts,
            "http://evil.example/metrics",
            &["localhost"]
        ));
    }

    #[test]
    fn a_name_has_no_port() {
        assert!("camera:9797".parse::<HostName>().is_err());
        assert!("".parse::<HostName>().is_err());
        assert!("*".parse::<HostName>().is_err());
    }
}
