//! Packets no larger than their paths carry: cutting frames, and fragments again.

use anabranch_units::Instant;

use super::MediaSession;
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

    /// Writes a fragment that is bound to the path; its first piece, if the path does not carry all
    /// of it. `None` if it need not be sent any more.
    pub(super) fn write_fragment(
        &mut self,
        id: PathId,
        packet: &PacketView,
        buf: &mut Vec<u8>,
    ) -> Option<PacketContent> {
        let (frame, fragment) = (packet.frame, packet.fragment);
        let header_bytes = self.header_bytes();
        let mut outgoing = self.content.send_buffer.fragment(frame, fragment)?;
        let payload_bytes = outgoing.payload.len();
        if !self.paths[id.index()].carries(payload_bytes as u32 + header_bytes) {
            self.cut_again(id, packet, payload_bytes);
            outgoing = self.content.send_buffer.fragment(frame, fragment)?;
        }
        self.paths[id.index()].write_tracked_header(buf);
        outgoing.write(buf);
        Some(PacketContent::Fragment {
            frame,
            fragment,
            is_piece: self.content.send_buffer.is_piece(packet.id()),
        })
    }

    /// Cuts a fragment that the path does not carry into pieces that every path carries. All but
    /// the first, which leaves now, are bound to the path.
    #[cold]
    fn cut_again(&mut self, id: PathId, packet: &PacketView, payload_bytes: usize) {
        let Some(limits) = self.config.mtu else {
            return;
        };
        let piece_bytes = self.fragment_bytes_in(limits.base_bytes);
        if payload_bytes > usize::from(piece_bytes) {
            let pieces = self.content.send_buffer.cut_again(packet, piece_bytes);
            self.paths[id.index()].bind_pieces(pieces);
        }
    }

    /// Records a copy that has left.
    pub(super) fn on_fragment_left(
        &mut self,
        now: Instant,
        id: PathId,
        packet: &PacketView,
        reason: SendReason,
    ) {
        self.content
            .send_buffer
            .on_sent(packet.frame, packet.fragment, id, reason);
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
