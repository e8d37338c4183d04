//! Packets no larger than their paths carry: what media and streams have in common.

use anabranch_units::Instant;

use super::content::Written;
use super::{Content, Session};
use crate::path_view::PathId;
use crate::recovery::PacketContent;
use crate::send_reason::SendReason;
use crate::wire;

impl<C: Content> Session<C> {
    /// Returns the largest overhead on the wire of a packet of the content.
    pub(super) fn header_bytes(&self) -> u32 {
        self.max_packet_bytes - u32::from(self.config.fragment_bytes)
    }

    /// Returns the payload of a fragment or segment in packets of `bytes` bytes on the wire.
    pub(super) fn fragment_bytes_in(&self, bytes: u32) -> u16 {
        self.config.fragment_bytes_in(bytes, self.header_bytes())
    }

    /// Writes a probe for a larger MTU, if it is time, directly before another packet, by which its
    /// loss shows.
    pub(super) fn write_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let path = &mut self.paths[id.index()];
        let bytes = path.recovery.mtu_mut()?.due_probe(now)?;
        let size = bytes.saturating_sub(self.config.overhead_bytes) as usize;
        let padding_bytes = size.saturating_sub(wire::TRACKED_HEADER_BYTES);
        path.write_tracked_header(buf);
        wire::write_padding(padding_bytes, buf);
        path.recovery.mtu_mut().map(|mtu| {
            mtu.on_probe_sent(bytes);
            (PacketContent::MtuProbe, SendReason::MtuProbe)
        })
    }
}
