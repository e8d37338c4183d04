//! Steps for a controller, with the state that recovery would keep, and the rule that it always
//! sends something. The contract of every controller plays them, here and in the Python package.

use core::fmt;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, PacketContent, RateSample, RttEstimator, SentPacket,
};
use anabranch_core::{PathId, PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant, Rng};

/// Largest count of marks in a report: the largest integer on the wire.
pub const MAX_CE_COUNT: u64 = (1 << 62) - 1;

/// Events that a controller may see; numbers are picked among the outstanding packets.
#[derive(Clone, Debug)]
pub enum Step {
    /// A packet is sent.
    Send {
        /// Its bytes.
        bytes: u32,
    },
    /// Time passes.
    Wait {
        /// Microseconds.
        micros: u64,
    },
    /// A report arrives.
    Report {
        /// Number of packets that it acknowledges, the oldest first.
        acked: usize,
        /// Number of packets that are declared lost before, the oldest first.
        lost: usize,
        /// Packets declared lost that arrive after all, the oldest first.
        spurious: usize,
        /// Delivery rate, kbit/s.
        rate_kilobits: u64,
        /// Whether the application had too little to send.
        is_app_limited: bool,
        /// Whether it has samples of the round trip.
        has_rtt: bool,
        /// Number of new marks of congestion.
        ce_count: u64,
    },
    /// The retransmission timer expires.
    Retransmission,
    /// Reports have failed to come for long.
    Silence,
    /// The controller's own timer expires.
    Own,
    /// The path is penalised.
    Penalty,
}

impl Step {
    /// Returns a random step, one that any controller may see.
    pub fn random(rng: &mut Rng) -> Step {
        match rng.below(20) {
            0..6 => Step::Send {
                bytes: 1 + rng.below(1_500) as u32,
            },
            6..10 => Step::Wait {
                micros: rng.below(400_000),
            },
            10..17 => Step::Report {
                spurious: if rng.chance(0.25) {
                    rng.below(6) as usize
                } else {
                    0
                },
                lost: rng.below(4) as usize,
                acked: rng.below(12) as usize,
                has_rtt: rng.chance(0.5),
                rate_kilobits: rng.below(20_000),
                is_app_limited: rng.chance(0.5),
                ce_count: 0,
            },
            17 => Step::Retransmission,
            18 => Step::Silence,
            _ => Step::Wait { micros: 15_000_000 },
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Send { .. } => "a packet",
            Step::Wait { .. } => "a pause",
            Step::Report { .. } => "a report",
            Step::Retransmission => "a retransmission timeout",
            Step::Silence => "silence",
            Step::Own => "its own timer",
            Step::Penalty => "a penalty",
        })
    }
}

/// Plays steps to a controller, with the state that recovery would keep.
#[derive(Debug)]
pub struct Player {
    /// The controller.
    pub controller: Box<dyn CongestionController>,
    /// The views of paths that the controller gets.
    pub paths: Vec<PathView>,
    now: Instant,
    next_packet_number: u64,
    outstanding: Vec<SentPacket>,
    /// Packets declared lost, in the order of their numbers.
    gone: Vec<SentPacket>,
    rtt: RttEstimator,
    delivered_bytes: u64,
    lost_bytes: u64,
    /// Largest further increase of the peer's counter of marks.
    ce_count_left: u64,
    timeout_count: u32,
}

impl Player {
    /// Creates the player of a controller that knows of no path.
    pub fn new(controller: Box<dyn CongestionController>) -> Self {
        Player {
            controller,
            paths: Vec::new(),
            now: Instant::from_secs(1),
            next_packet_number: 0,
            outstanding: Vec::new(),
            gone: Vec::new(),
            rtt: RttEstimator::default(),
            delivered_bytes: 0,
            lost_bytes: 0,
            ce_count_left: MAX_CE_COUNT,
            timeout_count: 0,
        }
    }

    fn bytes_in_flight(&self) -> u64 {
        self.outstanding
            .iter()
            .map(|packet| u64::from(packet.bytes))
            .sum()
    }

    /// Plays one step.
    pub fn play(&mut self, step: &Step) {
        match *step {
            Step::Send { bytes } => self.send(bytes),
            Step::Wait { micros } => self.now += Duration::from_micros(micros),
            Step::Report { .. } => self.report(step),
            Step::Retransmission => {
                self.timeout_count += 1;
                let count = self.timeout_count;
                let prior_bytes_in_flight = self.bytes_in_flight();
                self.controller.on_timeout(
                    self.now,
                    Timeout::Retransmission {
                        count,
                        prior_bytes_in_flight,
                    },
                );
            }
            Step::Silence => {
                let prior_bytes_in_flight = self.bytes_in_flight();
                let all = self.outstanding.len();
                self.lose(all);
                self.controller.on_timeout(
                    self.now,
                    Timeout::FeedbackSilence {
                        prior_bytes_in_flight,
                    },
                );
            }
            Step::Own => self.controller.on_timeout(self.now, Timeout::Own),
            Step::Penalty => self.controller.on_penalty(),
        }
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
        let bytes = lost.iter().map(|packet| u64::from(packet.bytes));
        self.lost_bytes += bytes.sum::<u64>();
        self.gone.extend_from_slice(&lost);
        lost
    }

    /// Plays [`Step::Report`].
    fn report(&mut self, step: &Step) {
        let Step::Report {
            acked,
            lost,
            spurious,
            rate_kilobits,
            is_app_limited,
            has_rtt,
            ce_count,
        } = *step
        else {
            return;
        };
        let ce_count = ce_count.min(self.ce_count_left);
        self.ce_count_left -= ce_count;
        let prior_bytes_in_flight = self.bytes_in_flight();
        let spurious = spurious.min(self.gone.len());
        let mut arrived: Vec<SentPacket> = self.gone.drain(..spurious).collect();
        let lost = self.lose(lost);
        let acked = acked.min(self.outstanding.len());
        arrived.extend(self.outstanding.drain(..acked));
        let mut acked = Vec::new();
        for sent in arrived {
            let rtt = self.now - sent.sent_at;
            self.delivered_bytes += u64::from(sent.bytes);
            acked.push(AckedPacket {
                sent,
                received_at: has_rtt.then_some(self.now),
                rtt: has_rtt.then_some(rtt),
                delivered_bytes: self.delivered_bytes,
            });
        }
        if let Some(rtt) = acked.last().and_then(|newest| newest.rtt) {
            self.rtt.on_sample(self.now, rtt);
        }
        if !acked.is_empty() {
            self.timeout_count = 0;
        }
        let rate = DataRate::from_kilobits_per_second(rate_kilobits);
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
            ce_count,
        };
        self.controller
            .on_feedback(self.now, &feedback, &SessionView::default(), &self.paths);
    }
}

/// Returns whether the controller grants a window and a rate of at least a packet per round trip or
/// second, unless the configured minimum is less.
pub fn sends_something(control: &ControlParameters, config: &ControllerConfig) -> bool {
    let packet_bytes = u64::from(config.max_packet_bytes);
    let by_window = control
        .congestion_window
        .is_none_or(|window| window >= packet_bytes);
    let a_second = Duration::from_secs(1);
    let by_rate = control
        .pacing_rate
        .is_none_or(|rate| rate.bytes_in(a_second) >= packet_bytes || rate >= config.min_rate);
    let is_limited = control.congestion_window.is_some() || control.pacing_rate.is_some();
    by_window && by_rate && is_limited && !control.target_rate.is_zero()
}
