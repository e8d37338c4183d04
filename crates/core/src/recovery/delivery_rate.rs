//! Delivery-rate estimation (draft-ietf-ccwg-bbr §4.1), and the form of Zhang & Lei's eq. 13.

use anabranch_units::{DataRate, Duration, Instant};

use super::packet::{AckedPacket, DeliverySnapshot, SentPacket};

/// Delivery rate between a packet's sending and its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Delivered bytes over the longer of the send and the acknowledgement interval.
    pub delivery_rate: DataRate,
    /// Zhang & Lei eq. 13: min(Δsent/Δsent time, Δacked/Δack time), since the packet that was the
    /// last one acknowledged when this one left.
    pub min_of_send_and_ack_rate: DataRate,
    /// Bytes delivered in the interval.
    pub delivered_bytes: u64,
    /// `P.delivered` of the packet: for counting rounds.
    pub prior_delivered_bytes: u64,
    /// The longer of the two intervals.
    pub interval: Duration,
    /// Whether the interval is no shorter than the least round-trip time; shorter ones
    /// overestimate.
    pub is_full_round: bool,
    /// Whether the sender had too little to send when the packet left.
    pub is_app_limited: bool,
    /// Whether nothing had been delivered when the packet left: the sample shows the initial window
    /// as much as the path.
    pub is_first_flight: bool,
}

impl AckedPacket {
    /// Returns the rate sample of this packet alone, as QUIC's BBR takes one of every acknowledged
    /// packet. It is min(send rate, acknowledgement rate) since the packet that was the last one
    /// acknowledged when this one left. `None` if no time has passed.
    #[must_use]
    pub fn delivery_rate(&self, now: Instant) -> Option<DataRate> {
        let prior = &self.sent.delivery;
        let ack_interval = now.saturating_since(prior.delivered_at);
        if ack_interval.is_zero() {
            return None;
        }
        let delivered_bytes = self.delivered_bytes.saturating_sub(prior.delivered_bytes);
        let ack_rate = DataRate::from_bytes_per(delivered_bytes, ack_interval);
        let send_interval = self.sent.sent_at.saturating_since(prior.first_sent_at);
        if send_interval.is_zero() {
            return Some(ack_rate);
        }
        let sent_bytes = prior
            .sent_bytes
            .saturating_sub(prior.sent_bytes_at_last_acked);
        Some(ack_rate.min(DataRate::from_bytes_per(sent_bytes, send_interval)))
    }
}

#[derive(Debug)]
pub(super) struct DeliveryRate {
    delivered_bytes: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    sent_bytes: u64,
    sent_bytes_at_last_acked: u64,
    lost_bytes: u64,
    /// Delivered bytes until which samples are application-limited.
    app_limited_until: Option<u64>,
    train: u8,
    /// Whether a packet of the train has left.
    has_train_begun: bool,
}

impl DeliveryRate {
    pub(super) fn new(now: Instant) -> Self {
        DeliveryRate {
            delivered_bytes: 0,
            delivered_at: now,
            first_sent_at: now,
            sent_bytes: 0,
            sent_bytes_at_last_acked: 0,
            lost_bytes: 0,
            app_limited_until: None,
            train: 0,
            has_train_begun: false,
        }
    }

    pub(super) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    pub(super) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Returns the snapshot for a packet that leaves now; `bytes_in_flight` excludes it.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        bytes: u32,
        bytes_in_flight: u64,
    ) -> DeliverySnapshot {
        self.sent_bytes += u64::from(bytes);
        self.has_train_begun = true;
        if bytes_in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.sent_bytes_at_last_acked = self.sent_bytes;
        }
        DeliverySnapshot {
            delivered_bytes: self.delivered_bytes,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_bytes: self.sent_bytes,
            sent_bytes_at_last_acked: self.sent_bytes_at_last_acked,
            lost_bytes: self.lost_bytes,
            is_app_limited: self.app_limited_until.is_some(),
            train: self.train,
        }
    }

    /// Counts a packet as delivered and returns all bytes delivered so far.
    pub(super) fn on_acked(&mut self, packet: &SentPacket) -> u64 {
        self.delivered_bytes += u64::from(packet.bytes);
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered_bytes > until)
        {
            self.app_limited_until = None;
        }
        self.delivered_bytes
    }

    pub(super) fn on_lost(&mut self, lost_bytes: u64) {
        self.lost_bytes += lost_bytes;
    }

    pub(super) fn mark_app_limited(&mut self, bytes_in_flight: u64) {
        self.app_limited_until = Some((self.delivered_bytes + bytes_in_flight).max(1));
        if core::mem::take(&mut self.has_train_begun) {
            self.train = (self.train + 1) % DeliverySnapshot::TRAINS;
        }
    }

    /// Returns the sample of a report whose newest packet is `packet`; call it after the packets of
    /// the report have been counted. `None` if no time has passed.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        packet: &SentPacket,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        let prior = &packet.delivery;
        self.delivered_at = now;
        // A packet that arrives late must not turn the clock of sending back.
        if packet.delivery.sent_bytes > self.sent_bytes_at_last_acked {
            self.first_sent_at = packet.sent_at;
            self.sent_bytes_at_last_acked = packet.delivery.sent_bytes;
        }
        let send_interval = packet.sent_at.saturating_since(prior.first_sent_at);
        let ack_interval = now.saturating_since(prior.delivered_at);
        if ack_interval.is_zero() {
            return None;
        }
        let delivered_bytes = self.delivered_bytes - prior.delivered_bytes;
        let sent_bytes = prior.sent_bytes - prior.sent_bytes_at_last_acked;
        let ack_rate = DataRate::from_bytes_per(delivered_bytes, ack_interval);
        let send_rate = DataRate::from_bytes_per(sent_bytes, send_interval);
        let interval = send_interval.max(ack_interval);
        Some(RateSample {
            delivery_rate: DataRate::from_bytes_per(delivered_bytes, interval),
            min_of_send_and_ack_rate: send_rate.min(ack_rate),
            delivered_bytes,
            prior_delivered_bytes: prior.delivered_bytes,
            interval,
            is_full_round: min_rtt.is_none_or(|min_rtt| interval >= min_rtt),
            is_app_limited: prior.is_app_limited,
            is_first_flight: prior.delivered_bytes == 0,
        })
    }
}
