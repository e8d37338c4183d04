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
//! | `error.rs` | errors of the interface and of the machine's set-up |
//! | `client.rs`, `server.rs` | the tasks of proxy and server |
//! | `host.rs`, `host/` | the machine's routes, name servers and address translation |
//! | `no_host.rs` | their absence on other systems than Linux |

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "other systems make no interfaces")
)]

pub mod address;
pub mod client;
mod device;
mod error;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(not(target_os = "linux"))]
#[path = "tun/no_host.rs"]
pub mod host;
pub mod message;
pub mod packet;
pub mod routes;
pub mod server;

use core::ops::RangeInclusive;

use anabranch_net::{DatagramOptions, MAX_UNDIVIDED_BYTES};

pub use address::{InnerAddress, ParseInnerAddressError};
pub use device::{InterfaceNameError, name as interface_name};
pub use error::{DeviceError, HostError, TunError};
pub use message::is_of_tun;

/// All messages of an interface keep their order, apart from UDP flows.
const IN_ORDER: DatagramOptions = DatagramOptions {
    group: Some(0),
    lifetime: None,
};

/// Length of the longest packet that, with its kind, is one fragment on a path with an MTU of 1,500
/// bytes.
pub const DEFAULT_MTU: u16 = MAX_UNDIVIDED_BYTES - message::KIND_BYTES as u16;
/// Permitted MTUs: from that of IPv6 (RFC 8200 §5) to that of jumbo frames, in bytes.
pub const MTUS: RangeInclusive<u16> = 1_280..=9_000;

/// Maximum length of a packet.
const MAX_PACKET_BYTES: usize = 1 << 16;

/// TUN interface that a proxy or server creates.
#[derive(Clone, Debug, Default)]
pub struct TunOptions {
    /// Name of the interface; `None`: there is none.
    pub name: Option<String>,
    /// Its addresses, one of IPv4 and one of IPv6 at most. Empty: the usual one.
    pub addresses: Vec<InnerAddress>,
    /// Its MTU in bytes, in [`MTUS`].
    pub mtu: u16,
}

impl TunOptions {
    /// Returns whether an interface is requested.
    pub fn is_wanted(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the interface's addresses: the given ones, or `default`.
    ///
    /// # Errors
    /// There are two of a kind.
    fn addresses(&self, default: InnerAddress) -> Result<Vec<InnerAddress>, TunError> {
        let given = &self.addresses;
        for kind in [true, false] {
            if given
                .iter()
                .filter(|address| address.is_ipv4() == kind)
                .count()
                > 1
            {
                return Err(TunError::TooManyAddresses);
            }
        }
        Ok(if given.is_empty() {
            vec![default]
        } else {
            given.clone()
        })
    }
}
