//! The paths of a session, as commands are told of them.

use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_net::ClientPath;
use anyhow::{anyhow, bail};

use crate::way_out::WayOut;

/// Where the other end is, and the ways to it.
#[derive(Debug, clap::Args)]
pub(crate) struct PathArguments {
    /// Where the other end listens: host and port. Give it once, or once for each --via if it
    /// has several addresses.
    #[arg(long, value_name = "ADDR", required = true)]
    to: Vec<String>,
    /// Network interface or local address of a path; once for each path. By default there is one
    /// path, by the default route. `wlan0,weight=2` is preferred, `wwan0,metered` stands by while
    /// the others suffice.
    #[arg(long, value_name = "INTERFACE|ADDRESS[,weight=N][,metered]")]
    via: Vec<WayOut>,
}

impl PathArguments {
    /// The paths: every way out with its own destination, or all with the same.
    pub(crate) fn resolve(&self) -> anyhow::Result<Vec<ClientPath>> {
        let remotes = self
            .to
            .iter()
            .map(|to| resolve(to))
            .collect::<Result<Vec<_>, _>>()?;
        let vias = match self.via.as_slice() {
            [] => vec![WayOut::default(); remotes.len()],
            vias => vias.to_vec(),
        };
        let remotes = match remotes.as_slice() {
            [remote] => vec![*remote; vias.len()],
            remotes if remotes.len() == vias.len() => remotes.to_vec(),
            remotes => bail!(
                "{} times --to and {} times --via: give --to once, or once for each --via",
                remotes.len(),
                vias.len()
            ),
        };
        let ways: Vec<_> = vias.iter().zip(&remotes).collect();
        for (index, (way, remote)) in ways.iter().enumerate() {
            let is_same =
                |(other, to): &&(&WayOut, &SocketAddr)| other.via == way.via && to == remote;
            if ways[..index].iter().any(|other| is_same(&other)) {
                bail!(
                    "two paths to {remote} by {}: they would be one; give every --via once, or \
                     each its own --to",
                    way.via
                );
            }
        }
        let path = |(way, remote): (WayOut, SocketAddr)| ClientPath {
            via: way.via,
            remote,
            options: way.options,
        };
        Ok(vias.into_iter().zip(remotes).map(path).collect())
    }
}

fn resolve(to: &str) -> anyhow::Result<SocketAddr> {
    let resolved = to
        .to_socket_addrs()
        .map_err(|error| anyhow!("--to {to}: {error} (expected host and port, as 192.0.2.1:7000)"));
    resolved?
        .next()
        .ok_or_else(|| anyhow!("--to {to}: the name has no address"))
}
