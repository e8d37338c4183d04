//! Sizes of packets, and of their payload.

use crate::config::Config;
use crate::recovery::MtuDiscovery;

/// Sizes in bytes; those of packets are on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Maximum payload of a packet.
    pub(super) fragment_bytes: u16,
    /// Part of a packet that the driver and the network add.
    pub(super) overhead_bytes: u32,
    /// Largest part of a packet that is not payload.
    pub(super) header_bytes: u32,
    /// The most bytes of a packet.
    pub(super) max_packet_bytes: u32,
    mtu: Option<MtuDiscovery>,
}

impl Sizes {
    /// Returns the sizes for content whose longest header has `header_bytes` bytes.
    pub(super) fn new(config: &Config, header_bytes: u32) -> Self {
        let header_bytes = config.overhead_bytes + header_bytes;
        Sizes {
            fragment_bytes: config.fragment_bytes,
            overhead_bytes: config.overhead_bytes,
            header_bytes,
            max_packet_bytes: u32::from(config.fragment_bytes) + header_bytes,
            mtu: config.mtu,
        }
    }

    /// Returns the payload of a full packet, as a share of its bytes.
    pub(super) fn payload_share(&self) -> f64 {
        f64::from(self.fragment_bytes) / f64::from(self.max_packet_bytes)
    }

    /// Returns the largest payload in packets of `packet_bytes`. It is a multiple of the unit
    /// unless it is the configured size.
    pub(super) fn fragment_bytes_in(&self, packet_bytes: u32) -> u16 {
        let room = packet_bytes.saturating_sub(self.header_bytes);
        if room >= u32::from(self.fragment_bytes) {
            return self.fragment_bytes;
        }
        let unit = self.mtu.map_or(1, |mtu| u32::from(mtu.unit_bytes.max(1)));
        // Less than the configured size, which has 16 bits.
        match room - room % unit {
            0 => room as u16,
            units => units as u16,
        }
    }

    /// Returns the payload that fits packets of these sizes, or of the size that every path carries
    /// if there are none; the configured one if MTUs are not searched.
    pub(super) fn fragment_bytes_for(&self, packet_bytes: impl Iterator<Item = u32>) -> u16 {
        match self.mtu {
            Some(mtu) => self.fragment_bytes_in(packet_bytes.min().unwrap_or(mtu.base_bytes)),
            None => self.fragment_bytes,
        }
    }

    /// Returns the payload that every path carries; `None` if MTUs are not searched.
    pub(super) fn base_fragment_bytes(&self) -> Option<u16> {
        self.mtu.map(|mtu| self.fragment_bytes_in(mtu.base_bytes))
    }
}
