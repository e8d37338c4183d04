//! TCP connections through streams, UDP flows and IP packets through datagrams: what `serve` and
//! `proxy` have in common.
//!
//! | file | idea |
//! |---|---|
//! | `request.rs` | what a new stream asks for, and how it is answered |
//! | `policy.rs` | where streams and flows may lead |
//! | `resolver.rs` | the addresses of names, with a bound for each peer |
//! | `relay.rs` | bytes from a connection to a stream and back |
//! | `socks5.rs`, `http.rs` | how applications ask a proxy for a connection |
//! | `udp.rs`, `udp/` | UDP flows |
//! | `tun.rs`, `tun/` | IP packets of a TUN interface |

pub(crate) mod http;
pub(crate) mod policy;
pub(crate) mod relay;
pub(crate) mod request;
mod resolver;
pub(crate) mod socks5;
pub(crate) mod tun;
pub(crate) mod udp;

use core::str::FromStr;
use std::io;

use anabranch_core::Config;
use anabranch_net::stream_transport;
use anabranch_secure::Cargo;
use tokio::runtime::{Builder, Runtime};

/// How each path is to be controlled, and what goes by which of them.
#[derive(Debug, clap::Args)]
pub(crate) struct TransportArguments {
    /// Congestion controller of every path, with any options; `anabranch controllers` lists them.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTROLLER)]
    controller: String,
    /// Packet scheduler; `anabranch schedulers` lists them.
    #[arg(long, value_name = "NAME", default_value = anabranch_schedulers::STREAM_DEFAULT)]
    scheduler: String,
}

/// It does not take random loss, as radio links have it, for congestion.
const DEFAULT_CONTROLLER: &str = "bbr3";

impl TransportArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let controller = anabranch_controllers::by_name(&self.controller)?;
        let scheduler = anabranch_schedulers::by_name(&self.scheduler)?;
        Ok(stream_transport(controller, scheduler))
    }
}

/// What a session is for, as it is told.
pub(crate) fn name(cargo: Cargo) -> &'static str {
    match cargo {
        Cargo::Frames => "video",
        Cargo::Streams => "connections",
        Cargo::Datagrams => "datagrams",
    }
}

/// Where tasks run that move bytes. One thread is enough: sessions have a thread of their own.
pub(crate) fn tasks() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("connections")
        .enable_all()
        .build()
}

/// Where connections may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// `None`: any.
    host: Option<String>,
    port: Option<u16>,
}

impl FromStr for Destination {
    type Err = String;

    /// `any`, `example.org:443`, `example.org:*`, `*:443`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected any, HOST:PORT, HOST:* or *:PORT");
        let (host, port) = match text {
            "any" => ("*", "*"),
            text => text.rsplit_once(':').ok_or_else(expected)?,
        };
        let port = match port {
            "*" => None,
            port => Some(port.parse().map_err(|_| expected())?),
        };
        match host {
            "" => Err(expected()),
            "*" => Ok(Destination { host: None, port }),
            host => Ok(Destination {
                host: Some(host.to_ascii_lowercase()),
                port,
            }),
        }
    }
}

impl Destination {
    /// Whether `target`, a host and a port, is among them.
    pub(crate) fn matches(&self, target: &str) -> bool {
        let Some((host, port)) = target.rsplit_once(':') else {
            return false;
        };
        let is_host = |own: &String| own.eq_ignore_ascii_case(host);
        let is_port = |own: u16| port.parse() == Ok(own);
        self.host.as_ref().is_none_or(is_host) && self.port.is_none_or(is_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_hosts_and_ports_or_any_of_either() {
        let matches = |text: &str, target| {
            let destination: Destination = text.parse().unwrap();
            destination.matches(target)
        };
        for (text, target, expected) in [
            ("any", "a.b:1", true),
            ("a.b:80", "A.B:80", true),
            ("a.b:80", "a.b:81", false),
            ("a.b:80", "c.a.b:80", false),
            ("a.b:*", "a.b:81", true),
            ("*:443", "a.b:443", true),
            ("*:443", "a.b:80", false),
            ("[::1]:*", "[::1]:9", true),
            ("any", "a.b", false),
        ] {
            assert_eq!(matches(text, target), expected, "{text} {target}");
        }
        for wrong in ["", "a.b", ":80", "a.b:x", "a.b:70000"] {
            let told = wrong.parse::<Destination>().unwrap_err();
            assert!(told.contains("expected any"), "{told}");
        }
    }
}
