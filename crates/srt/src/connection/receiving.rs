//! The receiver's part of a connection.

use anabranch_units::{DataRate, Duration, Instant};

use super::Connection;
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
    reported_at: Instant,
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
            reported_at: now,
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
        let reports_at = self.buffer.has_missing().then(|| self.reports_at(rtt));
        let timers = [self.acks_at(rtt), reports_at, self.buffer.next_due_at()];
        timers.into_iter().flatten().min()
    }

    fn acks_at(&self, rtt: &Rtt) -> Option<Instant> {
        if self.buffer.acknowledged() > self.acked {
            Some(self.acked_at + ACK_INTERVAL)
        } else if self.is_answered {
            None
        } else {
            Some(self.acked_at + rtt.longest().max(ACK_INTERVAL))
        }
    }

    fn reports_at(&self, rtt: &Rtt) -> Instant {
        self.reported_at + nak_interval(rtt) / 2
    }
}

/// Returns the time after which a missing packet is asked for again: its retransmission would have
/// arrived. libsrt asks in half of it, and its senders ignore every other request.
fn nak_interval(rtt: &Rtt) -> Duration {
    rtt.longest().max(LEAST_NAK_INTERVAL)
}

impl Connection {
    pub(super) fn on_data(&mut self, now: Instant, header: DataHeader, payload: &[u8]) {
        let receiving = &mut self.receiving;
        receiving.rate.on_packet(now, payload.len() + HEADER_BYTES);
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
        if !is_readable {
            self.statistics.undecrypted_packets += 1;
            return;
        }
        let bytes = payload.len();
        let due_at = receiving.clock.due_at(now, header.timestamp);
        let inserted = receiving.buffer.insert(index, payload, due_at);
        self.count(inserted, bytes);
        if matches!(inserted, Inserted::New { gap: 1.. }) {
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
            receiving.clock.on_answer(now, timestamp, rtt);
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
        let receiving = &self.receiving;
        if receiving.buffer.has_missing() && now >= receiving.reports_at(&self.rtt) {
            self.report_missing(now);
        }
    }

    /// Asks for missing packets: those that were never asked for, and those whose retransmission
    /// has not arrived.
    fn report_missing(&mut self, now: Instant) {
        let receiving = &mut self.receiving;
        receiving.reported_at = now;
        let interval = nak_interval(&self.rtt);
        let most = self.max_payload_bytes / RANGE_BYTES;
        let ranges = receiving.buffer.unreported(now, interval, most);
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
        let elapsed = now.saturating_since(self.since);
        if elapsed >= RATE_PERIOD {
            let rate = |count| {
                let bits = DataRate::from_bytes_per(count, elapsed).bits_per_second();
                (bits / 8).min(u64::from(u32::MAX)) as u32
            };
            *self = ArrivalRate {
                packets_per_second: rate(self.packets),
                bytes_per_second: rate(self.bytes),
                ..ArrivalRate::new(now)
            };
        }
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}
