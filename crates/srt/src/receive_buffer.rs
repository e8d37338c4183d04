//! Packets that wait for their time, and the numbers of those that are missing.

use std::collections::BTreeMap;

use anabranch_units::Instant;

use crate::missing::Missing;

/// Packets of one connection, by index: sequence numbers that do not wrap around.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveBuffer {
    /// First packet that has been neither delivered nor given up.
    next: u64,
    /// Packet after the last one that has arrived.
    end: u64,
    packets: BTreeMap<u64, Arrived>,
    missing: Missing,
    bytes: usize,
    window: u64,
}

#[derive(Clone, Debug)]
struct Arrived {
    payload: Vec<u8>,
    due_at: Instant,
}

/// A packet that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its payload.
    pub payload: Vec<u8>,
    /// Time at which it was due.
    pub due_at: Instant,
    /// Missing packets before it that were given up.
    pub dropped: u64,
}

/// Result of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// A packet behind all others, after this number of missing ones.
    New { gap: u64 },
    /// A packet that was missing.
    Recovered,
    /// It has arrived before.
    Duplicate,
    /// It has been delivered or given up.
    TooLate,
    /// There is no place for it.
    BeyondWindow,
}

impl ReceiveBuffer {
    pub(crate) fn new(window: u64) -> Self {
        ReceiveBuffer {
            next: 0,
            end: 0,
            packets: BTreeMap::new(),
            missing: Missing::default(),
            bytes: 0,
            window,
        }
    }

    /// Returns the index near which arrivals are expected.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the first packet that has not arrived; all before it can be acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.missing.first().unwrap_or(self.end)
    }

    /// Returns the number of free places.
    pub(crate) fn available(&self) -> u64 {
        self.window.saturating_sub(self.end - self.next)
    }

    /// Returns the length of all payloads.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the packet would change nothing, before its payload is decrypted.
    pub(crate) fn classify(&self, index: u64) -> Option<Inserted> {
        if index < self.next {
            Some(Inserted::TooLate)
        } else if index >= self.next + self.window {
            Some(Inserted::BeyondWindow)
        } else {
            let is_there = self.packets.contains_key(&index);
            is_there.then_some(Inserted::Duplicate)
        }
    }

    /// Takes a packet.
    pub(crate) fn insert(&mut self, index: u64, payload: Vec<u8>, due_at: Instant) -> Inserted {
        if let Some(refused) = self.classify(index) {
            return refused;
        }
        self.bytes += payload.len();
        self.packets.insert(index, Arrived { payload, due_at });
        if index < self.end {
            self.missing.remove(index, index);
            return Inserted::Recovered;
        }
        let gap = index - self.end;
        if gap > 0 {
            self.missing.push(self.end, index - 1);
        }
        self.end = index + 1;
        Inserted::New { gap }
    }

    /// Asks no more for packets that the sender will not send again (§3.2.9).
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        let last = last.min(self.next + self.window - 1);
        self.missing.remove(first, last);
        if first <= self.end && last >= self.end {
            self.end = last + 1;
        }
    }

    /// Returns the missing packets.
    pub(crate) fn missing(&self) -> &Missing {
        &self.missing
    }

    /// Returns missing ranges that were not reported since `outdated`, and dates their report.
    pub(crate) fn unreported(
        &mut self,
        now: Instant,
        outdated: Instant,
        most: usize,
    ) -> Vec<(u64, u64)> {
        self.missing.unreported(now, outdated, most)
    }

    /// Returns the time at which the next packet is due. Missing ones before it are given up then
    /// (too-late packet drop, §4.6).
    pub(crate) fn next_due_at(&self) -> Option<Instant> {
        let (_, first) = self.packets.first_key_value()?;
        Some(first.due_at)
    }

    /// Removes the next packet, if it is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Delivered> {
        self.next_due_at().filter(|due_at| *due_at <= now)?;
        let (index, Arrived { payload, due_at }) = self.packets.pop_first()?;
        let dropped = index - self.next;
        self.missing.remove(self.next, index);
        self.next = index + 1;
        self.bytes -= payload.len();
        Some(Delivered {
            payload,
            due_at,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn filled(indices: &[u64]) -> ReceiveBuffer {
        let mut buffer = ReceiveBuffer::new(8);
        for &index in indices {
            buffer.insert(index, vec![index as u8; 2], at(100 + index));
        }
        buffer
    }

    #[test]
    fn section_4_6_missing_packets_are_given_up_when_a_later_one_is_due() {
        fn taken(buffer: &mut ReceiveBuffer, millis: u64) -> Option<(u8, u64)> {
            let delivered = buffer.pop(at(millis))?;
            Some((delivered.payload[0], delivered.dropped))
        }

        let mut buffer = filled(&[0, 3]);
        assert_eq!(taken(&mut buffer, 99), None);
        assert_eq!(taken(&mut buffer, 102), Some((0, 0)));
        assert_eq!((buffer.acknowledged(), buffer.available()), (1, 5));
        assert_eq!(taken(&mut buffer, 102), None);
        assert_eq!(taken(&mut buffer, 103), Some((3, 2)));
        assert_eq!((buffer.acknowledged(), buffer.available()), (4, 8));
        assert_eq!((buffer.bytes(), buffer.missing().first()), (0, None));
        let late = buffer.insert(1, vec![1], at(101));
        assert_eq!(late, Inserted::TooLate);
    }

    #[test]
    fn arrivals_are_classified_and_the_window_is_a_bound() {
        fn insert(index: u64, buffer: &mut ReceiveBuffer) -> Inserted {
            buffer.insert(index, vec![0], at(9))
        }

        let mut buffer = ReceiveBuffer::new(8);
        assert_eq!(insert(2, &mut buffer), Inserted::New { gap: 2 });
        assert_eq!(insert(0, &mut buffer), Inserted::Recovered);
        assert_eq!(insert(0, &mut buffer), Inserted::Duplicate);
        assert_eq!(insert(7, &mut buffer), Inserted::New { gap: 4 });
        assert_eq!(insert(8, &mut buffer), Inserted::BeyondWindow);
        assert_eq!(buffer.available(), 0);
    }

    #[test]
    fn section_3_2_9_dropped_packets_are_not_asked_for_again() {
        let mut buffer = filled(&[0, 4]);
        buffer.forget(1, 2);
        let asked = buffer.unreported(at(900), at(880), 9);
        assert_eq!(asked, [(3, 3)]);
        assert_eq!(buffer.acknowledged(), 3);
        // Beyond the last arrival, and beyond the window.
        buffer.forget(3, 1_000);
        assert_eq!((buffer.acknowledged(), buffer.end()), (8, 8));
    }
}
