//! Packets no larger than their paths carry: cutting frames, halving fragments.

use anabranch_units::Instant;

use super::MediaSession;
use crate::media::Half;
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::PacketContent;
use crate::scheduler::{PacketKind, PacketView};
use crate::send_reason::SendReason;

impl MediaSession {
    /// Sets the fragment size of the next frame to the smallest packet size of the paths in use.
    pub(super) fn update_fragment_bytes(&mut self) {
        let Some(limits) = self.config.mtu else {
            return;
        };
        let standby = &self.content.standby;
        let is_used =
            |path: &&Path| path.state().is_usable() && !standby.is_standby(&self.paths, path.id);
        let used = self.paths.iter().filter(is_used);
        let carried = used.map(|path| path.recovery.carried_bytes()).min();
        let bytes = carried.unwrap_or(limits.base_bytes);
        let fragment_bytes = self.fragment_bytes_in(bytes);
        self.content.send_buffer.set_fragment_bytes(fragment_bytes);
    }

    /// Writes a fragment that is bound to the path, or half of it if the path does not carry all of
    /// it. `None` if it need not be sent any more.
    pub(super) fn write_fragment(
        &mut self,
        id: PathId,
        packet: &PacketView,
        buf: &mut Vec<u8>,
    ) -> Option<PacketContent> {
        let (frame, fragment) = (packet.frame, packet.fragment);
        let header_bytes = self.header_bytes();
        let outgoing = self.content.send_buffer.fragment(frame, fragment)?;
        let path = &mut self.paths[id.index()];
        if !path.carries(outgoing.payload.len() as u32 + header_bytes) {
            return self.write_half(id, packet, buf);
        }
        // The path may carry more than when a half left: no other half follows.
        path.take_sent_half(frame, fragment);
        path.write_tracked_header(buf);
        outgoing.write(None, buf);
        Some(PacketContent::Fragment { frame, fragment })
    }

    #[cold]
    fn write_half(
        &mut self,
        id: PathId,
        packet: &PacketView,
        buf: &mut Vec<u8>,
    ) -> Option<PacketContent> {
        let (frame, fragment) = (packet.frame, packet.fragment);
        let half = self.next_half(id, packet);
        let outgoing = self.content.send_buffer.fragment(frame, fragment)?;
        self.paths[id.index()].write_tracked_header(buf);
        outgoing.write(Some(half), buf);
        Some(PacketContent::Half {
            frame,
            fragment,
            half,
        })
    }

    /// Returns the half of a fragment that leaves now: one that has not arrived and did not leave
    /// just before. The packet is kept for the other half if that is wanted too.
    fn next_half(&mut self, id: PathId, packet: &PacketView) -> Half {
        let path = &mut self.paths[id.index()];
        let (frame, fragment) = (packet.frame, packet.fragment);
        let sent = path.take_sent_half(frame, fragment);
        let acked = self.content.send_buffer.acked_half(frame, fragment);
        match acked.or(sent) {
            Some(half) => half.other(),
            None => {
                path.keep_for_other_half(*packet, Half::First);
                Half::First
            }
        }
    }

    /// Records a copy that has left, with the half that follows the other if it is in two.
    pub(super) fn on_fragment_left(
        &mut self,
        now: Instant,
        id: PathId,
        packet: &PacketView,
        reason: SendReason,
    ) {
        let (frame, fragment) = (packet.frame, packet.fragment);
        if self.paths[id.index()].awaits_other_half(frame, fragment) {
            return;
        }
        self.content
            .send_buffer
            .on_sent(frame, fragment, id, reason);
        if packet.kind() == PacketKind::Source
            && let Some(sender) = &mut self.content.fec_sender
        {
            sender.on_media_sent(now, id, packet.bytes);
        }
        if packet.kind() == PacketKind::Retransmission {
            let counters = &mut self.paths[id.index()].counters;
            counters.retransmitted_packets += 1;
            counters.retransmitted_bytes += u64::from(packet.bytes);
            self.on_retransmitted(now, id, packet);
        }
    }
}
