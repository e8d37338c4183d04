//! A sent packet in 48 bytes: records are most of a path's memory.

use anabranch_units::{Duration, Instant};

use super::{DeliverySnapshot, Outcome, PacketContent, SentPacket};
use crate::fragment::FrameId;

/// A [`SentPacket`] without its number, and its outcome.
///
/// Counters are kept by their lowest 32 bits, or as distances: they are compared with those of the
/// newest packet, before which less than 4 GiB were sent, delivered and lost. The time between an
/// event and the packet takes 40 bits, which are 18 minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    sent_at: Instant,
    /// Content and flags: the kind in the lowest 3 bits, then the outcome in 2, the
    /// application-limited flag in 1, the train in 2, and from [`CONTENT_SHIFT`] on the number
    /// within the kind.
    content: u64,
    sent_bytes: u32,
    since_last_acked_bytes: u32,
    delivered_bytes: u32,
    lost_bytes: u32,
    bytes_in_flight: u32,
    bytes: u16,
    since_delivered: Span,
    since_first_sent: Span,
}

const _: () = assert!(size_of::<Record>() <= 48);

/// Nanoseconds in 40 bits; more are as many as fit.
#[derive(Clone, Copy, Debug)]
struct Span([u8; 5]);

impl Span {
    fn new(span: Duration) -> Span {
        let nanos = span.as_nanos().min((1 << 40) - 1);
        let [a, b, c, d, e, ..] = nanos.to_le_bytes();
        Span([a, b, c, d, e])
    }

    fn get(self) -> Duration {
        let [a, b, c, d, e] = self.0;
        Duration::from_nanos(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }
}

const KIND_MASK: u64 = 0b111;
const OUTCOME_SHIFT: u32 = 3;
const OUTCOME_MASK: u64 = 0b11 << OUTCOME_SHIFT;
const APP_LIMITED: u64 = 1 << 5;
const TRAIN_SHIFT: u32 = 6;
const TRAIN_MASK: u64 = 0b11 << TRAIN_SHIFT;
const _: () = assert!(DeliverySnapshot::TRAINS == 4);
/// 2^56 bytes of a stream, or 2^40 frames.
const CONTENT_SHIFT: u32 = 8;
/// Bits of a fragment's or a repair's number, below the frame's.
const NUMBER_BITS: u32 = 16;

/// The packet as it was handed in; nothing on a network is larger than this.
pub(super) const MAX_BYTES: u32 = u16::MAX as u32;

impl Record {
    pub(super) fn new(packet: &SentPacket) -> Record {
        let delivery = &packet.delivery;
        let sent_at = packet.sent_at;
        let app_limited = u64::from(delivery.is_app_limited) * APP_LIMITED;
        Record {
            sent_at,
            content: pack(packet.content) | app_limited | u64::from(delivery.train) << TRAIN_SHIFT,
            sent_bytes: delivery.sent_bytes as u32,
            since_last_acked_bytes: clamp(delivery.sent_bytes - delivery.sent_bytes_at_last_acked),
            delivered_bytes: delivery.delivered_bytes as u32,
            lost_bytes: delivery.lost_bytes as u32,
            bytes_in_flight: clamp(packet.bytes_in_flight),
            bytes: packet.bytes.min(MAX_BYTES) as u16,
            since_delivered: Span::new(sent_at.saturating_since(delivery.delivered_at)),
            since_first_sent: Span::new(sent_at.saturating_since(delivery.first_sent_at)),
        }
    }

    /// Returns the packet with this number; `newest` is the newest one's snapshot.
    #[inline]
    pub(super) fn packet(&self, packet_number: u64, newest: &DeliverySnapshot) -> SentPacket {
        let sent_bytes = before(newest.sent_bytes, self.sent_bytes);
        let delivery = DeliverySnapshot {
            delivered_bytes: before(newest.delivered_bytes, self.delivered_bytes),
            delivered_at: self.sent_at.saturating_sub(self.since_delivered.get()),
            first_sent_at: self.sent_at.saturating_sub(self.since_first_sent.get()),
            sent_bytes,
            sent_bytes_at_last_acked: sent_bytes - u64::from(self.since_last_acked_bytes),
            lost_bytes: before(newest.lost_bytes, self.lost_bytes),
            is_app_limited: self.content & APP_LIMITED != 0,
            train: ((self.content & TRAIN_MASK) >> TRAIN_SHIFT) as u8,
        };
        SentPacket {
            packet_number,
            sent_at: self.sent_at,
            bytes: u32::from(self.bytes),
            bytes_in_flight: u64::from(self.bytes_in_flight),
            delivery,
            content: unpack(self.content),
        }
    }

    pub(super) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (self.content & OUTCOME_MASK) >> OUTCOME_SHIFT {
            0 => Outcome::Outstanding,
            1 => Outcome::Acked,
            _ => Outcome::Lost,
        }
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.content & OUTCOME_MASK == 0
    }

    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        let bits = match outcome {
            Outcome::Outstanding => 0,
            Outcome::Acked => 1,
            Outcome::Lost => 2,
        };
        self.content = self.content & !OUTCOME_MASK | bits << OUTCOME_SHIFT;
    }
}

/// Content of a packet in the form of records, which need not be decoded for a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted(u64);

impl Wanted {
    pub(super) fn of(content: PacketContent) -> Wanted {
        Wanted(pack(content))
    }

    /// Returns whether the record is an outstanding packet with this content.
    pub(super) fn is_outstanding_in(self, record: &Record) -> bool {
        const COMPARED: u64 = KIND_MASK | OUTCOME_MASK | !0 << CONTENT_SHIFT;
        record.content & COMPARED == self.0
    }
}

fn clamp(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns the value of a counter whose lowest bits are `low`, at `newest` or less than 2^32
/// before.
fn before(newest: u64, low: u32) -> u64 {
    newest - u64::from((newest as u32).wrapping_sub(low))
}

fn numbered(frame: FrameId, number: u16) -> u64 {
    frame.0 << NUMBER_BITS | u64::from(number)
}

fn pack(content: PacketContent) -> u64 {
    let (kind, which) = match content {
        PacketContent::Fragment {
            frame,
            fragment,
            is_piece,
        } => (if is_piece { 6 } else { 0 }, numbered(frame, fragment)),
        PacketContent::Repair { frame, repair } => (1, numbered(frame, repair)),
        PacketContent::Segment { offset } => (2, offset),
        PacketContent::Padding => (3, 0),
        PacketContent::Challenge => (4, 0),
        PacketContent::MtuProbe => (5, 0),
    };
    debug_assert!(which >> (u64::BITS - CONTENT_SHIFT) == 0, "{content:?}");
    which << CONTENT_SHIFT | kind
}

#[inline]
fn unpack(content: u64) -> PacketContent {
    let which = content >> CONTENT_SHIFT;
    let (frame, number) = (FrameId(which >> NUMBER_BITS), which as u16);
    match content & KIND_MASK {
        1 => PacketContent::Repair {
            frame,
            repair: number,
        },
        2 => PacketContent::Segment { offset: which },
        3 => PacketContent::Padding,
        4 => PacketContent::Challenge,
        5 => PacketContent::MtuProbe,
        kind => PacketContent::Fragment {
            frame,
            fragment: number,
            is_piece: kind != 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sent_bytes: u64, content: PacketContent) -> SentPacket {
        let sent_at = Instant::from_secs(100_000);
        SentPacket {
            packet_number: 77,
            sent_at,
            bytes: 1_234,
            bytes_in_flight: 56_789,
            delivery: DeliverySnapshot {
                delivered_bytes: sent_bytes / 2,
                delivered_at: sent_at.saturating_sub(Duration::from_nanos(123_456_789_012)),
                first_sent_at: sent_at.saturating_sub(Duration::from_nanos(1)),
                sent_bytes,
                sent_bytes_at_last_acked: sent_bytes.saturating_sub(5_000),
                lost_bytes: sent_bytes / 3,
                is_app_limited: sent_bytes.is_multiple_of(2),
                train: (sent_bytes % 4) as u8,
            },
            content,
        }
    }

    #[test]
    fn a_packet_comes_back_as_it_was_whatever_its_fate() {
        let frame = FrameId((1 << 40) - 1);
        let contents = [
            PacketContent::Fragment {
                frame,
                fragment: u16::MAX,
                is_piece: false,
            },
            PacketContent::Repair { frame, repair: 1 },
            PacketContent::Segment {
                offset: (1 << 56) - 1,
            },
            PacketContent::Padding,
            PacketContent::Challenge,
            PacketContent::MtuProbe,
            PacketContent::Fragment {
                frame,
                fragment: u16::MAX,
                is_piece: true,
            },
        ];
        for content in contents {
            for sent_bytes in [0, 1, (1 << 32) - 1, 1 << 32, 1 << 40] {
                let packet = packet(sent_bytes, content);
                for later in [0, 1, u64::from(u32::MAX)] {
                    let newest = DeliverySnapshot {
                        delivered_bytes: packet.delivery.delivered_bytes + later,
                        sent_bytes: sent_bytes + later,
                        lost_bytes: packet.delivery.lost_bytes + later,
                        ..packet.delivery
                    };
                    let mut record = Record::new(&packet);
                    for other in contents {
                        let is_it = Wanted::of(other).is_outstanding_in(&record);
                        assert_eq!(is_it, other == content, "{other:?} in {content:?}");
                    }
                    for outcome in [Outcome::Outstanding, Outcome::Lost, Outcome::Acked] {
                        record.set_outcome(outcome);
                        assert_eq!(record.outcome(), outcome);
                        assert_eq!(record.packet(77, &newest), packet);
                        let is_it = Wanted::of(content).is_outstanding_in(&record);
                        assert_eq!(is_it, outcome == Outcome::Outstanding);
                    }
                }
            }
        }
    }

    #[test]
    fn old_delivery_times_saturate() {
        let content = PacketContent::Padding;
        let mut long_ago = packet(1, content);
        long_ago.delivery.delivered_at = Instant::ZERO;
        let record = Record::new(&long_ago);
        let kept_at = record.packet(77, &long_ago.delivery).delivery.delivered_at;
        assert_eq!(
            long_ago.sent_at - kept_at,
            Duration::from_nanos((1 << 40) - 1)
        );
    }
}
