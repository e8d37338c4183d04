//! The sender's part of a connection.

use std::sync::Arc;

use anabranch_units::{Duration, Instant, RepeatBudget};

use super::{Agreement, Connection, SendError};
use crate::pacer::Pacer;
use crate::rtt::Rtt;
use crate::send_buffer::SendBuffer;
use crate::sending_keys::SendingKeys;
use crate::settings::Settings;
use crate::wire::loss_list::{LossList, LossRange};
use crate::wire::{Ack, Control, DataHeader, HEADER_BYTES, IP_AND_UDP_BYTES, Unwrapped};

/// Headers of a packet.
const OVERHEAD_BYTES: usize = HEADER_BYTES + IP_AND_UDP_BYTES;
/// Shortest age at which a packet is too late, however short the latency is, and the margin beside
/// it (draft-sharabayko-srt-01, §4.6).
const LEAST_DROP_AGE: Duration = Duration::from_millis(1_000);
const DROP_MARGIN: Duration = Duration::from_millis(20);
/// Time beside the round trip after which the first and the last packet in flight are sent again:
/// the interval of acknowledgements, for both ends (as UDT's retransmission timer).
const PROBE_MARGIN: Duration = Duration::from_millis(20);
/// Least time without progress before that. While packets arrive in order, they are acknowledged
/// each 10 ms, however long they have waited in queues. Chosen.
const STALL: Duration = Duration::from_millis(50);

/// State of the sender.
#[derive(Debug)]
pub(super) struct Sending {
    buffer: SendBuffer,
    sequence: Unwrapped,
    pacer: Pacer,
    budget: RepeatBudget,
    /// Packets that may be in flight.
    window: u64,
    own_window: u64,
    drop_age: Duration,
    /// Origin of the last packet.
    last_origin_at: Option<Instant>,
    /// Time of the last progress: an acknowledgement, or a probe.
    progressed_at: Instant,
}

impl Sending {
    pub(super) fn new(agreement: &Agreement, settings: &Settings, now: Instant) -> Self {
        let own_window = u64::from(settings.flow_window);
        Sending {
            buffer: SendBuffer::default(),
            sequence: Unwrapped::new(agreement.initial_sequence),
            pacer: Pacer::new(settings.max_bandwidth),
            budget: RepeatBudget::new(now, settings.max_bandwidth.repeated_percent()),
            window: own_window
                .min(u64::from(agreement.agreed.peer_window))
                .max(1),
            own_window,
            drop_age: agreement.agreed.peer_latency.max(LEAST_DROP_AGE) + DROP_MARGIN,
            last_origin_at: None,
            progressed_at: now,
        }
    }

    /// Returns the bytes of packets that no other connection shares.
    pub(super) fn own_bytes(&self) -> usize {
        self.buffer.own_bytes()
    }

    /// Returns the number of packets that are not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Returns the origin of the last packet; `None`: the program has sent none.
    pub(super) fn last_origin_at(&self) -> Option<Instant> {
        self.last_origin_at
    }

    pub(super) fn push(
        &mut self,
        now: Instant,
        payload: &Arc<[u8]>,
        keys: Option<&mut SendingKeys>,
        most: usize,
    ) -> Result<(), SendError> {
        if self.buffer.len() >= most {
            return Err(SendError::Full);
        }
        self.pacer.on_input(now, payload.len() + OVERHEAD_BYTES);
        let sequence = self.sequence.number(self.buffer.end());
        let (payload, key) = match keys {
            None => (Arc::clone(payload), None),
            Some(keys) => {
                let mut encrypted = payload.to_vec();
                let key = keys.encrypt(sequence, &mut encrypted);
                (encrypted.into(), Some(key))
            }
        };
        self.buffer.push(now, payload, key);
        self.last_origin_at = Some(now);
        Ok(())
    }

    /// Drops packets that are too late for the peer, and returns their number.
    pub(super) fn drop_too_late(&mut self, now: Instant) -> u64 {
        self.buffer.drop_too_late(now, self.drop_age)
    }

    /// Returns the time of the next action.
    pub(super) fn next_at(&self, rtt: &Rtt) -> Option<Instant> {
        let ready_at = self.buffer.ready_at(self.window, &self.budget);
        let next_at = ready_at.map(|at| at.max(self.pacer.next_at()));
        next_at.into_iter().chain(self.probes_at(rtt)).min()
    }

    /// Returns the time at which the first packet in flight is sent again: a retransmission or a
    /// report may be lost, and receivers wait for their longest round trip before the next report.
    fn probes_at(&self, rtt: &Rtt) -> Option<Instant> {
        let sent_at = self.buffer.first_sent_at()?;
        Some((sent_at + probe_age(rtt)).max(self.progressed_at + STALL))
    }

    pub(super) fn probe_if_due(&mut self, now: Instant, rtt: &Rtt) {
        if self.probes_at(rtt).is_some_and(|at| now >= at) {
            self.buffer.probe(now.saturating_sub(probe_age(rtt)));
            self.progressed_at = now;
        }
    }

    /// Returns the indices of a reported range; `None` if it contains packets of the future.
    fn indices(&self, (first, last): LossRange) -> Option<(u64, u64)> {
        let near = self.buffer.end();
        let first = self.sequence.index(first, near)?;
        let last = self.sequence.index(last, near)?;
        (first <= last && last < near).then_some((first, last))
    }
}

/// Returns the age at which a packet should have been acknowledged. An early probe costs little:
/// one packet for each time of this length.
fn probe_age(rtt: &Rtt) -> Duration {
    rtt.smoothed() + rtt.variation() + PROBE_MARGIN
}

impl Connection {
    pub(super) fn on_ack(&mut self, now: Instant, ack: Ack) {
        let sending = &mut self.sending;
        let near = sending.buffer.end();
        if let Some(index) = sending.sequence.index(ack.next, near)
            && let Some(acknowledged) = sending.buffer.acknowledge(index)
        {
            sending.progressed_at = now;
            if let Some(sent_at) = acknowledged.sent_at {
                self.rtt.on_answered(now.saturating_since(sent_at));
            }
        }
        let Some(report) = ack.report else {
            return;
        };
        // A window of 0 would stay: acknowledgements follow arrivals alone.
        let available = u64::from(report.available_packets).max(1);
        sending.window = available.min(sending.own_window);
        // An end that receives measures by itself.
        if self.statistics.received_packets == 0 {
            self.rtt.on_report(report.rtt, report.rtt_variation);
        }
        self.push_control(now, &Control::AckAck(ack.number));
    }

    pub(super) fn on_nak(&mut self, now: Instant, list: LossList<'_>) {
        // Ranges ascend; others would cost time without end.
        let mut behind = 0;
        for range in list {
            let sending = &mut self.sending;
            let Some((first, last)) = sending.indices(range).filter(|its| its.0 >= behind) else {
                self.statistics.refused_packets += 1;
                return;
            };
            behind = last + 1;
            // The packet behind a gap causes its first report.
            if let Some(sent_at) = sending.buffer.left_once_at(last + 1) {
                self.rtt.on_answered(now.saturating_since(sent_at));
            }
            let repeats_after = self.rtt.repeats_after();
            let lost = sending.buffer.on_lost(now, (first, last), repeats_after);
            self.statistics.reported_lost_packets += lost;
            if let Some((first, last)) = sending.buffer.forgotten((first, last)) {
                let request = Control::DropRequest {
                    message: 0,
                    first: sending.sequence.number(first),
                    last: sending.sequence.number(last),
                };
                self.push_control(now, &request);
            }
        }
    }

    /// Returns the next data packet, if the pace lets it leave.
    pub(super) fn next_data(&mut self, now: Instant) -> Option<Vec<u8>> {
        if now < self.sending.pacer.next_at() {
            return None;
        }
        let (began_at, destination) = (self.began_at, self.peer_id);
        let sending = &mut self.sending;
        let departure = sending
            .buffer
            .depart(now, sending.window, &mut sending.budget)?;
        let outgoing = departure.packet;
        let origin = outgoing.origin_at.saturating_since(began_at);
        let header = DataHeader {
            sequence: sending.sequence.number(departure.index),
            key: outgoing.key,
            is_retransmitted: departure.is_retransmission,
            message: message_number(departure.index),
            timestamp: origin.as_micros() as u32,
            destination,
        };
        let packet = header.to_packet(&outgoing.payload);
        let bytes = outgoing.payload.len();
        if departure.is_retransmission {
            self.statistics.retransmitted_packets += 1;
            self.statistics.retransmitted_bytes += bytes as u64;
        } else {
            self.statistics.sent_packets += 1;
            self.statistics.sent_bytes += bytes as u64;
        }
        sending.pacer.on_sent(now, bytes + OVERHEAD_BYTES);
        Some(packet)
    }
}

/// Returns the number of a packet's message: 1 to 2^26 - 1, as 0 is no message (§3.1).
fn message_number(index: u64) -> u32 {
    const LARGEST: u64 = (1 << 26) - 1;
    (index % LARGEST + 1) as u32
}
