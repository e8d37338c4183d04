//! Random steps for a controller, with the state that recovery would keep.

use std::sync::Arc;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, PacketContent, RateSample, RttEstimator, SentPacket,
};
use anabranch_core::{PathId, SessionView};
use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::controller::{Maker, PyController};
use crate::failures::has_failed;

/// Steps of a case.
const STEPS: u64 = 300;

/// Returns the rule that the controller breaks in the steps of a seed.
pub(super) fn broken_rule(maker: &Arc<Maker>, seed: Seed) -> Option<String> {
    let config = ControllerConfig {
        seed,
        is_media: true,
        ..ControllerConfig::default()
    };
    let [first, second] = [(); 2].map(|()| answers(maker, &config, seed));
    if has_failed() {
        return None;
    }
    let (first, second) = match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(rule), _) | (_, Err(rule)) => return Some(rule),
    };
    let differing = first
        .iter()
        .zip(&second)
        .position(|(one, other)| one != other);
    differing.map(|step| format!("same calls, same answers: step {step} differs"))
}

/// Plays steps, and returns the controller's answer to each.
fn answers(
    maker: &Arc<Maker>,
    config: &ControllerConfig,
    seed: Seed,
) -> Result<Vec<ControlParameters>, String> {
    let mut player = Player::new(Box::new(PyController::start(maker, config)));
    let mut rng = seed.derive("contract").rng();
    let mut answers = Vec::new();
    for step in 0..STEPS {
        if has_failed() {
            break;
        }
        let what = player.step(&mut rng);
        let control = player.controller.control();
        if !sends_something(&control, config) {
            return Err(format!(
                "always sends something: after step {step} ({what}) the limits are {control:?}; \
                 a packet must fit the window, a second must carry a packet or the least rate, \
                 and the target must be above zero"
            ));
        }
        answers.push(control);
    }
    Ok(answers)
}

/// Whether the controller grants a window and a rate of at least a packet per round trip or second,
/// unless the configured minimum is less.
fn sends_something(control: &ControlParameters, config: &ControllerConfig) -> bool {
    let packet_bytes = u64::from(config.max_packet_bytes);
    let window = control.congestion_window;
    let by_window = window.is_none_or(|window| window >= packet_bytes);
    let by_rate = control.pacing_rate.is_none_or(|rate| {
        rate.bytes_in(Duration::from_secs(1)) >= packet_bytes || rate >= config.min_rate
    });
    let is_limited = control.congestion_window.is_some() || control.pacing_rate.is_some();
    by_window && by_rate && is_limited && !control.target_rate.is_zero()
}

/// A controller and the packets that it has sent.
struct Player {
    controller: Box<dyn CongestionController>,
    now: Instant,
    next_packet_number: u64,
    outstanding: Vec<SentPacket>,
    /// Packets declared lost, in the order of their numbers.
    gone: Vec<SentPacket>,
    rtt: RttEstimator,
    delivered_bytes: u64,
    lost_bytes: u64,
    timeout_count: u32,
}

impl Player {
    fn new(controller: Box<dyn CongestionController>) -> Player {
        Player {
            controller,
            now: Instant::from_secs(1),
            next_packet_number: 0,
            outstanding: Vec::new(),
            gone: Vec::new(),
            rtt: RttEstimator::default(),
            delivered_bytes: 0,
            lost_bytes: 0,
            timeout_count: 0,
        }
    }

    /// Plays a random step and returns its name.
    fn step(&mut self, rng: &mut Rng) -> &'static str {
        match rng.below(20) {
            0..6 => {
                self.send(1 + rng.below(1_500) as u32);
                "a packet"
            }
            6..10 => {
                self.now += Duration::from_micros(rng.below(400_000));
                "a pause"
            }
            10..17 => {
                self.report(rng);
                "a report"
            }
            17 => {
                self.timeout_count += 1;
                let cause = Timeout::Retransmission {
                    count: self.timeout_count,
                    prior_bytes_in_flight: self.bytes_in_flight(),
                };
                self.controller.on_timeout(self.now, cause);
                "a retransmission timeout"
            }
            18 => {
                let prior_bytes_in_flight = self.bytes_in_flight();
                self.lose(self.outstanding.len());
                let cause = Timeout::FeedbackSilence {
                    prior_bytes_in_flight,
                };
                self.controller.on_timeout(self.now, cause);
                "silence"
            }
            _ => {
                self.now += Duration::from_secs(15);
                "a long pause"
            }
        }
    }

    fn bytes_in_flight(&self) -> u64 {
        let bytes = self
            .outstanding
            .iter()
            .map(|packet| u64::from(packet.bytes));
        bytes.sum()
    }

    fn send(&mut self, bytes: u32) {
        let packet = SentPacket {
            packet_number: self.next_packet_number,
            sent_at: self.now,
            bytes,
            bytes_in_flight: self.bytes_in_flight() + u64::from(bytes),
            delivery: DeliverySnapshot {
                delivered_bytes: self.delivered_bytes,
                lost_bytes: self.lost_bytes,
                ..DeliverySnapshot::default()
            },
            content: PacketContent::Padding,
        };
        self.next_packet_number += 1;
        self.outstanding.push(packet);
        self.controller.on_sent(self.now, &packet);
    }

    /// Declares the oldest packets in flight lost.
    fn lose(&mut self, count: usize) -> Vec<SentPacket> {
        let count = count.min(self.outstanding.len());
        let lost: Vec<SentPacket> = self.outstanding.drain(..count).collect();
        self.lost_bytes += lost
            .iter()
            .map(|packet| u64::from(packet.bytes))
            .sum::<u64>();
        self.gone.extend_from_slice(&lost);
        lost
    }

    fn report(&mut self, rng: &mut Rng) {
        let prior_bytes_in_flight = self.bytes_in_flight();
        let spurious = if rng.chance(0.25) {
            rng.below(6) as usize
        } else {
            0
        };
        let spurious = spurious.min(self.gone.len());
        let mut arrived: Vec<SentPacket> = self.gone.drain(..spurious).collect();
        let lost = self.lose(rng.below(4) as usize);
        let acked_count = (rng.below(12) as usize).min(self.outstanding.len());
        arrived.extend(self.outstanding.drain(..acked_count));
        let has_rtt = rng.chance(0.5);
        let mut acked = Vec::new();
        for sent in arrived {
            self.delivered_bytes += u64::from(sent.bytes);
            acked.push(AckedPacket {
                sent,
                received_at: has_rtt.then_some(self.now),
                rtt: has_rtt.then_some(self.now - sent.sent_at),
                delivered_bytes: self.delivered_bytes,
            });
        }
        if let Some(rtt) = acked.last().and_then(|newest| newest.rtt) {
            self.rtt.on_sample(self.now, rtt);
        }
        if !acked.is_empty() {
            self.timeout_count = 0;
        }
        let rate = DataRate::from_kilobits_per_second(rng.below(20_000));
        let is_app_limited = rng.chance(0.5);
        let sample = RateSample {
            delivery_rate: rate,
            min_of_send_and_ack_rate: rate,
            delivered_bytes: 1,
            prior_delivered_bytes: 0,
            interval: Duration::from_millis(1),
            is_full_round: true,
            is_app_limited,
            is_first_flight: false,
        };
        let feedback = Feedback {
            path: PathId(0),
            acked: &acked,
            lost: &lost,
            spurious: &acked[..spurious],
            rtt: &self.rtt,
            delivery: (!acked.is_empty()).then_some(sample),
            prior_bytes_in_flight,
            bytes_in_flight: self.bytes_in_flight(),
            delivered_bytes: self.delivered_bytes,
            lost_bytes: self.lost_bytes,
            is_app_limited,
            is_window_limited: !is_app_limited,
            reported_at: self.now,
            ce_count: 0,
        };
        let session = SessionView::default();
        self.controller
            .on_feedback(self.now, &feedback, &session, &[]);
    }
}
