//! IP packets in datagrams, between an interface at the proxy and one at the server.
//!
//! ```text
//! kernel ─▶ proxy's interface ─▶ session of datagrams ─▶ server's interface ─▶ kernel
//! ```
//!
//! A proxy claims the addresses of its interface, and the server grants them to its key or not. It
//! routes packets for them to the key's session, and accepts no packet from it with another source.
//!
//! | file | idea |
//! |---|---|
//! | `address.rs` | an interface's address and its network |
//! | `packet.rs` | source and destination of an IP packet |
//! | `message.rs` | messages in a session's datagram |
//! | `routes.rs` | which key may use an address, and which session has it |
//! | `device.rs` | the interface |
//! | `client.rs`, `server.rs` | the tasks of proxy and server |
//! | `host.rs`, `host/` | the machine's routes, name servers and address translation |

pub(crate) mod address;
pub(crate) mod client;
mod device;
pub(crate) mod host;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod routes;
pub(crate) mod server;

use anabranch_net::DATAGRAM_FRAGMENT_BYTES;

use address::InnerAddress;
pub(crate) use message::is_of_tun;

/// Length of the longest packet that, with its kind, is one fragment on a path with an MTU of 1,500
/// bytes.
const DEFAULT_MTU: u16 = DATAGRAM_FRAGMENT_BYTES - message::KIND_BYTES as u16;
/// Minimum MTU of an IPv6 link (RFC 8200 §5).
const MIN_MTU: i64 = 1_280;
/// MTU of jumbo frames.
const MAX_MTU: i64 = 9_000;

/// Maximum length of a packet.
const MAX_PACKET_BYTES: usize = 1 << 16;

/// TUN interface of a proxy or server.
#[derive(Debug, clap::Args)]
pub(crate) struct TunArguments {
    /// Create a TUN interface of this name (Linux, as root). IP packets that enter the proxy's
    /// interface leave the server's, and vice versa.
    #[arg(long, value_name = "NAME", value_parser = device::name)]
    tun: Option<String>,
    /// Address of the interface with its network: one of IPv4, one of IPv6. The default is
    /// 10.99.0.1/24 at a server and 10.99.0.2/24 at a proxy. A server reserves its network's other
    /// addresses for its --allow in their order.
    #[arg(long, value_name = "ADDR/PREFIX", requires = "tun")]
    tun_address: Vec<InnerAddress>,
    /// MTU of the interface, 1,280 to 9,000 bytes. Packets above the default travel in two or more
    /// parts.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MTU, requires = "tun",
        value_parser = clap::value_parser!(u16).range(MIN_MTU..=MAX_MTU))]
    tun_mtu: u16,
}

impl TunArguments {
    /// Returns whether an interface is requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.tun.is_some()
    }

    /// Returns the interface's addresses: the given ones, or `default`.
    ///
    /// # Errors
    /// There are two of a kind.
    fn addresses(&self, default: InnerAddress) -> anyhow::Result<Vec<InnerAddress>> {
        let given = &self.tun_address;
        for kind in [true, false] {
            let is_of_kind = |address: &&InnerAddress| address.is_ipv4() == kind;
            if given.iter().filter(is_of_kind).count() > 1 {
                anyhow::bail!("--tun-address: one of IPv4 and one of IPv6 at the most");
            }
        }
        Ok(match given.is_empty() {
            true => vec![default],
            false => given.clone(),
        })
    }
}
