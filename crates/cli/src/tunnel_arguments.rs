//! Options of `proxy` and `serve`: transport, TUN interface, routes.

use std::net::IpAddr;

use anabranch_core::Config;
use anabranch_net::{datagram_transport, stream_transport};
use anabranch_terminal::arguments::positive;
use anabranch_tunnel::tun::host::clean_up;
use anabranch_tunnel::tun::host::default_route::RouteOptions;
use anabranch_tunnel::tun::{DEFAULT_MTU, InnerAddress, MTUS, TunOptions, interface_name};
use anabranch_tunnel::udp::Rule;
use anabranch_units::Duration;

/// Congestion control of the paths, and their scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct TransportArguments {
    /// Congestion controller of every path, with any options; `anabranch list controllers` lists
    /// them.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTROLLER)]
    controller: String,
    /// Packet scheduler; `anabranch list schedulers` lists them.
    #[arg(long, value_name = "NAME", default_value = anabranch_schedulers::STREAM_DEFAULT)]
    scheduler: String,
}

/// Default controller of tunnels. It does not take the random loss of radio links for congestion.
const DEFAULT_CONTROLLER: &str = "bbr3";

impl TransportArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let controller = anabranch_controllers::by_name(&self.controller)?;
        let scheduler = anabranch_schedulers::by_name(&self.scheduler)?;
        Ok(stream_transport(controller, scheduler))
    }
}

/// Transport options of datagrams.
#[derive(Debug, clap::Args)]
pub(crate) struct DatagramArguments {
    /// Maximum age of UDP datagrams. The sending end drops older ones. The receiving end holds
    /// others back for this time at most, to keep their order.
    #[arg(long, value_name = "TIME", default_value = "200 ms", value_parser = positive)]
    udp_deadline: Duration,
    /// Forward error correction of UDP datagrams that this end sends: adaptive, fixed, frame, off,
    /// webrtc or window, with any options. `anabranch list fec` lists them.
    #[arg(long, value_name = "POLICY", default_value = anabranch_schedulers::FEC_DEFAULT)]
    udp_fec: String,
}

impl DatagramArguments {
    /// Returns the rules of a proxy, each with a deadline.
    pub(crate) fn with_deadlines(&self, rules: &[Rule]) -> Vec<Rule> {
        let rules = rules.iter().cloned();
        rules
            .map(|rule| rule.or_deadline(self.udp_deadline))
            .collect()
    }

    /// Returns the transport of datagrams for these rules: its deadline is the longest of theirs.
    pub(crate) fn config(&self, rules: &[Rule]) -> anyhow::Result<Config> {
        let deadlines = rules.iter().filter_map(|rule| rule.options().deadline);
        let mut config = datagram_transport(deadlines.fold(self.udp_deadline, Duration::max));
        config.media.fec = anabranch_schedulers::fec_policy(&self.udp_fec)?;
        Ok(config)
    }
}

/// TUN interface of a proxy or server.
#[derive(Debug, clap::Args)]
pub(crate) struct TunArguments {
    /// Create a TUN interface of this name (Linux, as root). IP packets that enter the proxy's
    /// interface leave the server's, and vice versa.
    #[arg(long, value_name = "NAME", value_parser = interface_name)]
    tun: Option<String>,
    /// Address of the interface with its network: one of IPv4, one of IPv6. The default is
    /// 10.99.0.1/24 at a server and 10.99.0.2/24 at a proxy. A server reserves its network's other
    /// addresses for its --allow in their order.
    #[arg(long, value_name = "ADDR/PREFIX", requires = "tun")]
    tun_address: Vec<InnerAddress>,
    /// MTU of the interface, 1,280 to 9,000 bytes. Packets above the default travel in two or more
    /// parts.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MTU, requires = "tun",
        value_parser = clap::value_parser!(u16).range(mtus()))]
    tun_mtu: u16,
}

impl TunArguments {
    pub(crate) fn options(&self) -> TunOptions {
        TunOptions {
            name: self.tun.clone(),
            addresses: self.tun_address.clone(),
            mtu: self.tun_mtu,
        }
    }
}

/// Returns the permitted MTUs in the type of clap's ranges.
fn mtus() -> core::ops::RangeInclusive<i64> {
    i64::from(*MTUS.start())..=i64::from(*MTUS.end())
}

/// Options for the machine's routes and name servers.
#[derive(Debug, clap::Args)]
pub(crate) struct RouteArguments {
    /// Sends all traffic of this machine through the interface of --tun, once the server has
    /// granted its address. The paths, networks with routes of their own and answers to those that
    /// call this machine keep their ways. All is undone at the end.
    #[arg(long, requires = "tun")]
    default_route: bool,
    /// Name server to use while --default-route holds; may be given several times.
    #[arg(long, value_name = "ADDR", requires = "default_route")]
    dns: Vec<IpAddr>,
    /// Undoes the changes that a --default-route or a --nat has left behind, as after a crash or
    /// SIGKILL, and ends. The next start with the same option does that by itself.
    #[arg(long, exclusive = true)]
    clean_up: bool,
}

impl RouteArguments {
    /// Returns whether only the changes of an earlier run are to be undone, and undoes them.
    ///
    /// # Errors
    /// They cannot be undone.
    pub(crate) fn has_cleaned_up(&self) -> anyhow::Result<bool> {
        if self.clean_up {
            clean_up()?;
        }
        Ok(self.clean_up)
    }

    pub(crate) fn options(&self) -> RouteOptions {
        RouteOptions {
            is_default_route: self.default_route,
            name_servers: self.dns.clone(),
        }
    }
}
