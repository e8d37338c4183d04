//! Packets that may have to be sent again.

use std::collections::BTreeMap;

use anabranch_units::{Duration, Instant};

use super::LinkId;

/// Maximum number of bytes that are kept: two seconds at 60 Mbit/s.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Maximum number of packets, for streams of short ones.
const MAX_PACKETS: usize = 32_768;

/// A packet of media that the receiver's SRT has not acknowledged.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Box<[u8]>,
    /// Time at which it came from the SRT sender.
    pub(super) taken_at: Instant,
    /// Its last copy; `None` before the first.
    pub(super) copy: Option<Copy>,
    pub(super) copy_count: u32,
    /// Whether it waits to be sent, again or for the first time.
    pub(super) is_queued: bool,
    /// Time at which a link acknowledged it.
    pub(super) arrived_at: Option<Instant>,
}

/// A copy of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) link: LinkId,
    pub(super) sent_at: Instant,
}

/// The packets by number.
#[derive(Debug, Default)]
pub(super) struct Memory {
    packets: BTreeMap<u64, Kept>,
    bytes: usize,
}

impl Memory {
    pub(super) fn get(&self, number: u64) -> Option<&Kept> {
        self.packets.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Kept> {
        self.packets.get_mut(&number)
    }

    /// Keeps a packet that waits to be sent. The oldest packets give way to it.
    pub(super) fn insert(&mut self, now: Instant, number: u64, bytes: &[u8]) {
        let kept = Kept {
            bytes: bytes.into(),
            taken_at: now,
            copy: None,
            copy_count: 0,
            is_queued: true,
            arrived_at: None,
        };
        self.bytes += bytes.len();
        if let Some(old) = self.packets.insert(number, kept) {
            self.bytes -= old.bytes.len();
        }
        while self.bytes > MAX_BYTES || self.packets.len() > MAX_PACKETS {
            self.pop_first();
        }
    }

    /// Forgets packets before `next`, which the receiver does not need any more.
    pub(super) fn forget_before(&mut self, next: u64) {
        while self
            .packets
            .first_key_value()
            .is_some_and(|(&first, _)| first < next)
        {
            self.pop_first();
        }
    }

    /// Forgets packets older than `age`.
    pub(super) fn forget_older(&mut self, now: Instant, age: Duration) {
        fn is_old(kept: &Kept, now: Instant, age: Duration) -> bool {
            now.saturating_since(kept.taken_at) > age
        }
        while self
            .packets
            .first_key_value()
            .is_some_and(|(_, kept)| is_old(kept, now, age))
        {
            self.pop_first();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Memory::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the numbers within a range that are kept.
    pub(super) fn numbers(&self, first: u64, last: u64) -> impl Iterator<Item = u64> + '_ {
        let range = (first <= last).then(|| self.packets.range(first..=last));
        range.into_iter().flatten().map(|(&number, _)| number)
    }

    fn pop_first(&mut self) {
        if let Some((_, kept)) = self.packets.pop_first() {
            self.bytes -= kept.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_packets_are_bounded_in_number() {
        let mut memory = Memory::default();
        for number in 0..MAX_PACKETS as u64 + 10 {
            memory.insert(Instant::ZERO, number, &[0; 1]);
        }
        assert_eq!(memory.packets.len(), MAX_PACKETS);
        assert!(memory.get(9).is_none() && memory.get(10).is_some());
    }

    #[test]
    fn memory_is_bounded_in_bytes_and_time() {
        let mut memory = Memory::default();
        for number in 0..20_000 {
            memory.insert(Instant::from_millis(number), number, &[0; 1_400]);
            assert!(memory.bytes <= MAX_BYTES);
        }
        assert_eq!(memory.packets.len(), MAX_BYTES / 1_400);
        memory.insert(Instant::ZERO, 19_999, &[0; 100]);
        let bytes = memory.packets.values().map(|kept| kept.bytes.len());
        assert_eq!(memory.bytes, bytes.sum::<usize>());
        memory.forget_older(Instant::from_secs(20), Duration::from_secs(2));
        assert_eq!(memory.numbers(0, u64::MAX).next(), Some(18_000));
        memory.forget_before(19_000);
        assert_eq!(memory.numbers(0, u64::MAX).count(), 1_000);
        assert_eq!(memory.numbers(5, 4).count(), 0);
        memory.forget_before(u64::MAX);
        assert!(memory.is_empty() && memory.bytes == 0);
    }
}
