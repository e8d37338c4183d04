//! The cuts of a frame into fragments.
//!
//! A frame is cut for the packet size of all paths in use. A path may turn out to carry less while
//! a fragment waits or is lost; then the fragment is cut again, into pieces that fit any path. The
//! first piece keeps the fragment's number, the others are fragments of their own.

use core::ops::Range;

use super::{Fragment, FragmentId, OutgoingFrame, SendBuffer, State};
use crate::path_view::PathId;
use crate::recovery::PacketContent;
use crate::scheduler::PacketView;

/// Bytes that become fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// As many as fill fragments.
    Full,
    /// All.
    All,
    /// All, and the last fragment ends the frame. It is empty if there are none.
    End,
}

impl Fragment {
    /// Returns a fragment of these bytes, which waits.
    pub(super) fn new(bytes: Range<u32>) -> Self {
        let length = (bytes.end - bytes.start) as u16;
        Fragment {
            offset: bytes.start,
            length,
            cut_length: length,
            ..Fragment::default()
        }
    }

    /// Returns the bytes of the fragment in its frame.
    pub(super) fn bytes(&self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + usize::from(self.length)
    }

    /// Returns the bytes of the fragment before it was cut again.
    pub(super) fn cut_bytes(&self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + usize::from(self.cut_length)
    }

    /// Returns whether pieces of it are fragments of their own.
    pub(super) fn is_cut_again(&self) -> bool {
        self.length < self.cut_length
    }
}

impl OutgoingFrame {
    /// Returns the length of its longest fragment.
    pub(super) fn longest_bytes(&self) -> usize {
        self.bytes.len().min(usize::from(self.fragment_bytes))
    }

    /// Returns the number of bytes that are in no fragment.
    pub(super) fn tail_bytes(&self) -> usize {
        self.bytes.len() - self.cut_bytes
    }

    /// Cuts bytes that are in no fragment. Returns the number of new fragments.
    pub(super) fn cut(&mut self, cut: Cut) -> u16 {
        let (total, step) = (self.bytes.len(), usize::from(self.fragment_bytes));
        let before = self.fragments.len();
        while self.cut_bytes + step <= total || (cut != Cut::Full && self.cut_bytes < total) {
            let end = (self.cut_bytes + step).min(total);
            let bytes = self.cut_bytes as u32..end as u32;
            self.fragments.push(Fragment::new(bytes));
            self.cut_bytes = end;
        }
        if cut == Cut::End {
            if self.fragments.len() == before {
                let end = total as u32;
                self.fragments.push(Fragment::new(end..end));
            }
            self.ends_from = self.fragments.last().map(|last| last.offset);
        }
        let count = (self.fragments.len() - before) as u16;
        self.unacked_count += count;
        self.never_sent_count += count;
        self.symbol_count += count;
        count
    }

    /// Iterates over the numbers of a fragment's pieces, its own first. They are all that a packet
    /// carried which left before the fragment was cut again.
    pub(super) fn pieces(&self, fragment: u16) -> impl Iterator<Item = u16> + use<> {
        let first = &self.fragments[usize::from(fragment)];
        let others = if first.is_cut_again() {
            self.other_pieces(fragment, first.cut_bytes())
        } else {
            Vec::new()
        };
        core::iter::once(fragment).chain(others)
    }

    #[cold]
    fn other_pieces(&self, fragment: u16, bytes: Range<usize>) -> Vec<u16> {
        let behind = (0..).zip(&self.fragments).skip(usize::from(fragment) + 1);
        let pieces = behind.filter(|(_, piece)| bytes.contains(&(piece.offset as usize)));
        pieces.map(|(number, _)| number).collect()
    }
}

impl SendBuffer {
    /// Has frames from now on cut into fragments of this length.
    pub(crate) fn set_fragment_bytes(&mut self, bytes: u16) {
        self.fragment_bytes = bytes;
    }

    /// Returns the fragments of which a packet carries bytes, if their frame is still kept. There
    /// are several if the packet's fragment was cut again after it had left.
    pub(crate) fn carried_by(
        &self,
        content: PacketContent,
    ) -> impl Iterator<Item = FragmentId> + use<> {
        let carried = match content {
            PacketContent::Fragment {
                frame,
                fragment,
                is_piece,
            } => self.frame(frame).map(|kept| {
                let count = if is_piece { 1 } else { usize::MAX };
                let pieces = kept.pieces(fragment).take(count);
                pieces.map(move |fragment| FragmentId { frame, fragment })
            }),
            _ => None,
        };
        carried.into_iter().flatten()
    }

    /// Returns whether the fragment is the first piece of a longer one.
    pub(crate) fn is_piece(&self, id: FragmentId) -> bool {
        let fragment = self.fragment_state(id);
        fragment.is_some_and(Fragment::is_cut_again)
    }

    /// Records that a packet with this content has arrived.
    pub(crate) fn on_packet_acked(&mut self, content: PacketContent, path: PathId) {
        let PacketContent::Fragment {
            frame,
            fragment,
            is_piece,
        } = content
        else {
            return;
        };
        // The usual case: the fragment was not cut again.
        if is_piece || !self.is_piece(FragmentId { frame, fragment }) {
            self.on_acked(frame, fragment, path);
            return;
        }
        for id in self.carried_by(content) {
            self.on_acked(id.frame, id.fragment, path);
        }
    }

    /// Cuts the fragment of a packet, which is about to leave, into pieces of at most `piece_bytes`
    /// bytes. Returns the packets of all pieces but the first, in order: the caller binds them.
    ///
    /// Copies of the whole fragment that are in flight count for each piece. Pieces of a finished
    /// frame have no symbol numbers: forward error correction treats them as lost.
    pub(crate) fn cut_again(&mut self, packet: &PacketView, piece_bytes: u16) -> Vec<PacketView> {
        let overhead_bytes = self.packet_overhead_bytes;
        let Some(frame) = self.frame_mut(packet.frame) else {
            return Vec::new();
        };
        let first = &mut frame.fragments[usize::from(packet.fragment)];
        debug_assert!(!first.is_cut_again() && first.length > piece_bytes);
        let end = first.offset + u32::from(first.length);
        first.length = piece_bytes;
        let mut piece = *first;
        if piece.state == State::Waiting && packet.reason.is_scheduled_copy() && piece.has_left {
            // The copy that waits for a retransmission is another one.
            piece.state = State::Sent;
        }
        let mut packets = Vec::new();
        let starts = (first.offset + u32::from(piece_bytes)..end).step_by(piece_bytes.into());
        for start in starts {
            let bytes = Fragment::new(start..(start + u32::from(piece_bytes)).min(end));
            packets.push(PacketView {
                fragment: frame.fragments.len() as u16,
                bytes: u32::from(bytes.length) + overhead_bytes,
                ..*packet
            });
            frame.fragments.push(Fragment {
                offset: bytes.offset,
                length: bytes.length,
                cut_length: bytes.length,
                ..piece
            });
        }
        let count = packets.len() as u16;
        frame.unacked_count += count;
        if !piece.has_left {
            frame.never_sent_count += count;
        }
        if frame.bytes.is_growing() {
            // Later fragments follow by number, so these are symbols, too.
            frame.symbol_count += count;
            if let Some(repairs) = &mut self.repairs {
                repairs.number(count);
            }
        }
        packets
    }
}
