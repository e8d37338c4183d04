//! RTP packets in the order of their sequence numbers (RFC 3550 §5.1, A.1). The network between an
//! encoder and this program may reorder them, and reordered MPEG-TS breaks the picture.

use std::collections::BTreeMap;

use anabranch_units::{Duration, Instant};

use super::rtp::Numbered;

/// Longest wait for a missing packet. It exceeds the reordering of most networks.
const PATIENCE: Duration = Duration::from_millis(50);
/// Maximum number of held packets: 50 ms at 200 Mbit/s.
const MAX_HELD: usize = 1_024;
/// `MAX_DROPOUT` and `MAX_MISORDER` of RFC 3550 A.1: numbers further ahead or behind may belong to
/// another stream.
const MAX_DROPOUT: u64 = 3_000;
const MAX_MISORDER: u64 = 100;

/// Reordering of one source's packets. Discards packets that arrive twice or too late.
#[derive(Debug, Default)]
pub struct RtpOrder {
    stream: Option<Stream>,
}

#[derive(Debug)]
struct Stream {
    source: u32,
    /// Extended number of the next packet to be handed over.
    next: u64,
    /// Packets with higher numbers.
    held: BTreeMap<u64, Held>,
    /// `bad_seq` of RFC 3550 A.1: the successor of the last packet that was far from the others. If
    /// it arrives, another stream has begun.
    next_of_other: Option<u16>,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    payload: Vec<u8>,
}

impl RtpOrder {
    /// Adds a packet, and hands over all packets that are now in order.
    pub fn push(
        &mut self,
        now: Instant,
        packet: Numbered,
        payload: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) {
        let stream = match &mut self.stream {
            Some(stream) if !stream.is_followed_by(packet) => stream,
            other => {
                if let Some(before) = other.as_mut() {
                    before.release_all(take);
                }
                other.insert(Stream::from(packet))
            }
        };
        let number = stream.number_of(packet);
        if number == stream.next {
            take(payload);
            stream.next += 1;
            stream.release_next(take);
        } else if number > stream.next && number - stream.next <= MAX_DROPOUT {
            stream.held.entry(number).or_insert_with(|| Held {
                since: now,
                payload: payload.to_vec(),
            });
            if stream.held.len() > MAX_HELD {
                stream.skip(take);
            }
        } else {
            let is_late = number < stream.next && stream.next - number <= MAX_MISORDER;
            if !is_late {
                stream.next_of_other = Some(packet.sequence.wrapping_add(1));
            }
            return;
        }
        stream.next_of_other = None;
    }

    /// Returns the time at which packets behind a missing one are handed over.
    pub fn releases_at(&self) -> Option<Instant> {
        let stream = self.stream.as_ref()?;
        let since = stream.held.values().map(|held| held.since).min()?;
        Some(since + PATIENCE)
    }

    /// Hands over packets whose wait has ended. Returns whether there were any.
    pub fn release(&mut self, now: Instant, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut has_released = false;
        while self.releases_at().is_some_and(|at| at <= now)
            && let Some(stream) = &mut self.stream
        {
            stream.skip(take);
            has_released = true;
        }
        has_released
    }
}

impl Stream {
    fn from(first: Numbered) -> Self {
        Stream {
            source: first.source,
            // One cycle later, so that there is room for earlier numbers.
            next: (1 << 16) + u64::from(first.sequence),
            held: BTreeMap::new(),
            next_of_other: None,
        }
    }

    /// Returns whether the packet shows that another stream has begun.
    fn is_followed_by(&self, packet: Numbered) -> bool {
        packet.source != self.source || self.next_of_other == Some(packet.sequence)
    }

    /// Returns the packet's extended number: the nearest to the next one.
    fn number_of(&self, packet: Numbered) -> u64 {
        let ahead = packet.sequence.wrapping_sub(self.next as u16) as i16;
        self.next.saturating_add_signed(i64::from(ahead))
    }

    /// Hands over the packets that follow without a gap.
    fn release_next(&mut self, take: &mut dyn FnMut(&[u8])) {
        while let Some(held) = self.held.remove(&self.next) {
            take(&held.payload);
            self.next += 1;
        }
    }

    /// Continues after the gap.
    fn skip(&mut self, take: &mut dyn FnMut(&[u8])) {
        if let Some(&number) = self.held.keys().next() {
            self.next = number;
            self.release_next(take);
        }
    }

    fn release_all(&mut self, take: &mut dyn FnMut(&[u8])) {
        while !self.held.is_empty() {
            self.skip(take);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output for packets with these numbers, which arrive at these milliseconds,
    /// including the packets that are still held at the end.
    fn ordered(packets: &[(u64, u16)]) -> Vec<u16> {
        ordered_of(packets.iter().map(|&(at, number)| (at, 7, number)))
    }

    fn ordered_of(packets: impl Iterator<Item = (u64, u32, u16)>) -> Vec<u16> {
        let mut order = RtpOrder::default();
        let mut out = Vec::new();
        let mut last_at = Instant::ZERO;
        for (millis, source, sequence) in packets {
            last_at = Instant::from_millis(millis);
            order.release(last_at, &mut |bytes| out.extend_from_slice(bytes));
            let (packet, bytes) = (Numbered { source, sequence }, sequence.to_be_bytes());
            order.push(last_at, packet, &bytes, &mut |bytes| {
                out.extend_from_slice(bytes);
            });
        }
        order.release(last_at + PATIENCE, &mut |bytes| {
            out.extend_from_slice(bytes)
        });
        assert_eq!(order.releases_at(), None);
        let (numbers, _) = out.as_chunks();
        numbers
            .iter()
            .map(|bytes| u16::from_be_bytes(*bytes))
            .collect()
    }

    #[test]
    fn rfc3550_packets_out_of_order_are_put_in_order_over_the_wrap_too() {
        let numbers = [65_533, 65_535, 65_534, 1, 2, 0, 3];
        let packets: Vec<_> = (0..).zip(numbers).collect();
        let expected = [65_533, 65_534, 65_535, 0, 1, 2, 3];
        assert_eq!(ordered(&packets), expected);
    }

    #[test]
    fn a_lost_packet_is_waited_for_50_ms() {
        let packets = [(0, 1), (10, 3), (30, 4), (59, 2)];
        assert_eq!(ordered(&packets), [1, 2, 3, 4]);
        let packets = [(0, 1), (10, 3), (30, 4), (60, 2), (61, 5)];
        assert_eq!(ordered(&packets), [1, 3, 4, 5]);
    }

    #[test]
    fn packets_that_come_twice_or_too_late_are_left_out() {
        let packets = [(0, 1), (1, 2), (2, 1), (3, 2), (4, 4), (5, 4), (6, 3)];
        assert_eq!(ordered(&packets), [1, 2, 3, 4]);
        // A second network path with a much longer delay (SMPTE 2022-7).
        let behind = (500..700).flat_map(|number| [(0, number), (0, number - 300)]);
        let expected: Vec<u16> = (500..700).collect();
        assert_eq!(ordered(&behind.collect::<Vec<_>>()), expected);
    }

    #[test]
    fn rfc3550_a_1_another_stream_begins_with_its_source_or_two_numbers_in_order() {
        let other_source = [(0, 7, 100), (1, 7, 102), (2, 8, 5), (3, 8, 6)];
        assert_eq!(ordered_of(other_source.into_iter()), [100, 102, 5, 6]);
        let same_source = [(0, 30_000), (1, 30_001), (2, 0), (3, 1), (4, 2)];
        assert_eq!(ordered(&same_source), [30_000, 30_001, 1, 2]);
    }

    #[test]
    fn no_more_than_a_bounded_count_is_held() {
        let packets: Vec<_> = (0..2_000).map(|number| (0, 2 * number)).collect();
        assert_eq!(ordered(&packets).len(), 2_000);
    }
}
