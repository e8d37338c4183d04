//! `--open-port`: a port of the local router that leads to this program.
//!
//! The router is asked by PCP (RFC 6887), NAT-PMP (RFC 6886) or UPnP, in this order. Nothing is
//! sent but to the router and, for UPnP, to the local network's group of such devices. The port is
//! asked for again at half of its lifetime, and given back at the end.

use core::fmt;
use core::num::NonZeroU16;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use anabranch_terminal::print;
use anyhow::{Context, anyhow, bail, ensure};
use crab_nat::{
    InternetProtocol, PortMapping, PortMappingOptions, PortMappingType, TimeoutConfig, natpmp, pcp,
};
use igd_next::{Gateway, PortMappingProtocol, SearchOptions, search_gateway};
use tokio::runtime::{Builder, Runtime};

/// Lifetime that is asked for: a program that is killed leaves the port open for that time at most.
const LIFETIME_SECONDS: u32 = 3_600;
/// A port whose renewal has failed is asked for again after this time.
const RETRY: StdDuration = StdDuration::from_secs(60);
/// Requests to the router by PCP and NAT-PMP: 0.25, 0.5 and 1 s.
const REQUESTS: TimeoutConfig = TimeoutConfig {
    initial_timeout: StdDuration::from_millis(250),
    max_retries: 2,
    max_retry_timeout: None,
};
/// Time for a router to answer by UPnP.
const SEARCH: StdDuration = StdDuration::from_secs(3);
/// Group and port at which devices of UPnP listen (UPnP Device Architecture 1.0, §1.1.2).
const SSDP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 1_900);
/// Name of the port in the router's list.
const DESCRIPTION: &str = "anabranch";

/// The router, and this machine's place behind it.
#[derive(Clone, Copy, Debug)]
struct Router {
    address: Ipv4Addr,
    local: Ipv4Addr,
}

/// A port that the router has opened.
enum Opened {
    ByRequest(PortMapping),
    ByUpnp {
        gateway: Gateway,
        port: u16,
        local: SocketAddr,
    },
}

/// A port of the router, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenPort {
    outside: SocketAddr,
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OpenPort {
    /// Asks the local router for a port that leads to `port` of this machine. It takes 8 s at most.
    ///
    /// # Errors
    /// There is no router, or it opens none. The message names the setting of the router.
    pub(crate) fn request(port: u16) -> anyhow::Result<OpenPort> {
        let router = Router::find().with_context(|| advice(None, port))?;
        OpenPort::of(router, port).with_context(|| advice(Some(router.local), port))
    }

    fn of(router: Router, port: u16) -> anyhow::Result<OpenPort> {
        let requests = Builder::new_current_thread().enable_all().build()?;
        let (mut opened, outside) = Opened::by_any(&requests, router, port)?;
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("open-port".to_owned())
            .spawn(move || {
                let mut wait = opened.renew_after();
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    wait = match opened.renew(&requests) {
                        Ok(()) => opened.renew_after(),
                        Err(error) => {
                            print::warn(format_args!("the router's port may close: {error:#}"));
                            RETRY
                        }
                    };
                }
                opened.close(&requests);
            })?;
        Ok(OpenPort {
            outside,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Returns the address from outside.
    pub(crate) fn outside(&self) -> SocketAddr {
        self.outside
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks for a port if the user wishes it. Prints the outcome, and advice if there is none. Returns
/// the port.
pub(crate) fn requested(is_wished: bool, port: u16) -> Option<OpenPort> {
    if !is_wished {
        return None;
    }
    match OpenPort::request(port) {
        Ok(open) => {
            let outside = open.outside();
            print::note(format_args!(
                "the router passes {outside} on to this program (UDP)"
            ));
            if is_inner(outside.ip()) {
                print::warn(format_args!(
                    "{} is no address of the Internet: the router is behind another one, or the \
                     provider shares addresses. Use a relay: --via-relay LINK, from `anabranch \
                     serve --relay` on a machine with a public address",
                    outside.ip()
                ));
            }
            Some(open)
        }
        Err(error) => {
            print::warn(format_args!("{error:#}"));
            None
        }
    }
}

/// Returns the advice for a router that opens no port by itself.
fn advice(local: Option<Ipv4Addr>, port: u16) -> String {
    let local = local.map_or_else(|| "this machine".to_owned(), |local| local.to_string());
    format!(
        "--open-port: no port was opened. Let the router forward UDP port {port} to {local}, port \
         {port} (\"port forwarding\" in its settings), and name its public address by \
         --pair=HOST; or use a relay (--via-relay)"
    )
}

/// Returns whether an address is none of the Internet: private (RFC 1918), shared by a provider
/// (RFC 6598), or of the machine or link itself.
fn is_inner(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            is_shared || address.is_private() || address.is_loopback() || address.is_link_local()
        }
        IpAddr::V6(_) => false,
    }
}

impl Router {
    /// Finds the router of the default route.
    fn find() -> anyhow::Result<Router> {
        let text = std::fs::read_to_string("/proc/net/route")
            .context("this system does not list its routes")?;
        let address =
            default_gateway(&text).context("this machine has no default route of IPv4")?;
        match outward() {
            Some(IpAddr::V4(local)) => Ok(Router { address, local }),
            _ => bail!("this machine has no address of IPv4"),
        }
    }
}

/// Returns the gateway of the default route with the smallest metric, from Linux's list of routes.
fn default_gateway(routes: &str) -> Option<Ipv4Addr> {
    let best = routes
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, destination, gateway, _, _, _, metric, mask, ..] = words[..] else {
                return None;
            };
            let gateway = hexadecimal(gateway)?;
            let is_default =
                hexadecimal(destination)? == 0 && hexadecimal(mask)? == 0 && gateway != 0;
            // The kernel writes the bytes of the address as a number of this machine.
            let address = Ipv4Addr::from(gateway.to_ne_bytes());
            is_default.then_some((metric.parse::<u32>().ok()?, address))
        })
        .min();
    best.map(|(_, gateway)| gateway)
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

impl Opened {
    /// Asks by each protocol until one opens a port. Returns its address from outside.
    fn by_any(
        requests: &Runtime,
        router: Router,
        port: u16,
    ) -> anyhow::Result<(Opened, SocketAddr)> {
        let by_request = Opened::by_request(requests, router, port);
        let first = match by_request {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let by_upnp = Opened::by_upnp(router, port);
        by_upnp.map_err(|second| anyhow!("PCP and NAT-PMP: {first:#}; UPnP: {second:#}"))
    }

    /// Asks by PCP, and by NAT-PMP if the router does not answer that.
    fn by_request(
        requests: &Runtime,
        router: Router,
        port: u16,
    ) -> anyhow::Result<(Opened, SocketAddr)> {
        let internal = NonZeroU16::new(port).context("port 0")?;
        let options = PortMappingOptions {
            external_port: Some(internal),
            lifetime_seconds: Some(LIFETIME_SECONDS),
            timeout_config: Some(REQUESTS),
        };
        let gateway = router.address.into();
        let udp = InternetProtocol::Udp;
        requests.block_on(async {
            let base = pcp::BaseMapRequest::new(gateway, router.local.into(), udp, internal);
            let mapping = match pcp::port_mapping(base, None, None, options).await {
                Ok(mapping) => mapping,
                Err(_) => natpmp::port_mapping(gateway, udp, internal, options).await?,
            };
            let address = match mapping.mapping_type() {
                PortMappingType::Pcp { external_ip, .. } => external_ip,
                PortMappingType::NatPmp => natpmp::external_address(gateway, Some(REQUESTS))
                    .await?
                    .into(),
            };
            let outside = SocketAddr::new(address.to_canonical(), mapping.external_port().get());
            Ok((Opened::ByRequest(mapping), outside))
        })
    }

    /// Asks a router that answers to UPnP.
    fn by_upnp(router: Router, port: u16) -> anyhow::Result<(Opened, SocketAddr)> {
        let mut options = SearchOptions::default();
        options.bind_addr = SocketAddr::new(router.local.into(), 0);
        options.broadcast_address = SSDP;
        options.timeout = Some(SEARCH);
        options.single_search_timeout = Some(SEARCH);
        let gateway = search_gateway(options)?;
        ensure!(
            gateway.addr.ip() == IpAddr::V4(router.address),
            "{} answers, which is not the router",
            gateway.addr.ip()
        );
        let local = SocketAddrV4::new(router.local, port).into();
        gateway.add_port(
            PortMappingProtocol::UDP,
            port,
            local,
            LIFETIME_SECONDS,
            DESCRIPTION,
        )?;
        let outside = SocketAddr::new(gateway.get_external_ip()?, port);
        Ok((
            Opened::ByUpnp {
                gateway,
                port,
                local,
            },
            outside,
        ))
    }

    /// Returns the time after which to ask for the port again: half of its lifetime.
    fn renew_after(&self) -> StdDuration {
        let seconds = match self {
            Opened::ByRequest(mapping) => mapping.lifetime(),
            Opened::ByUpnp { .. } => LIFETIME_SECONDS,
        };
        StdDuration::from_secs(u64::from(seconds / 2).max(1))
    }

    fn renew(&mut self, requests: &Runtime) -> anyhow::Result<()> {
        match self {
            Opened::ByRequest(mapping) => {
                let before = mapping.external_port();
                requests.block_on(mapping.renew())?;
                let now = mapping.external_port();
                ensure!(now == before, "it is {now} now, and links name {before}");
                Ok(())
            }
            Opened::ByUpnp {
                gateway,
                port,
                local,
            } => {
                let udp = PortMappingProtocol::UDP;
                Ok(gateway.add_port(udp, *port, *local, LIFETIME_SECONDS, DESCRIPTION)?)
            }
        }
    }

    /// Gives the port back. A router that does not answer closes it when its lifetime is over.
    fn close(self, requests: &Runtime) {
        match self {
            Opened::ByRequest(mapping) => {
                let _ = requests.block_on(mapping.try_drop());
            }
            Opened::ByUpnp { gateway, port, .. } => {
                let _ = gateway.remove_port(PortMappingProtocol::UDP, port);
            }
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

/// Returns the address from which this machine reaches others. It sends nothing: the addresses for
/// documentation (RFC 5737, RFC 3849) only select a route.
pub(crate) fn outward() -> Option<IpAddr> {
    let addresses = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    addresses.into_iter().find_map(|(local, remote)| {
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(remote).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
mod tests;
