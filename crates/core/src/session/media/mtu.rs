//! Packets no larger than their paths carry: cutting frames, and fragments again.

use super::Media;
use crate::media::SendBuffer;
use crate::path::Path;
use crate::recovery::PacketContent;
use crate::scheduler::PacketView;
use crate::session::sizes::Sizes;

impl Media {
    /// Sets the fragment size of the next frame to the smallest packet size of the paths in use.
    pub(super) fn update_fragment_bytes(&mut self, sizes: &Sizes, paths: &[Path]) {
        let used = paths
            .iter()
            .filter(|path| path.state().is_usable() && !self.standby.is_standby(paths, path.id));
        let bytes = sizes.fragment_bytes_for(used.map(|path| path.recovery.carried_bytes()));
        self.send_buffer.set_fragment_bytes(bytes);
    }
}

/// Writes a fragment that is bound to the path; its first piece, if the path does not carry all of
/// it. `None` if it need not be sent any more.
pub(super) fn write_fragment(
    packet: &PacketView,
    path: &mut Path,
    send_buffer: &mut SendBuffer,
    sizes: &Sizes,
    buf: &mut Vec<u8>,
) -> Option<PacketContent> {
    let (frame, fragment) = (packet.frame, packet.fragment);
    let mut outgoing = send_buffer.fragment(frame, fragment)?;
    let payload_bytes = outgoing.payload.len();
    if !path.carries(payload_bytes as u32 + sizes.header_bytes) {
        cut_again(packet, payload_bytes, path, send_buffer, sizes);
        outgoing = send_buffer.fragment(frame, fragment)?;
    }
    path.write_tracked_header(buf);
    outgoing.write(buf);
    Some(PacketContent::Fragment {
        frame,
        fragment,
        is_piece: send_buffer.is_piece(packet.id()),
    })
}

/// Cuts a fragment that the path does not carry into pieces that every path carries. All but the
/// first, which leaves now, are bound to the path.
#[cold]
fn cut_again(
    packet: &PacketView,
    payload_bytes: usize,
    path: &mut Path,
    send_buffer: &mut SendBuffer,
    sizes: &Sizes,
) {
    if let Some(piece_bytes) = sizes.base_fragment_bytes()
        && payload_bytes > usize::from(piece_bytes)
    {
        path.bind_pieces(send_buffer.cut_again(packet, piece_bytes));
    }
}
