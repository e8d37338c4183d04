//! The receiver's part of a connection.

use anabranch_units::{DataRate, Duration, Instant};

use super::Connection;
use crate::overtaking::Overtaking;
use crate::receive_buffer::{Inserted, ReceiveBuffer};
use crate::rtt::{Rtt, SentAcks};
use crate::tsbpd::PeerClock;
use crate::wire::control::Report;
use crate::wire::loss_list::{self, LossList};
use crate::wire::{Ack, Control, DataHeader, HEADER_BYTES, SequenceNumber, Unwrapped};

/// Interval of full acknowledgements (draft-sharabayko-srt-01, §4.8.1).
const ACK_INTERVAL: Duration = Duration::from_millis(10);
/// Arrivals after which a light acknowledgement leaves between two full ones (§4.8.1).
const LIGHT_ACK_PACKETS: u64 = 64;
/// Least time between two negative acknowledgements of a packet (§4.8.2).
const LEAST_NAK_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of a range in a loss list.
const RANGE_BYTES: usize = 8;
/// Period in which the rate of arrivals is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// State of the receiver.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) buffer: ReceiveBuffer,
    sequence: Unwrapped,
    clock: PeerClock,
    acks: SentAcks,
    /// Index of the last acknowledgement, and whether the peer has answered it.
    acked: u64,
    is_answered: bool,
    acked_at: Instant,
    light_acked: u64,
    overtaking: Overtaking,
    rate: ArrivalRate,
}

/// Rate of arrivals in the last whole period.
#[derive(Clone, Copy, Debug)]
struct ArrivalRate {
    since: Instant,
    packets: u64,
    bytes: u64,
    packets_per_second: u32,
    bytes_per_second: u32,
}

impl Receiving {
    pub(super) fn new(first: SequenceNumber, clock: PeerClock, window: u64, now: Instant) -> Self {
        Receiving {
            buffer: ReceiveBuffer::new(window),
            sequence: Unwrapped::new(first),
            clock,
            acks: SentAcks::default(),
            acked: 0,
            is_answered: true,
            acked_at: now,
            light_acked: 0,
            overtaking: Overtaking::default(),
            rate: ArrivalRate::new(now),
        }
    }

    fn index(&self, number: SequenceNumber) -> Option<u64> {
        self.sequence.index(number, self.buffer.end())
    }

    /// Asks no more for packets from `first` to `last`.
    pub(super) fn forget(&mut self, first: SequenceNumber, last: SequenceNumber) {
        if let (Some(first), Some(last)) = (self.index(first), self.index(last))
            && first <= last
        {
            self.buffer.forget(first, last);
        }
    }

    /// Returns the time of the next action.
    pub(super) fn next_at(&self, rtt: &Rtt) -> Option<Instant> {
        let oldest_report = self.buffer.missing().oldest_report();
        let reports_at = oldest_report.map(|at| at + nak_interval(rtt));
        let timers = [self.acks_at(rtt), reports_at, self.buffer.next_due_at()];
        timers.into_iter().flatten().min()
    }

    /// Returns the time of the next full acknowledgement. While packets are missing, the answers
    /// show whether retransmissions are lost.
    fn acks_at(&self, rtt: &Rtt) -> Option<Instant> {
        let has_missing = self.buffer.missing().first().is_some();
        if self.buffer.acknowledged() > self.acked || has_missing {
            Some(self.acked_at + ACK_INTERVAL)
        } else if self.is_answered {
            None
        } else {
            Some(self.acked_at + rtt.longest().max(ACK_INTERVAL))
        }
    }

    /// Returns the time of the latest reports that are outdated: the retransmissions would have
    /// arrived, or later packets have overtaken them.
    fn outdated(&self, now: Instant, rtt: &Rtt) -> Instant {
        let by_time = now.saturating_sub(nak_interval(rtt));
        let by_order = self.overtaking.outdated();
        let latest = now.saturating_sub(LEAST_NAK_INTERVAL);
        by_order.map_or(by_time, |at| at.min(latest).max(by_time))
    }

    fn has_outdated_report(&self, now: Instant, rtt: &Rtt) -> bool {
        let oldest_report = self.buffer.missing().oldest_report();
        oldest_report.is_some_and(|at| at <= self.outdated(now, rtt))
    }
}

/// Returns the time after which a missing packet is asked for again, even if nothing else arrives.
fn nak_interval(rtt: &Rtt) -> Duration {
    rtt.longest().max(LEAST_NAK_INTERVAL)
}

impl Connection {
    pub(super) fn on_data(&mut self, now: Instant, header: DataHeader, payload: &[u8]) {
        let receiving = &mut self.receiving;
        receiving.rate.on_packet(now, payload.len() + HEADER_BYTES);
        let origin = receiving.clock.origin(now, header.timestamp);
        receiving
            .overtaking
            .on_data(origin, header.is_retransmitted);
        let Some(index) = receiving.index(header.sequence) else {
            self.statistics.useless_packets += 1;
            return;
        };
        if let Some(refused) = receiving.buffer.classify(index) {
            self.count(refused, 0);
            return;
        }
        let mut payload = payload.to_vec();
        let is_readable = match (&self.cipher, header.key) {
            (None, None) => true,
            (Some(cipher), Some(key)) => cipher.receiving.apply(key, header.sequence, &mut payload),
            // An encrypted connection takes no plain payload, which anybody could send.
            _ => false,
        };
        // A packet without a key is no sign that keys are missing: anybody could send it.
        if self.cipher.is_some() && header.key.is_none() {
            self.statistics.undecrypted_packets += 1;
            return;
        }
        self.on_decrypted(now, is_readable);
        if !is_readable {
            return;
        }
        let receiving = &mut self.receiving;
        let bytes = payload.len();
        let due_at = receiving.clock.due_at(now, header.timestamp);
        let inserted = receiving.buffer.insert(index, payload, due_at);
        self.count(inserted, bytes);
        let is_behind_gap = matches!(inserted, Inserted::New { gap: 1.. });
        if is_behind_gap || self.receiving.has_outdated_report(now, &self.rtt) {
            self.report_missing(now);
        }
        self.acknowledge_lightly(now);
    }

    fn count(&mut self, inserted: Inserted, bytes: usize) {
        let statistics = &mut self.statistics;
        match inserted {
            Inserted::New { gap } => statistics.missing_packets += gap,
            Inserted::Recovered => statistics.recovered_packets += 1,
            Inserted::Duplicate | Inserted::TooLate => statistics.useless_packets += 1,
            Inserted::BeyondWindow => statistics.refused_packets += 1,
        }
        if matches!(inserted, Inserted::New { .. } | Inserted::Recovered) {
            statistics.received_packets += 1;
            statistics.received_bytes += bytes as u64;
        }
    }

    pub(super) fn on_ack_ack(&mut self, now: Instant, number: u32, timestamp: u32) {
        let receiving = &mut self.receiving;
        if let Some(rtt) = receiving.acks.on_answer(now, number) {
            self.rtt.on_sample(rtt);
            receiving.is_answered = true;
            let origin = receiving.clock.origin(now, timestamp);
            receiving
                .overtaking
                .on_answer(now.saturating_sub(rtt), origin);
            receiving.clock.on_answer(now, timestamp, rtt);
            self.report_missing_if_due(now);
        }
    }

    pub(super) fn acknowledge_if_due(&mut self, now: Instant) {
        let receiving = &mut self.receiving;
        if receiving.acks_at(&self.rtt).is_none_or(|at| now < at) {
            return;
        }
        let next = receiving.buffer.acknowledged();
        (receiving.acked, receiving.light_acked) = (next, next);
        (receiving.acked_at, receiving.is_answered) = (now, false);
        let ack = Ack {
            number: receiving.acks.number(now),
            next: receiving.sequence.number(next),
            report: Some(Report {
                rtt: self.rtt.smoothed(),
                rtt_variation: self.rtt.variation(),
                available_packets: receiving.buffer.available() as u32,
                packets_per_second: receiving.rate.packets_per_second,
                // Packet pairs are not measured.
                capacity: receiving.rate.packets_per_second,
                bytes_per_second: receiving.rate.bytes_per_second,
            }),
        };
        self.push_control(now, &Control::Ack(ack));
    }

    fn acknowledge_lightly(&mut self, now: Instant) {
        let receiving = &mut self.receiving;
        let next = receiving.buffer.acknowledged();
        if next < receiving.light_acked + LIGHT_ACK_PACKETS {
            return;
        }
        receiving.light_acked = next;
        let ack = Ack {
            number: 0,
            next: receiving.sequence.number(next),
            report: None,
        };
        self.push_control(now, &Control::Ack(ack));
    }

    pub(super) fn report_missing_if_due(&mut self, now: Instant) {
        if self.receiving.has_outdated_report(now, &self.rtt) {
            self.report_missing(now);
        }
    }

    /// Asks for missing packets: those that were never asked for, and those whose retransmissions
    /// are lost.
    fn report_missing(&mut self, now: Instant) {
        let receiving = &mut self.receiving;
        let outdated = receiving.outdated(now, &self.rtt);
        let most = self.max_payload_bytes / RANGE_BYTES;
        let ranges = receiving.buffer.unreported(now, outdated, most);
        let mut body = Vec::new();
        for (first, last) in ranges {
            let numbers = [first, last].map(|index| receiving.sequence.number(index));
            loss_list::append(&mut body, numbers.into());
        }
        if !body.is_empty() {
            self.push_control(now, &Control::Nak(LossList::new(&body)));
        }
    }
}

impl ArrivalRate {
    fn new(now: Instant) -> Self {
        ArrivalRate {
            since: now,
            packets: 0,
            bytes: 0,
            packets_per_second: 0,
            bytes_per_second: 0,
        }
    }

    fn on_packet(&mut self, now: Instant, bytes: usize) {
        fn rate(count: u64, elapsed: Duration) -> u32 {
            let bits = DataRate::from_bytes_per(count, elapsed).bits_per_second();
            (bits / 8).min(u64::from(u32::MAX)) as u32
        }

        let elapsed = now.saturating_since(self.since);
        if elapsed >= RATE_PERIOD {
            *self = ArrivalRate {
                packets_per_second: rate(self.packets, elapsed),
                bytes_per_second: rate(self.bytes, elapsed),
                ..ArrivalRate::new(now)
            };
        }
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}
