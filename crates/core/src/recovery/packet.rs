//! A packet as it was sent, and as it was acknowledged.

use anabranch_units::{Duration, Instant};

use crate::fragment::FrameId;

/// A packet as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// Its number on its path, from zero without holes.
    pub packet_number: u64,
    /// When it left.
    pub sent_at: Instant,
    /// Its bytes on the wire.
    pub bytes: u32,
    /// Bytes in flight on the path, this packet included.
    pub bytes_in_flight: u64,
    /// State of the path's delivery at that time.
    pub delivery: DeliverySnapshot,
    /// Content of the packet.
    pub content: PacketContent,
}

/// Content of a tracked packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketContent {
    /// A fragment of a frame.
    Fragment {
        /// The frame.
        frame: FrameId,
        /// Which fragment of it, from zero.
        fragment: u16,
        /// Whether the fragment had been cut again, and this is its first piece.
        is_piece: bool,
    },
    /// A repair symbol; never retransmitted.
    Repair {
        /// The newest frame that it covers.
        frame: FrameId,
        /// Which repair of that frame, from zero.
        repair: u16,
    },
    /// A segment of the stream.
    Segment {
        /// The offset of its first byte.
        offset: u64,
    },
    /// Useless bytes that probe for bandwidth; never retransmitted.
    Padding,
    /// A path challenge.
    Challenge,
    /// Useless bytes that probe for a larger MTU; never retransmitted, and no sign of congestion.
    MtuProbe,
}

impl PacketContent {
    /// Returns whether the packet probes the path. Its answer says nothing about the path's rate.
    /// While the path is in use, controllers learn neither of the probe nor of its answer.
    pub(crate) fn is_probe(self) -> bool {
        matches!(self, PacketContent::Challenge | PacketContent::MtuProbe)
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedPacket {
    /// As it was sent.
    pub sent: SentPacket,
    /// Arrival time by the peer's clock, to the microsecond: good for differences only. `None` if
    /// the report that listed it got lost.
    pub received_at: Option<Instant>,
    /// Its round-trip time without the time that the receiver held the report back; `None` when
    /// [`AckedPacket::received_at`] is, or when the report came back on another path.
    pub rtt: Option<Duration>,
    /// All bytes delivered on the path, this packet and those before it included.
    pub delivered_bytes: u64,
}

/// State of the path's delivery when a packet left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliverySnapshot {
    /// `P.delivered`: bytes delivered by then.
    pub delivered_bytes: u64,
    /// `P.delivered_time`: when the last of them was acknowledged.
    pub delivered_at: Instant,
    /// `P.first_send_time`: when the packet last acknowledged by then was sent.
    pub first_sent_at: Instant,
    /// Bytes sent, this packet included.
    pub sent_bytes: u64,
    /// Bytes sent up to the packet last acknowledged by then, that one included.
    pub sent_bytes_at_last_acked: u64,
    /// `P.lost`: bytes declared lost by then.
    pub lost_bytes: u64,
    /// Whether the sender had too little to send.
    pub is_app_limited: bool,
    /// Which train the packet belongs to, modulo [`DeliverySnapshot::TRAINS`]: the sender has not
    /// been idle between packets of one.
    pub train: u8,
}

impl DeliverySnapshot {
    /// Trains are counted modulo this.
    pub const TRAINS: u8 = 4;
}
