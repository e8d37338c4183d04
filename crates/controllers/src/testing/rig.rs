//! A controller alone, with exactly the inputs that a test gives it.

use anabranch_core::control::CongestionController;
use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, PacketContent, RateSample, RttEstimator, SentPacket,
};
use anabranch_core::{PathId, PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

/// A controller, its packets in flight, and the state that recovery would keep of them.
pub(crate) struct Rig<C> {
    pub(crate) controller: C,
    /// Time, which the test advances.
    pub(crate) now: Instant,
    pub(crate) rtt: RttEstimator,
    /// Packets in flight, in the order of their numbers.
    pub(crate) flying: Vec<SentPacket>,
    /// Packets declared lost, in the order of their numbers.
    gone: Vec<SentPacket>,
    packet_bytes: u32,
    next_packet_number: u64,
    sent_bytes: u64,
    delivered_bytes: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    sent_bytes_at_last_acked: u64,
    /// Whether packets leave an application-limited sender.
    pub(crate) is_app_limited: bool,
    lost_bytes: u64,
    /// Views of the session's paths; the controller is that of path 0.
    pub(crate) paths: Vec<PathView>,
}

/// Contents of a report. The oldest packets in flight are lost, the next oldest acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) lost: usize,
    pub(crate) acked: usize,
    /// Count of packets lost before, the oldest first, that have arrived after all.
    pub(crate) spurious: usize,
    /// Round-trip time of every acknowledged packet; `None`: the time since it was sent.
    pub(crate) rtt: Option<Duration>,
    /// Arrival time by the peer's clock; `None`: half of the round-trip time after it was sent.
    pub(crate) received_at: Option<Instant>,
    /// The delivery rate; `None`: as measured.
    pub(crate) rate: Option<DataRate>,
    pub(crate) is_app_limited: bool,
    /// Whether the window had room all the time.
    pub(crate) has_window_left: bool,
    pub(crate) ce_count: u64,
}

impl<C: CongestionController> Rig<C> {
    /// Returns a rig at the first second, with nothing sent, for packets of `packet_bytes`.
    pub(crate) fn new(controller: C, packet_bytes: u32) -> Self {
        let now = Instant::from_secs(1);
        Rig {
            controller,
            now,
            rtt: RttEstimator::default(),
            flying: Vec::new(),
            gone: Vec::new(),
            packet_bytes,
            next_packet_number: 0,
            sent_bytes: 0,
            delivered_bytes: 0,
            delivered_at: now,
            first_sent_at: now,
            sent_bytes_at_last_acked: 0,
            is_app_limited: false,
            lost_bytes: 0,
            paths: Vec::new(),
        }
    }

    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.flying
            .iter()
            .map(|packet| u64::from(packet.bytes))
            .sum()
    }

    pub(crate) fn send(&mut self, count: usize) {
        for _ in 0..count {
            self.sent_bytes += u64::from(self.packet_bytes);
            if self.flying.is_empty() {
                (self.first_sent_at, self.delivered_at) = (self.now, self.now);
                self.sent_bytes_at_last_acked = self.sent_bytes;
            }
            let packet = SentPacket {
                packet_number: self.next_packet_number,
                sent_at: self.now,
                bytes: self.packet_bytes,
                bytes_in_flight: self.bytes_in_flight() + u64::from(self.packet_bytes),
                delivery: DeliverySnapshot {
                    delivered_bytes: self.delivered_bytes,
                    delivered_at: self.delivered_at,
                    first_sent_at: self.first_sent_at,
                    sent_bytes: self.sent_bytes,
                    sent_bytes_at_last_acked: self.sent_bytes_at_last_acked,
                    lost_bytes: self.lost_bytes,
                    is_app_limited: self.is_app_limited,
                    train: 0,
                },
                content: PacketContent::Padding,
            };
            self.next_packet_number += 1;
            self.flying.push(packet);
            self.controller.on_sent(self.now, &packet);
        }
    }

    pub(crate) fn report(&mut self, report: Report) {
        let prior_bytes_in_flight = self.bytes_in_flight();
        let lost: Vec<SentPacket> = self.flying.drain(..report.lost).collect();
        self.lost_bytes += lost
            .iter()
            .map(|packet| u64::from(packet.bytes))
            .sum::<u64>();
        let late: Vec<SentPacket> = self.gone.drain(..report.spurious).collect();
        self.gone.extend_from_slice(&lost);
        let mut arrived = late;
        arrived.extend(self.flying.drain(..report.acked));
        let mut acked = Vec::new();
        for sent in arrived {
            let rtt = report.rtt.unwrap_or(self.now - sent.sent_at);
            self.delivered_bytes += u64::from(sent.bytes);
            acked.push(AckedPacket {
                sent,
                received_at: Some(report.received_at.unwrap_or(sent.sent_at + rtt / 2)),
                rtt: Some(rtt),
                delivered_bytes: self.delivered_bytes,
            });
        }
        if let Some(rtt) = acked.last().and_then(|newest| newest.rtt) {
            self.rtt.on_sample(self.now, rtt);
            self.delivered_at = self.now;
        }
        let delivery = acked.last().map(|newest| self.sample(newest, &report));
        if let Some(newest) = acked.last() {
            self.first_sent_at = newest.sent.sent_at;
            self.sent_bytes_at_last_acked = newest.sent.delivery.sent_bytes;
        }
        let feedback = Feedback {
            path: PathId(0),
            acked: &acked,
            lost: &lost,
            spurious: &acked[..report.spurious],
            rtt: &self.rtt,
            delivery,
            prior_bytes_in_flight,
            bytes_in_flight: self.bytes_in_flight(),
            delivered_bytes: self.delivered_bytes,
            lost_bytes: self.lost_bytes,
            is_app_limited: report.is_app_limited,
            is_window_limited: !report.has_window_left,
            reported_at: self.now,
            ce_count: report.ce_count,
        };
        let session = SessionView::default();
        self.controller
            .on_feedback(self.now, &feedback, &session, &self.paths);
    }

    /// Acknowledges the oldest `count` packets, one report for all.
    pub(crate) fn ack(&mut self, count: usize) {
        self.report(Report {
            acked: count,
            ..Report::default()
        });
    }

    /// Acknowledges every packet in flight, `rtt` from now, with a report for each.
    pub(crate) fn ack_all_after(&mut self, rtt: Duration) {
        self.now += rtt;
        for _ in 0..self.flying.len() {
            self.ack(1);
        }
    }

    fn sample(&self, newest: &AckedPacket, report: &Report) -> RateSample {
        let snapshot = &newest.sent.delivery;
        let send_interval = newest.sent.sent_at - snapshot.first_sent_at;
        let ack_interval = self.now - snapshot.delivered_at;
        let interval = send_interval
            .max(ack_interval)
            .max(Duration::from_micros(1));
        let delivered_bytes = self.delivered_bytes - snapshot.delivered_bytes;
        let measured = DataRate::from_bytes_per(delivered_bytes, interval);
        let rate = report.rate.unwrap_or(measured);
        RateSample {
            delivery_rate: rate,
            min_of_send_and_ack_rate: rate,
            delivered_bytes,
            prior_delivered_bytes: snapshot.delivered_bytes,
            interval,
            is_full_round: self.rtt.min_rtt().is_none_or(|min| interval >= min),
            is_app_limited: report.is_app_limited,
            is_first_flight: snapshot.delivered_bytes == 0,
        }
    }
}
