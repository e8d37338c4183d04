//! Packets of media between the SRT sender and the receiver's SRT: arrivals, reports of missing
//! packets, and retransmissions.

use anabranch_units::{Duration, Instant};

use super::{LinkId, MAX_JUMP, MAX_LATENCY, MAX_RANGES, Sender};
use crate::srt::{self, NUMBERS, Packet, extended};

/// Time beside the fastest round trip that a copy must have left to be of use.
const LEFT_SLACK: Duration = Duration::from_millis(20);
/// Time after a link's acknowledgement from which on a report of the same packet is no old one: it
/// was lost between the receiver and its SRT.
const STALE_REPORTS: Duration = Duration::from_millis(200);

impl Sender {
    /// Takes a packet of media of the SRT sender.
    pub(super) fn take(&mut self, now: Instant, number: u32, datagram: &[u8]) {
        let near = self.highest.unwrap_or(NUMBERS + u64::from(number));
        let mut number = extended(number, near);
        if number.abs_diff(near) > MAX_JUMP {
            self.forget_stream();
            number = NUMBERS + number % NUMBERS;
        }
        if self.highest.is_none() {
            self.next = number;
        }
        if self.memory.get(number).is_some() {
            // SRT repeats it by itself.
            self.want(now, number);
            return;
        }
        if number < self.next {
            return;
        }
        if self.highest.is_none_or(|highest| number > highest) {
            self.highest = Some(number);
            self.counters.taken_packets += 1;
            self.counters.taken_bytes += datagram.len() as u64;
        }
        self.memory.insert(now, number, datagram);
        self.queued_bytes += datagram.len() as u64;
        self.fresh.push_back(number);
    }

    /// Forgets the stream, as another one begins.
    pub(super) fn forget_stream(&mut self) {
        self.memory.clear();
        self.fresh.clear();
        self.again.clear();
        self.wanted.clear();
        self.queued_bytes = 0;
        self.highest = None;
        self.highest_arrived = 0;
        self.next = 0;
        self.last_ack = None;
        for link in self.links.iter_mut().flatten() {
            link.forget_packets();
        }
    }

    /// Queues packets that a link has swallowed, unless they have arrived or are queued.
    pub(super) fn send_again(&mut self, now: Instant, numbers: Vec<u64>) {
        for number in numbers {
            self.queue_again(now, number);
        }
    }

    fn queue_again(&mut self, now: Instant, number: u64) {
        let latency = self.latency;
        self.wanted.remove(&number);
        let Some(kept) = self.memory.get_mut(number) else {
            return;
        };
        let is_late = now.saturating_since(kept.taken_at) > latency;
        if kept.is_queued || kept.arrived_at.is_some() || is_late {
            return;
        }
        kept.is_queued = true;
        let (copy, bytes) = (kept.copy, kept.bytes.len() as u64);
        self.queued_bytes += bytes;
        self.again.insert(number);
        if let Some(copy) = copy
            && let Some(link) = self.link_mut(copy.link)
        {
            link.on_lost(number);
        }
    }

    /// Handles packets that a link has acknowledged.
    pub(super) fn on_acked(
        &mut self,
        now: Instant,
        id: LinkId,
        numbers: impl Iterator<Item = u32>,
    ) {
        let Some(highest) = self.highest else {
            return;
        };
        let mut last = None;
        for number in numbers {
            let number = extended(number, highest);
            if let Some(kept) = self.memory.get_mut(number) {
                kept.arrived_at = kept.arrived_at.or(Some(now));
                self.highest_arrived = self.highest_arrived.max(number);
            }
            let link = self.link_mut(id);
            last = link.and_then(|link| link.on_delivered(now, number));
        }
        // A batch waits for its last packet, so only that one's round trip counts.
        if let (Some(sent_at), Some(link)) = (last, self.link_mut(id)) {
            link.rtt.on_sample(now, now.saturating_since(sent_at));
        }
    }

    /// Handles a datagram of the receiver's SRT.
    pub(super) fn on_srt(&mut self, now: Instant, datagram: &[u8]) {
        match Packet::parse(datagram) {
            None => {}
            Some(Packet::Ack { ack_number, next }) => {
                self.on_srt_ack(now, datagram, ack_number, next);
            }
            Some(Packet::Nak { list }) => self.on_nak(now, datagram, list),
            Some(packet) => {
                if let Packet::Handshake {
                    latency: Some(latency),
                    ..
                } = packet
                {
                    self.latency = latency.min(MAX_LATENCY);
                }
                self.send_to_srt(datagram.to_vec());
            }
        }
    }

    /// Passes on the first copy of an acknowledgement, which comes by every link: with it SRT
    /// measures the fastest link's round trip.
    fn on_srt_ack(&mut self, now: Instant, datagram: &[u8], ack_number: u32, next: u32) {
        let is_news = self.last_ack.is_none_or(|(last, last_next)| {
            match ack_number {
                // A light acknowledgement has no number.
                0 => is_newer(next << 1, last_next << 1),
                _ => is_newer(ack_number, last),
            }
        });
        if is_news {
            let last = self.last_ack.map_or(0, |(last, _)| last);
            let number = if ack_number == 0 { last } else { ack_number };
            self.last_ack = Some((number, next));
            self.send_to_srt(datagram.to_vec());
        }
        let Some(highest) = self.highest else {
            return;
        };
        let next = extended(next, highest);
        if next <= self.next || next > highest + 1 {
            return;
        }
        self.next = next;
        for index in 0..self.links.len() {
            let memory = &self.memory;
            if let Some(link) = &mut self.links[index] {
                link.on_settled(now, next, |number| {
                    let copy = memory.get(number).and_then(|kept| kept.copy);
                    // Of a packet that is forgotten there was one.
                    copy.is_none_or(|copy| usize::from(copy.link.0) == index)
                });
            }
        }
        self.memory.forget_before(next);
        self.wanted = self.wanted.split_off(&next);
    }

    /// Keeps reports of missing packets back, and passes on those of packets that are forgotten.
    fn on_nak(&mut self, now: Instant, datagram: &[u8], list: &[u8]) {
        let Some(highest) = self.highest else {
            self.send_to_srt(datagram.to_vec());
            return;
        };
        let mut forgotten = Vec::new();
        for (first, last) in srt::ranges(list).take(MAX_RANGES) {
            let (first, last) = (extended(first, highest), extended(last, highest));
            let last = last.min(highest);
            let known: Vec<u64> = self.memory.numbers(first, last).collect();
            let oldest = self
                .memory
                .numbers(0, u64::MAX)
                .next()
                .unwrap_or(highest + 1);
            let end = last.min(oldest - 1);
            if first >= self.next && first <= end {
                forgotten.push(((first % NUMBERS) as u32, (end % NUMBERS) as u32));
                self.counters.passed_on += end - first + 1;
            }
            known.into_iter().for_each(|number| self.want(now, number));
        }
        if !forgotten.is_empty() {
            self.send_to_srt(srt::nak(datagram, &forgotten));
        }
        self.recover(now);
    }

    /// Records that the receiver misses a packet.
    fn want(&mut self, now: Instant, number: u64) {
        let Some(kept) = self.memory.get_mut(number) else {
            return;
        };
        if let Some(at) = kept.arrived_at {
            if now < at + STALE_REPORTS {
                return;
            }
            kept.arrived_at = None;
        }
        if !kept.is_queued && self.wanted.insert(number) {
            self.counters.kept_back += 1;
        }
    }

    /// Sends missing packets again whose copies are lost, or for which no time is left to wait. A
    /// copy that cannot arrive in time would delay packets that can.
    pub(super) fn recover(&mut self, now: Instant) {
        let links = self.links.iter().flatten();
        let up = links.filter(|link| link.is_up());
        let fastest = up.map(|link| link.rtt.latest()).min();
        let (Some(fastest), Some(arrival)) = (fastest, self.next_arrival(now)) else {
            return;
        };
        let needed = arrival.saturating_since(now);
        let mut due = Vec::new();
        for &number in self.wanted.iter().chain(&self.overdue(now)) {
            let Some(kept) = self.memory.get(number) else {
                continue;
            };
            let left = (kept.taken_at + self.latency).saturating_since(now);
            let is_lost = kept.copy.is_none_or(|copy| {
                let link = self.link(copy.link).filter(|link| link.is_up());
                link.is_none_or(|link| link.has_lost(now, copy.sent_at, self.latency))
            });
            let is_urgent = needed <= left && left <= fastest + LEFT_SLACK;
            // A copy that is younger than the fastest round trip may itself have been the hurry.
            let is_young = kept
                .copy
                .is_some_and(|copy| kept.copy_count > 1 && now < copy.sent_at + fastest);
            if is_lost || (is_urgent && !is_young) {
                due.push(number);
            }
        }
        let memory = &self.memory;
        self.wanted.retain(|&number| {
            memory
                .get(number)
                .is_some_and(|kept| kept.arrived_at.is_none() && !kept.is_queued)
        });
        self.send_again(now, due);
    }

    /// Returns the first missing packet if its copy is late and a later one has arrived, or none is
    /// left to arrive: its report was lost, or there can be none.
    fn overdue(&self, now: Instant) -> Option<u64> {
        let kept = self.memory.get(self.next)?;
        if kept.is_queued {
            return None;
        }
        let copy = kept.copy?;
        let is_last = self.fresh.is_empty();
        let is_gap = self.highest_arrived > self.next || is_last;
        let link = self.link(copy.link)?;
        let is_late = now >= link.late_at(copy.sent_at, self.latency) + LEFT_SLACK;
        (is_gap && is_late && kept.arrived_at.is_none()).then_some(self.next)
    }
}

/// Returns whether a number that wraps is behind another one.
fn is_newer(new: u32, old: u32) -> bool {
    new.wrapping_sub(old).cast_signed() > 0
}
