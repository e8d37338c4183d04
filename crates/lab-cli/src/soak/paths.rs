//! The soak's paths, and changes of them.

use std::process::{Command, Stdio};

use anabranch_emu::{End, LinkDirection};
use anabranch_lab::EmulatedRoute;
use anabranch_link::{
    JitterAmount, JitterModel, JitterOrder, LinkChange, LinkConfig, LossModel, QueueLimit,
};
use anabranch_units::{DataRate, Duration};
use anyhow::{Context, bail};

use super::schedule::PATH_COUNT;
use crate::over_link::links::Links;

/// First table of the paths' routes: the block of the addresses, and the path's number.
const FIRST_TABLE: usize = 2_700;
/// Largest jitter of a path, after which packets overtake others.
const JITTER: Duration = Duration::from_millis(20);

/// Returns the paths as they are at the start. Packets of two of them overtake each other.
pub(super) fn routes() -> Vec<EmulatedRoute> {
    fn route(index: usize) -> EmulatedRoute {
        let link = LinkConfig {
            rate: Some(DataRate::from_megabits_per_second(4)),
            delay: Duration::from_millis(30 + 10 * index as u64),
            queue: QueueLimit::Time(Duration::from_millis(200)),
            loss: LossModel::Bernoulli { probability: 0.01 },
            jitter: (index % 2 == 1).then_some(JitterModel {
                amount: JitterAmount::Uniform(JITTER),
                order: JitterOrder::Reordered,
            }),
            ..LinkConfig::default()
        };
        EmulatedRoute {
            name: format!("path{index}"),
            forward: link.clone(),
            reverse: link,
        }
    }
    (0..PATH_COUNT).map(route).collect()
}

/// The paths' addresses, which change.
#[derive(Debug)]
pub(super) struct Paths<'a> {
    links: &'a Links,
    /// Last byte of each near interface's address.
    hosts: [u8; PATH_COUNT],
}

impl<'a> Paths<'a> {
    pub(super) fn new(links: &'a Links) -> Paths<'a> {
        Paths {
            links,
            hosts: [2; PATH_COUNT],
        }
    }

    /// Changes both directions of a path's link.
    ///
    /// # Errors
    /// The change is not valid.
    pub(super) fn change(&self, path: usize, change: &LinkChange) -> anyhow::Result<()> {
        for direction in [LinkDirection::Forward, LinkDirection::Reverse] {
            self.links.relay.change(path, direction, *change)?;
        }
        Ok(())
    }

    /// Gives both interfaces of a path another MTU.
    ///
    /// # Errors
    /// The program `ip` refuses it.
    pub(super) fn set_mtu(&self, path: usize, mtu: u32) -> anyhow::Result<()> {
        for (end, name) in [(End::Near, "path"), (End::Far, "far")] {
            self.ip(end, &format!("link set {name}{path} mtu {mtu}"))?;
        }
        Ok(())
    }

    /// Gives the near interface of a path another address, and takes the present one away.
    ///
    /// # Errors
    /// The program `ip` refuses it.
    pub(super) fn set_host(&mut self, path: usize, host: u8) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.hosts[path], host);
        if before == host {
            return Ok(());
        }
        let table = FIRST_TABLE + path;
        let network = format!("10.27.{path}");
        // The first address of a network takes all others with it.
        for line in [
            format!("addr del {network}.{before}/24 dev path{path}"),
            format!("addr add {network}.{host}/24 dev path{path}"),
            format!("rule add from {network}.{host} lookup {table}"),
            format!("rule del from {network}.{before} lookup {table}"),
        ] {
            self.ip(End::Near, &line)?;
        }
        self.add_routes(path)
    }

    /// Takes the near interface of a path down, and brings it up again.
    ///
    /// # Errors
    /// The program `ip` refuses it.
    pub(super) fn rebind(&self, path: usize) -> anyhow::Result<()> {
        self.ip(End::Near, &format!("link set path{path} down"))?;
        self.ip(End::Near, &format!("link set path{path} up"))?;
        self.add_routes(path)
    }

    /// Adds the routes that the kernel drops with an interface or an address.
    fn add_routes(&self, path: usize) -> anyhow::Result<()> {
        let (table, gateway) = (FIRST_TABLE + path, format!("10.27.{path}.1"));
        let via = format!("default via {gateway} dev path{path}");
        self.ip(End::Near, &format!("route replace {via} table {table}"))?;
        if path == 0 {
            self.ip(End::Near, &format!("route replace {via}"))?;
        }
        Ok(())
    }

    fn ip(&self, end: End, line: &str) -> anyhow::Result<()> {
        let output = self
            .links
            .network
            .namespace(end)
            .run(|| {
                Command::new("ip")
                    .args(line.split(' '))
                    .stdin(Stdio::null())
                    .output()
            })
            .context("cannot run `ip`: install iproute2")?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("`ip {line}`: {}", complaint.trim());
        }
        Ok(())
    }
}
