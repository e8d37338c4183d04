//! Packets that have not been acknowledged, and those of them to send again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_units::{Duration, Instant, RepeatBudget};

use crate::wire::KeyParity;

/// Packets of one connection, by index: sequence numbers that do not wrap around.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendBuffer {
    /// Index of the first packet.
    first: u64,
    packets: VecDeque<Outgoing>,
    /// Number of packets that have left at least once; they are the first ones.
    sent_count: usize,
    lost: BTreeSet<u64>,
    /// Bytes of payloads that are encrypted, which no other connection shares.
    own_bytes: usize,
}

/// A packet with its encrypted payload. Plain ones are shared among all connections of an output.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) payload: Arc<[u8]>,
    pub(crate) key: Option<KeyParity>,
    /// Time at which the program sent it.
    pub(crate) origin_at: Instant,
    /// Time at which it last left.
    sent_at: Instant,
    retransmitted: u32,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure<'a> {
    pub(crate) index: u64,
    pub(crate) packet: &'a Outgoing,
    pub(crate) is_retransmission: bool,
}

/// Packets that were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Time at which the last one left; `None` if it left several times.
    pub(crate) sent_at: Option<Instant>,
}

impl SendBuffer {
    /// Returns the number of packets.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns the index of the next packet that the program sends.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Returns the number of packets in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.sent_count as u64
    }

    /// Returns the time at which the first packet in flight last left.
    pub(crate) fn first_sent_at(&self) -> Option<Instant> {
        let first = if self.sent_count > 0 {
            self.packets.front()
        } else {
            None
        };
        first.map(|packet| packet.sent_at)
    }

    /// Adds a packet.
    pub(crate) fn push(&mut self, now: Instant, payload: Arc<[u8]>, key: Option<KeyParity>) {
        self.own_bytes += if key.is_some() { payload.len() } else { 0 };
        self.packets.push_back(Outgoing {
            payload,
            key,
            origin_at: now,
            sent_at: now,
            retransmitted: 0,
        });
    }

    /// Removes the packets before `index`. Returns the time at which the last of them left, if
    /// there were any and this one left only once.
    pub(crate) fn acknowledge(&mut self, index: u64) -> Option<Acknowledged> {
        let count = index.saturating_sub(self.first);
        // An acknowledgement of packets that have not left is forged or damaged.
        if count == 0 || count > self.in_flight() {
            return None;
        }
        let last = self.packets.get(count as usize - 1);
        let once = last.filter(|packet| packet.retransmitted == 0);
        let sent_at = once.map(|packet| packet.sent_at);
        self.remove_first(count as usize);
        Some(Acknowledged { sent_at })
    }

    /// Removes packets whose origin is `age` ago, and returns their number (§4.6).
    pub(crate) fn drop_too_late(&mut self, now: Instant, age: Duration) -> u64 {
        let count = self
            .packets
            .iter()
            .take_while(|packet| now.saturating_since(packet.origin_at) > age)
            .count();
        self.remove_first(count);
        count as u64
    }

    /// Returns the bytes of payloads that no other connection shares.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    fn remove_first(&mut self, count: usize) {
        for removed in self.packets.drain(..count) {
            let its = removed.key.map_or(0, |_| removed.payload.len());
            self.own_bytes -= its;
        }
        self.first += count as u64;
        self.sent_count = self.sent_count.saturating_sub(count);
        self.lost = self.lost.split_off(&self.first);
    }

    /// Marks packets from `first` to `last` as lost, and returns their number. A packet that was
    /// sent again within the last `rtt` is not marked: its report may have crossed it.
    pub(crate) fn on_lost(
        &mut self,
        now: Instant,
        (first, last): (u64, u64),
        rtt: Duration,
    ) -> u64 {
        let from = first.max(self.first);
        let end = last.saturating_add(1).min(self.first + self.in_flight());
        let mut count = 0;
        for index in from..end {
            let packet = &self.packets[(index - self.first) as usize];
            let is_under_way =
                packet.retransmitted > 0 && now.saturating_since(packet.sent_at) < rtt;
            if !is_under_way && self.lost.insert(index) {
                count += 1;
            }
        }
        count
    }

    /// Returns the time at which a packet left, if it left once.
    pub(crate) fn left_once_at(&self, index: u64) -> Option<Instant> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        if place >= self.sent_count {
            return None;
        }
        let packet = self.packets.get(place)?;
        (packet.retransmitted == 0).then_some(packet.sent_at)
    }

    /// Returns the part of a report that has left the buffer; its packets cannot be sent again.
    pub(crate) fn forgotten(&self, (first, last): (u64, u64)) -> Option<(u64, u64)> {
        (first < self.first).then(|| (first, last.min(self.first - 1)))
    }

    /// Marks the first and the last packet in flight as lost if they left up to `before`. If the
    /// last one arrives, the receiver reports all that are missing.
    pub(crate) fn probe(&mut self, before: Instant) {
        let Some(last) = self.sent_count.checked_sub(1) else {
            return;
        };
        for place in [0, last] {
            if self.packets[place].sent_at <= before {
                self.lost.insert(self.first + place as u64);
            }
        }
    }

    /// Returns the time from which on a packet could leave. New packets need room in the window,
    /// lost ones the budget.
    pub(crate) fn ready_at(&self, window: u64, budget: &RepeatBudget) -> Option<Instant> {
        if self.has_new(window) {
            return Some(Instant::ZERO);
        }
        let lost = self.lost.first()?;
        let lost = self.packets.get((lost - self.first) as usize)?;
        Some(budget.allows_at(lost.payload.len() as u64))
    }

    fn has_new(&self, window: u64) -> bool {
        self.sent_count < self.packets.len() && self.in_flight() < window
    }

    /// Takes the next packet that leaves: lost ones first, as far as the budget goes.
    pub(crate) fn depart(
        &mut self,
        now: Instant,
        window: u64,
        budget: &mut RepeatBudget,
    ) -> Option<Departure<'_>> {
        let first_lost = self.lost.first().copied();
        let lost = first_lost.filter(|lost| {
            let packet = self.packets.get((lost - self.first) as usize);
            packet.is_some_and(|packet| budget.allows(now, packet.payload.len() as u64))
        });
        let place = match lost {
            Some(index) => {
                self.lost.remove(&index);
                (index - self.first) as usize
            }
            None if self.has_new(window) => {
                self.sent_count += 1;
                self.sent_count - 1
            }
            None => return None,
        };
        let packet = self.packets.get_mut(place)?;
        let bytes = packet.payload.len() as u64;
        if lost.is_some() {
            budget.on_repeat(bytes);
        } else {
            budget.on_first(now, bytes);
        }
        packet.sent_at = now;
        packet.retransmitted += u32::from(lost.is_some());
        Some(Departure {
            index: self.first + place as u64,
            packet,
            is_retransmission: lost.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn departures(buffer: &mut SendBuffer, now: Instant, window: u64) -> Vec<(u64, bool)> {
        let mut all = Vec::new();
        let mut budget = RepeatBudget::new(now, 100);
        while let Some(departure) = buffer.depart(now, window, &mut budget) {
            all.push((departure.index, departure.is_retransmission));
        }
        all
    }

    fn filled(count: u64) -> SendBuffer {
        let mut buffer = SendBuffer::default();
        for index in 0..count {
            buffer.push(at(index), [index as u8].into(), None);
        }
        buffer
    }

    #[test]
    fn the_window_holds_back_new_packets_and_lost_ones_go_first() {
        let mut buffer = filled(5);
        let first = departures(&mut buffer, at(10), 3);
        assert_eq!(first, [(0, false), (1, false), (2, false)]);
        assert_eq!(buffer.on_lost(at(60), (1, 9), RTT), 2);
        assert_eq!(
            (buffer.left_once_at(1), buffer.left_once_at(3)),
            (Some(at(10)), None)
        );
        let acknowledged = buffer.acknowledge(2).unwrap();
        assert_eq!(acknowledged.sent_at, Some(at(10)));
        let then = departures(&mut buffer, at(60), 3);
        assert_eq!(then, [(2, true), (3, false), (4, false)]);
        assert_eq!(buffer.acknowledge(9), None, "not sent yet");
        assert!(buffer.acknowledge(5).is_some());
        assert_eq!((buffer.len(), buffer.end(), buffer.in_flight()), (0, 5, 0));
    }

    #[test]
    fn a_retransmission_under_way_is_not_repeated() {
        let mut buffer = filled(1);
        departures(&mut buffer, at(0), 8);
        assert_eq!(buffer.on_lost(at(1), (0, 0), RTT), 1);
        assert_eq!(departures(&mut buffer, at(1), 8), [(0, true)]);
        assert_eq!(buffer.on_lost(at(50), (0, 0), RTT), 0);
        assert_eq!(buffer.on_lost(at(51), (0, 0), RTT), 1);
    }

    #[test]
    fn section_4_6_packets_that_are_too_late_are_dropped() {
        let mut buffer = filled(4);
        departures(&mut buffer, at(4), 2);
        assert_eq!(buffer.drop_too_late(at(102), Duration::from_millis(99)), 3);
        assert_eq!((buffer.end(), buffer.in_flight()), (4, 0));
        assert_eq!(buffer.forgotten((1, 3)), Some((1, 2)));
        assert_eq!(buffer.forgotten((3, 3)), None);
        assert_eq!(departures(&mut buffer, at(102), 2), [(3, false)]);
    }

    #[test]
    fn a_probe_repeats_the_first_and_the_last_packet_in_flight() {
        let mut buffer = filled(4);
        buffer.probe(at(9));
        assert_eq!(departures(&mut buffer, at(3), 2), [(0, false), (1, false)]);
        assert_eq!(departures(&mut buffer, at(5), 3), [(2, false)]);
        assert_eq!(buffer.first_sent_at(), Some(at(3)));
        buffer.probe(at(2));
        assert_eq!(departures(&mut buffer, at(9), 3), []);
        buffer.probe(at(3));
        assert_eq!(departures(&mut buffer, at(9), 3), [(0, true)]);
        buffer.probe(at(9));
        assert_eq!(departures(&mut buffer, at(9), 3), [(0, true), (2, true)]);
    }
}
