//! The packets of one path that have been sent and are not settled yet.

#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod record;

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::loss::{Evidence, LossDetection, Verdict};
use super::packet::{DeliverySnapshot, PacketContent, SentPacket};
use crate::wire::FeedbackReport;
use record::{MAX_BYTES, Record, Wanted};

/// A packet that a report acknowledges for the first time.
pub(super) struct Acknowledged {
    pub(super) packet: SentPacket,
    pub(super) received_at: Option<Instant>,
    /// From the packet's arrival until the report was made.
    pub(super) held_back: Option<Duration>,
    pub(super) was_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Outstanding,
    Acked,
    Lost,
}

/// A path's packets from the oldest that is not settled.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// When the oldest outstanding packet was sent: asked for after every event.
    oldest_sent_at: Option<Instant>,
    bytes_in_flight: u64,
    first: u64,
    /// Packets `first..next_packet_number`, each with its outcome.
    packets: VecDeque<Record>,
    /// That of the newest packet, by which records are read.
    newest: DeliverySnapshot,
    /// Numbers up to the largest acknowledged one that are not acknowledged, ascending. The list is
    /// short, because settled ones are forgotten. So the cost of a report depends on its news, not
    /// on its repetitions.
    holes: Vec<u64>,
    /// Number of the oldest holes that are lost, not outstanding, and only remembered in case they
    /// still arrive.
    lost_hole_count: usize,
    /// One more than the largest acknowledged number; zero before the first.
    acked_until: u64,
    ce_count: u64,
}

impl SentPackets {
    /// Creates an empty list whose numbers follow those of `old`.
    pub(super) fn after(old: &SentPackets) -> Self {
        SentPackets {
            first: old.next_packet_number(),
            ce_count: old.ce_count,
            ..SentPackets::default()
        }
    }

    pub(super) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    pub(super) fn next_packet_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    pub(super) fn push(
        &mut self,
        now: Instant,
        bytes: u32,
        content: PacketContent,
        delivery: DeliverySnapshot,
    ) -> SentPacket {
        let bytes = bytes.min(MAX_BYTES);
        self.bytes_in_flight += u64::from(bytes);
        let packet = SentPacket {
            packet_number: self.next_packet_number(),
            sent_at: now,
            bytes,
            bytes_in_flight: self.bytes_in_flight,
            delivery,
            content,
        };
        self.packets.push_back(Record::new(&packet));
        self.newest = delivery;
        self.oldest_sent_at.get_or_insert(now);
        packet
    }

    /// Returns a packet that has been sent and is not forgotten.
    pub(super) fn packet(&self, number: u64) -> Option<SentPacket> {
        let index = number.checked_sub(self.first)? as usize;
        let record = self.packets.get(index)?;
        Some(record.packet(number, &self.newest))
    }

    /// Iterates over packets that are neither acknowledged nor lost, the oldest first.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = SentPacket> {
        let beyond = self.acked_until.max(self.first);
        self.open_holes()
            .chain(beyond..self.next_packet_number())
            .map(|number| (number, &self.packets[self.index_of(number)]))
            .filter(|(_, record)| record.is_outstanding())
            .map(|(number, record)| record.packet(number, &self.newest))
    }

    /// Returns when the oldest outstanding packet with this content was sent.
    pub(super) fn first_outstanding_at(&self, content: PacketContent) -> Option<Instant> {
        let wanted = Wanted::of(content);
        let in_holes = self
            .open_holes()
            .map(|number| &self.packets[self.index_of(number)]);
        let beyond = self.index_of(self.acked_until.max(self.first));
        let mut records = in_holes.chain(self.packets.range(beyond..));
        let first = records.find(|record| wanted.is_outstanding_in(record));
        first.map(Record::sent_at)
    }

    /// Returns whether a packet behind the largest acknowledged one may be outstanding.
    pub(super) fn has_open_holes(&self) -> bool {
        self.holes.len() > self.lost_hole_count
    }

    fn open_holes(&self) -> impl Iterator<Item = u64> {
        self.holes[self.lost_hole_count..].iter().copied()
    }

    fn index_of(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    /// Returns when the oldest outstanding packet was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.oldest_sent_at
    }

    pub(super) fn oldest_outstanding(&self) -> Option<SentPacket> {
        self.outstanding().next()
    }

    /// Settles what `report` acknowledges for the first time, in the order of packet numbers.
    /// Numbers never sent are ignored: a peer that makes them up gains nothing.
    pub(super) fn acknowledge(
        &mut self,
        report: &FeedbackReport,
        on_acked: &mut impl FnMut(Acknowledged),
    ) {
        let Some(last_sent) = self.next_packet_number().checked_sub(1) else {
            return;
        };
        if !self.holes.is_empty() {
            let mut holes = core::mem::take(&mut self.holes);
            self.fill(&mut holes, report, on_acked);
            self.holes = holes;
        }
        for number in self.acked_until.max(self.first)..=report.largest().min(last_sent) {
            if report.contains(number) {
                self.settle(number, report, on_acked);
                self.acked_until = number + 1;
            } else {
                self.holes.push(number);
            }
        }
        // Holes above the largest number that really was acknowledged are none.
        let acked_until = self.acked_until;
        while self.holes.pop_if(|number| *number >= acked_until).is_some() {}
        self.update_oldest();
    }

    /// Takes the holes out that the report has filled.
    fn fill(
        &mut self,
        holes: &mut Vec<u64>,
        report: &FeedbackReport,
        on_acked: &mut impl FnMut(Acknowledged),
    ) {
        let mut from = 0;
        for (first, last) in report.ascending_ranges() {
            if holes.last().is_none_or(|hole| *hole < first) {
                return;
            }
            if holes[from] < first {
                from += holes[from..].partition_point(|hole| *hole < first);
            }
            // The usual case: reports repeat holes.
            if holes[from] > last {
                continue;
            }
            let filled = holes[from..].iter().take_while(|hole| **hole <= last);
            let until = from + filled.count();
            let lost_count = self.lost_hole_count;
            self.lost_hole_count -= until.min(lost_count) - from.min(lost_count);
            for number in holes.drain(from..until) {
                self.settle(number, report, on_acked);
            }
        }
    }

    /// Counts the oldest holes that have been declared lost since the last call.
    fn count_lost_holes(&mut self) {
        let open = self.holes[self.lost_hole_count..].iter();
        self.lost_hole_count += open
            .take_while(|number| !self.packets[self.index_of(**number)].is_outstanding())
            .count();
    }

    fn update_oldest(&mut self) {
        // The usual case: there are no open holes, and all later packets are outstanding.
        let beyond = self.acked_until.saturating_sub(self.first) as usize;
        self.oldest_sent_at = match self.packets.get(beyond) {
            Some(record) if self.holes.len() == self.lost_hole_count && record.is_outstanding() => {
                Some(record.sent_at())
            }
            _ => self.oldest_outstanding().map(|packet| packet.sent_at),
        };
    }

    fn settle(
        &mut self,
        number: u64,
        report: &FeedbackReport,
        on_acked: &mut impl FnMut(Acknowledged),
    ) {
        let record = &mut self.packets[(number - self.first) as usize];
        let was_lost = match record.outcome() {
            Outcome::Outstanding => {
                self.bytes_in_flight -= record.bytes();
                false
            }
            Outcome::Lost => true,
            Outcome::Acked => return,
        };
        record.set_outcome(Outcome::Acked);
        let packet = record.packet(number, &self.newest);
        let held_back = report.held_back(number);
        on_acked(Acknowledged {
            packet,
            received_at: held_back.map(|held_back| report.reported_at().saturating_sub(held_back)),
            held_back,
            was_lost,
        });
    }

    /// Settles a packet of which the peer has said by other means than a report that it arrived.
    pub(super) fn settle_number(&mut self, number: u64) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        let Some(record) = index.and_then(|index| self.packets.get_mut(index)) else {
            return;
        };
        if record.is_outstanding() {
            self.bytes_in_flight -= record.bytes();
        }
        record.set_outcome(Outcome::Acked);
        self.update_oldest();
    }

    /// Takes a packet out of flight as lost; `None` if it was not in flight.
    pub(super) fn declare_lost(&mut self, number: u64) -> Option<SentPacket> {
        let index = number.checked_sub(self.first)? as usize;
        let record = self.packets.get_mut(index)?;
        if !record.is_outstanding() {
            return None;
        }
        record.set_outcome(Outcome::Lost);
        let packet = record.packet(number, &self.newest);
        self.bytes_in_flight -= record.bytes();
        self.count_lost_holes();
        self.update_oldest();
        Some(packet)
    }

    /// Returns the largest number that a report has acknowledged.
    pub(super) fn largest_acked(&self) -> Option<u64> {
        self.acked_until.checked_sub(1)
    }

    /// Returns the number of packets acknowledged beyond the oldest outstanding one.
    pub(super) fn acked_beyond_oldest(&self) -> u64 {
        let Some(index) = self.holes[self.lost_hole_count..]
            .iter()
            .position(|number| self.packets[self.index_of(*number)].is_outstanding())
        else {
            return 0;
        };
        let index = self.lost_hole_count + index;
        self.acked_until - self.holes[index] - (self.holes.len() - index) as u64
    }

    /// Declares losses by `rule` among the holes, and returns when the next one would be.
    pub(super) fn declare_losses(
        &mut self,
        rule: LossDetection,
        evidence: &Evidence<'_>,
        mut on_lost: impl FnMut(&SentPacket),
    ) -> Option<Instant> {
        let largest_acked = self.acked_until.checked_sub(1)?;
        let mut next_at = None;
        let mut has_lost = false;
        for &number in &self.holes[self.lost_hole_count..] {
            let record = &mut self.packets[(number - self.first) as usize];
            if !record.is_outstanding() {
                continue;
            }
            let packet = record.packet(number, &self.newest);
            match rule.judge(&packet, largest_acked, evidence) {
                Verdict::Lost => {
                    record.set_outcome(Outcome::Lost);
                    self.bytes_in_flight -= record.bytes();
                    on_lost(&packet);
                    has_lost = true;
                }
                Verdict::LostAt(at) => {
                    next_at = Some(next_at.map_or(at, |next: Instant| next.min(at)));
                }
            }
        }
        if has_lost {
            self.count_lost_holes();
            self.update_oldest();
        }
        next_at
    }

    /// Declares lost the packets behind the largest acknowledged one that a report misses, oldest
    /// first.
    pub(super) fn declare_missing(
        &mut self,
        is_missing: impl Fn(&SentPacket) -> bool,
        mut on_lost: impl FnMut(&SentPacket),
    ) {
        let beyond = self.acked_until.max(self.first);
        let mut has_lost = false;
        let records = self.packets.range_mut((beyond - self.first) as usize..);
        for (number, record) in (beyond..).zip(records) {
            let packet = record.packet(number, &self.newest);
            if !is_missing(&packet) {
                break;
            }
            if record.is_outstanding() {
                record.set_outcome(Outcome::Lost);
                self.bytes_in_flight -= record.bytes();
                on_lost(&packet);
                has_lost = true;
            }
        }
        if has_lost {
            self.update_oldest();
        }
    }

    pub(super) fn declare_all_lost(&mut self, mut on_lost: impl FnMut(&SentPacket)) {
        for (number, record) in (self.first..).zip(&mut self.packets) {
            if record.is_outstanding() {
                record.set_outcome(Outcome::Lost);
                self.bytes_in_flight -= record.bytes();
                on_lost(&record.packet(number, &self.newest));
            }
        }
        debug_assert_eq!(self.bytes_in_flight, 0);
        self.lost_hole_count = self.holes.len();
        self.oldest_sent_at = None;
    }

    /// Forgets packets from the front: acknowledged ones, and lost ones sent more than `memory`
    /// ago.
    pub(super) fn forget_settled(&mut self, now: Instant, memory: Duration) {
        while let Some(record) = self.packets.front() {
            let is_settled = match record.outcome() {
                Outcome::Outstanding => false,
                Outcome::Acked => true,
                Outcome::Lost => record.sent_at() + memory < now,
            };
            if !is_settled {
                break;
            }
            self.packets.pop_front();
            self.first += 1;
        }
        if self.holes.first().is_none_or(|hole| *hole >= self.first) {
            return;
        }
        let forgotten = self.holes.partition_point(|&number| number < self.first);
        self.holes.drain(..forgotten);
        self.lost_hole_count = self.lost_hole_count.saturating_sub(forgotten);
    }

    /// Returns the number of packets that the peer has newly counted as Congestion Experienced.
    pub(super) fn newly_ce_marked(&mut self, ce_count: u64) -> u64 {
        let newly = ce_count.saturating_sub(self.ce_count);
        self.ce_count = self.ce_count.max(ce_count);
        newly
    }
}
