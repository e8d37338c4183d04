//! Models of libsrt's ends in live mode, as its documentation and draft-sharabayko-srt-01 describe
//! them: when each sends, asks again and gives up. Sequence numbers do not wrap around here.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_units::{Duration, Instant};

use crate::rtt::{Rtt, SentAcks};
use crate::wire::control::Report;
use crate::wire::loss_list::{self, LossList};
use crate::wire::{Ack, Control, DataHeader, Packet, SequenceNumber};

pub(super) const SENDER: u32 = 1;
pub(super) const RECEIVER: u32 = 2;
pub(super) const FIRST: SequenceNumber = SequenceNumber::new(700);
/// Interval of acknowledgements (§4.8.1).
const ACK_INTERVAL: Duration = Duration::from_millis(10);
/// Least interval of periodic reports (§4.8.2), and the one before the first report.
const LEAST_NAK_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_NAK_INTERVAL: Duration = Duration::from_millis(300);
/// Age at which the sender drops packets, for latencies up to one second (§4.6).
const DROP_AGE: Duration = Duration::from_millis(1_020);

fn number(index: u64) -> SequenceNumber {
    FIRST.after(index)
}

fn index(number: SequenceNumber) -> u64 {
    number.distance_from(FIRST).try_into().expect("no wrap")
}

fn micros(now: Instant) -> u32 {
    now.saturating_since(Instant::ZERO).as_micros() as u32
}

/// Sender of one stream. It repeats packets only on request.
#[derive(Debug, Default)]
pub(super) struct Sender {
    next: u64,
    kept: BTreeMap<u64, Kept>,
    rtt: Rtt,
    out: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Kept {
    payload: Vec<u8>,
    origin_at: Instant,
    repeated_at: Option<Instant>,
}

impl Sender {
    pub(super) fn send(&mut self, now: Instant, payload: Vec<u8>) {
        self.out.push(data(self.next, now, false, &payload));
        let kept = Kept {
            payload,
            origin_at: now,
            repeated_at: None,
        };
        self.kept.insert(self.next, kept);
        self.next += 1;
    }

    pub(super) fn handle(&mut self, now: Instant, datagram: &[u8]) {
        let Some(Packet::Control { control, .. }) = Packet::parse(datagram) else {
            return;
        };
        match control {
            Control::Ack(ack) => {
                self.kept = self.kept.split_off(&index(ack.next));
                if let Some(report) = ack.report {
                    self.rtt.on_report(report.rtt, report.rtt_variation);
                    let answer = Control::AckAck(ack.number);
                    self.out.push(answer.to_packet(micros(now), RECEIVER));
                }
            }
            Control::Nak(list) => self.repeat(now, list),
            _ => {}
        }
    }

    /// Repeats packets, unless a repetition may still be under way (`SRTO_RETRANSMITALGO`).
    fn repeat(&mut self, now: Instant, list: LossList<'_>) {
        self.kept
            .retain(|_, kept| now.saturating_since(kept.origin_at) <= DROP_AGE);
        let shortest = self.rtt.smoothed().saturating_sub(self.rtt.variation() * 4);
        for (first, last) in list {
            for (index, kept) in self.kept.range_mut(index(first)..=index(last)) {
                if kept.repeated_at.is_none_or(|at| at + shortest <= now) {
                    kept.repeated_at = Some(now);
                    let packet = data(*index, kept.origin_at, true, &kept.payload);
                    self.out.push(packet);
                }
            }
        }
    }

    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.out)
    }
}

fn data(index: u64, origin_at: Instant, is_retransmitted: bool, payload: &[u8]) -> Vec<u8> {
    let header = DataHeader {
        sequence: number(index),
        key: None,
        is_retransmitted,
        message: 1 + index as u32,
        timestamp: micros(origin_at),
        destination: RECEIVER,
    };
    header.to_packet(payload)
}

/// Receiver of one stream, whose clock is the sender's plus the delay of the handshake.
#[derive(Debug)]
pub(super) struct Receiver {
    latency: Duration,
    /// First packet that was neither delivered nor dropped.
    next: u64,
    end: u64,
    held: BTreeMap<u64, Instant>,
    missing: BTreeSet<u64>,
    rtt: Rtt,
    acks: SentAcks,
    acked: (u64, Instant),
    is_answered: bool,
    acks_at: Instant,
    /// Interval of periodic reports, by the round trip at the last report.
    report_interval: Duration,
    reports_at: Instant,
    pub(super) dropped: u64,
    pub(super) delivered: u64,
    out: Vec<Vec<u8>>,
}

impl Receiver {
    /// Makes a receiver that delivers `latency` after origins, the handshake's delay included.
    pub(super) fn new(latency: Duration) -> Self {
        Receiver {
            latency,
            next: 0,
            end: 0,
            held: BTreeMap::new(),
            missing: BTreeSet::new(),
            rtt: Rtt::default(),
            acks: SentAcks::default(),
            acked: (0, Instant::ZERO),
            is_answered: true,
            acks_at: Instant::ZERO,
            report_interval: FIRST_NAK_INTERVAL,
            reports_at: Instant::ZERO,
            dropped: 0,
            delivered: 0,
            out: Vec::new(),
        }
    }

    pub(super) fn handle(&mut self, now: Instant, datagram: &[u8]) {
        match Packet::parse(datagram) {
            Some(Packet::Data(header, _)) => self.on_data(now, header),
            Some(Packet::Control {
                control: Control::AckAck(number),
                ..
            }) => {
                if let Some(rtt) = self.acks.on_answer(now, number) {
                    self.rtt.on_sample(rtt);
                    self.is_answered = true;
                }
            }
            _ => {}
        }
    }

    fn on_data(&mut self, now: Instant, header: DataHeader) {
        let index = index(header.sequence);
        if index < self.next {
            return;
        }
        let origin_at = Instant::from_micros(u64::from(header.timestamp));
        self.held.insert(index, origin_at + self.latency);
        self.missing.remove(&index);
        if index > self.end {
            self.missing.extend(self.end..index);
            self.report(now, &[(self.end, index - 1)]);
        }
        self.end = self.end.max(index + 1);
    }

    fn report(&mut self, now: Instant, ranges: &[(u64, u64)]) {
        let mut body = Vec::new();
        for (first, last) in ranges {
            loss_list::append(&mut body, (number(*first), number(*last)));
        }
        self.report_interval = (self.rtt.longest() / 2).max(LEAST_NAK_INTERVAL);
        let report = Control::Nak(LossList::new(&body));
        self.out.push(report.to_packet(micros(now), SENDER));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.deliver(now);
        if now >= self.acks_at {
            self.acks_at = now + ACK_INTERVAL;
            self.acknowledge(now);
        }
        if self.missing.is_empty() {
            self.reports_at = now + self.report_interval;
        } else if now >= self.reports_at {
            self.reports_at = now + self.report_interval;
            let ranges: Vec<_> = self.missing.iter().map(|index| (*index, *index)).collect();
            for part in ranges.chunks(180) {
                self.report(now, part);
            }
        }
    }

    fn deliver(&mut self, now: Instant) {
        while let Some((&first, &due_at)) = self.held.first_key_value()
            && due_at <= now
        {
            self.held.remove(&first);
            self.missing = self.missing.split_off(&first);
            self.dropped += first - self.next;
            self.delivered += 1;
            self.next = first + 1;
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        let next = self.missing.first().copied().unwrap_or(self.end);
        let (before, at) = self.acked;
        let is_due = !self.is_answered && now >= at + self.rtt.longest();
        if next == before && !is_due {
            return;
        }
        (self.acked, self.is_answered) = ((next, now), false);
        let ack = Ack {
            number: self.acks.number(now),
            next: number(next),
            report: Some(Report {
                rtt: self.rtt.smoothed(),
                rtt_variation: self.rtt.variation(),
                available_packets: 8_192,
                packets_per_second: 0,
                capacity: 0,
                bytes_per_second: 0,
            }),
        };
        self.out
            .push(Control::Ack(ack).to_packet(micros(now), SENDER));
    }

    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.out)
    }
}
