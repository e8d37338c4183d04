//! The packets that are bound to a path and wait for its pacer or window.

use std::collections::VecDeque;

use crate::media::FrameId;
use crate::scheduler::{PacketKind, PacketView};

/// Packets in the order in which they leave: retransmissions first. Their bytes are summed as they
/// come and go: everybody asks for them after every event.
#[derive(Debug, Default)]
pub(super) struct Bound {
    retransmissions: Queue,
    /// What is sent for the first time, and repairs.
    sources: Queue,
}

#[derive(Debug, Default)]
struct Queue {
    /// Bytes on the wire of the packets.
    bytes: u64,
    packets: VecDeque<PacketView>,
}

impl Bound {
    pub(super) fn bytes(&self) -> u64 {
        self.retransmissions.bytes + self.sources.bytes
    }

    pub(super) fn retransmission_bytes(&self) -> u64 {
        self.retransmissions.bytes
    }

    pub(super) fn push(&mut self, packet: PacketView) {
        match packet.kind {
            PacketKind::Retransmission => self.retransmissions.push(packet),
            PacketKind::Source | PacketKind::Repair { .. } => self.sources.push(packet),
        }
    }

    pub(super) fn pop(&mut self) -> Option<PacketView> {
        self.retransmissions.pop().or_else(|| self.sources.pop())
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = PacketView> + '_ {
        self.retransmissions.drain().chain(self.sources.drain())
    }

    /// Drops all packets of a frame.
    pub(super) fn drop_frame(&mut self, frame: FrameId) {
        self.retransmissions.drop_frame(frame);
        self.sources.drop_frame(frame);
    }

    /// Whether another copy of this packet, which is sent for the first time, is bound too.
    pub(super) fn has_copy_of(&self, packet: &PacketView) -> bool {
        let is_copy = |bound: &PacketView| {
            bound.frame == packet.frame
                && bound.fragment == packet.fragment
                && bound.kind == packet.kind
        };
        let mut sources = self.sources.packets.iter().rev();
        packet.kind == PacketKind::Source && sources.any(is_copy)
    }
}

impl Queue {
    fn push(&mut self, packet: PacketView) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<PacketView> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    fn drain(&mut self) -> impl Iterator<Item = PacketView> + '_ {
        self.bytes = 0;
        self.packets.drain(..)
    }

    fn drop_frame(&mut self, frame: FrameId) {
        let bytes = &mut self.bytes;
        self.packets.retain(|packet| {
            let is_other = packet.frame != frame;
            if !is_other {
                *bytes -= u64::from(packet.bytes);
            }
            is_other
        });
    }
}
