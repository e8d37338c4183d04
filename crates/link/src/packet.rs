//! Packets, as links see them.

use anabranch_units::{Ecn, Instant};

/// A packet in flight. Links look at its size, its flow and its ECN field. The driver keeps its
/// payload, and finds it by [`Packet::id`]. So a packet moves from element to element as a few
/// numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Size on the wire in bytes, with headers of all layers, for serialisation and for the queue's
    /// limit.
    pub size_bytes: u32,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Key of the flow, for disciplines that queue by flow.
    pub flow: u32,
    /// Whether it goes back to a sender, for a medium that both directions share.
    pub is_back: bool,
    /// The driver's own handle; no link reads it.
    pub id: u64,
    /// Time of entry into its present or last queue, which overwrites it (the enqueue time of RFC
    /// 8289 §5.1).
    pub entered_at: Instant,
}

impl Packet {
    /// Creates a packet of `size_bytes` on the wire.
    pub fn of_size(size_bytes: u32) -> Packet {
        Packet {
            size_bytes,
            ..Packet::default()
        }
    }
}
