//! Datagrams of a world.

use std::net::SocketAddr;

use anabranch_units::Ecn;

/// A datagram in the world's Internet, with the addresses that others see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// Congestion mark.
    pub ecn: Ecn,
    /// Content of the datagram.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Returns the size of the IP packet in bytes: its content, and headers of 28 bytes (IPv4) or
    /// 48.
    pub fn wire_bytes(&self) -> u32 {
        let headers = if self.to.is_ipv4() { 28 } else { 48 };
        self.bytes.len() as u32 + headers
    }
}
