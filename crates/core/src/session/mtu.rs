//! Packets no larger than their paths carry: what media and streams have in common.

use super::{Content, Session};

impl<C: Content> Session<C> {
    /// Returns the largest overhead on the wire of a packet of the content.
    pub(super) fn header_bytes(&self) -> u32 {
        self.max_packet_bytes - u32::from(self.config.fragment_bytes)
    }

    /// Returns the payload of a fragment or segment in packets of `bytes` bytes on the wire.
    pub(super) fn fragment_bytes_in(&self, bytes: u32) -> u16 {
        self.config.fragment_bytes_in(bytes, self.header_bytes())
    }
}
