//! `zhu`: media-aware rate allocation over several access networks, after X. Zhu, P. Agrawal, J. P.
//! Singh, T. Alpcan, B. Girod, "Rate allocation for multi-user video streaming over heterogenous
//! access networks" (ACM Multimedia 2007; IEEE Transactions on Multimedia 11(4), 2009), which Zhang
//! & Lei discuss as their reference 24.
//!
//! Each path is an M/M/1 queue; packets that come after the deadline are lost. The rates of all
//! paths minimise the video's expected distortion, that of the encoder and that of the late
//! packets: see `zhu/allocation.rs`. Each path's instance solves for all paths from the read model,
//! and takes its own rate.
//!
//! Deviations: the paper's full text was not at hand. From its abstract are the inputs (available
//! bit rate and round-trip time of each network, distortion-rate of the video), the convex sum of
//! distortions, and the comparison with AIMD and H∞ control. From Zhang & Lei §2 are the M/M/1
//! queue and the rule that late packets are lost. The equations are these models' textbook forms,
//! and all the rest is ours:
//! 1. There is one video. Other videos on a path appear through the capacity that they leave, not
//!    through their distortion.
//! 2. The available bit rate is the dispersion of trains of packets, paced at 1.25 of the last one,
//!    smoothed by 1/4, or at once if they arrive as they left. Frames make trains, or padding if no
//!    frame did for half a second. The paper takes the rate as observed.
//! 3. `α`, the bits by which mean wait and residual rate multiply, is a packet's size for M/M/1.
//!    Here it is the observed product, smoothed by 1/8, if that is more.
//! 4. The deadline is the session's, less half the least round-trip time. Observed losses other
//!    than late packets do not move the minimum, and are left out.
//! 5. `θ`, `κ` and `R0` are options. The values that the paper fits to its videos are not known
//!    here.
//! 6. After a retransmission timeout or silence the available rate counts half.
//! 7. `policy=aimd` is TCP's law in rates: a packet more per round trip, half after a loss, never
//!    above the available rate. H∞ control is left out.
//!
//! The pacing rate reports the available rate to the instances of other paths. The target is the
//! allocated rate, which already leaves the necessary room; so `target-fraction = "100 %"` belongs
//! to it.

mod allocation;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{AckedPacket, Feedback};
use anabranch_core::{PathId, PathView, SessionView};
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions};
use anabranch_units::{DataRate, Duration, Instant};

use self::allocation::{PathModel, Video, best_price, rate_of};

/// Trains are paced at this multiple of the available rate.
const PROBE_GAIN: f64 = 1.25;
/// Least packets of a train that give a measurement, and largest train.
const TRAIN_MIN: u32 = 4;
const TRAIN_MAX: u32 = 8;
/// A train arrives as it left if it took no more than 1/0.95 of the time: the path can take more.
const UNDISPERSED: f64 = 0.95;
/// Longest gap between the packets of a train, as a multiple of a packet's time at the available
/// rate. The pacer's gap is 0.8 of it, and the rate may have grown since.
const TRAIN_GAP: f64 = 0.95;
/// Time without a train of media after which padding makes one.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
const AVAILABLE_WEIGHT: f64 = 0.25;
const BURST_WEIGHT: f64 = 0.125;
/// Interval between allocations of the rates.
const ALLOCATION_INTERVAL: Duration = Duration::from_millis(100);
/// Deadline of a session that has none.
const USUAL_DEADLINE: Duration = Duration::from_millis(500);
/// Slack of a deadline that is shorter than the path's delay, in seconds.
const LEAST_SLACK: f64 = 0.01;

const THETA: AlgorithmOption = AlgorithmOption::number(
    "theta",
    "θ of D = θ / (R - R0) + κ P, in kbit/s of distortion",
    1000.0,
    1.0..=1e6,
);
const LEAST_RATE: AlgorithmOption = AlgorithmOption::number(
    "r0",
    "R0 of D = θ / (R - R0) + κ P, in kbit/s",
    20.0,
    0.0..=1e5,
);
const LOSS_SENSITIVITY: AlgorithmOption =
    AlgorithmOption::number("kappa", "κ of D = θ / (R - R0) + κ P", 500.0, 1.0..=1e6);
const POLICY: AlgorithmOption = AlgorithmOption::words(
    "policy",
    "whether rates minimise distortion or follow TCP's law",
    &["media-aware", "aimd"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[THETA, LEAST_RATE, LOSS_SENSITIVITY, POLICY];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Zhu::new(config))
}

#[derive(Debug)]
struct Zhu {
    video: Video,
    is_aimd: bool,
    min_rate: f64,
    max_rate: f64,
    packet_bits: f64,
    /// `c`, in bit/s.
    available: f64,
    /// `α`, in bits.
    burst: f64,
    /// `r`, in bit/s.
    allocated: f64,
    allocated_at: Option<Instant>,
    train: Train,
    /// Time at which the last train ended.
    measured_at: Instant,
    /// Whether padding makes a train, since the last one is too old.
    is_probing: bool,
    /// Losses of packets before this one belong to the last halving.
    halved_until: u64,
    next_packet_number: u64,
}

/// Packets sent back to back.
#[derive(Debug, Default)]
struct Train {
    last: Option<(u64, Instant, Instant)>,
    first_sent_at: Instant,
    first_received_at: Instant,
    packet_count: u32,
    /// Bits without the first packet's.
    bits: f64,
}

impl Train {
    /// Adds an arrived packet; returns the measurement of a train that has ended.
    fn on_acked(&mut self, packet: &AckedPacket, longest_gap: Duration) -> Option<Measured> {
        let received_at = packet.received_at?;
        let sent = &packet.sent;
        let goes_on = self
            .last
            .is_some_and(|(number, sent_at, last_received_at)| {
                sent.packet_number == number + 1
                    && sent.sent_at.saturating_since(sent_at) <= longest_gap
                    && received_at >= last_received_at
                    && self.packet_count < TRAIN_MAX
            });
        let mut measured = None;
        if goes_on {
            self.packet_count += 1;
            self.bits += f64::from(sent.bytes) * 8.0;
        } else {
            measured = self.measured();
            *self = Train {
                first_sent_at: sent.sent_at,
                first_received_at: received_at,
                packet_count: 1,
                ..Train::default()
            };
        }
        self.last = Some((sent.packet_number, sent.sent_at, received_at));
        measured
    }

    /// Returns the rate at which it arrived, and whether it left as slowly.
    fn measured(&self) -> Option<Measured> {
        let (_, sent_at, received_at) = self.last?;
        let sent = sent_at.saturating_since(self.first_sent_at);
        let span = received_at.saturating_since(self.first_received_at);
        (self.packet_count >= TRAIN_MIN && !span.is_zero()).then(|| Measured {
            rate: self.bits / span.as_secs_f64(),
            is_undispersed: span.mul_f64(UNDISPERSED) <= sent,
        })
    }
}

/// Measurement of the path by a train.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// In bit/s.
    rate: f64,
    is_undispersed: bool,
}

impl Zhu {
    fn new(config: &ControllerConfig) -> Self {
        fn bits(rate: DataRate) -> f64 {
            rate.bits_per_second() as f64
        }
        fn number(option: &AlgorithmOption, options: &AlgorithmOptions) -> f64 {
            options.number(option)
        }
        let packet_bits = f64::from(config.max_packet_bytes.max(1)) * 8.0;
        // At least a packet per second.
        let min_rate = bits(config.min_rate).max(packet_bits);
        let initial_rate = bits(config.initial_rate).max(min_rate);
        Zhu {
            video: Video {
                theta: number(&THETA, &config.options) * 1e3,
                least_rate: number(&LEAST_RATE, &config.options) * 1e3,
                loss_sensitivity: number(&LOSS_SENSITIVITY, &config.options),
            },
            is_aimd: config.options.word(&POLICY) == "aimd",
            min_rate,
            max_rate: bits(config.max_rate).max(min_rate),
            packet_bits,
            available: initial_rate,
            burst: packet_bits,
            allocated: initial_rate,
            allocated_at: None,
            train: Train::default(),
            measured_at: Instant::ZERO,
            is_probing: true,
            halved_until: 0,
            next_packet_number: 0,
        }
    }

    fn observe(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let longest_gap = Duration::from_secs_f64(TRAIN_GAP * self.packet_bits / self.available);
        for packet in feedback.acked {
            if let Some(train) = self.train.on_acked(packet, longest_gap) {
                self.measured_at = now;
                self.is_probing = false;
                let weight = if train.is_undispersed {
                    1.0
                } else {
                    AVAILABLE_WEIGHT
                };
                let available = self.available + weight * (train.rate - self.available);
                self.available = available.clamp(self.min_rate, self.max_available());
            }
        }
        if feedback.rtt.has_sample()
            && let Some(min_rtt) = feedback.rtt.min_rtt()
        {
            let wait = feedback
                .rtt
                .smoothed()
                .saturating_sub(min_rtt)
                .as_secs_f64();
            let residual = (self.available - self.allocated).max(0.0);
            let burst = (wait * residual).max(self.packet_bits);
            self.burst += BURST_WEIGHT * (burst - self.burst);
        }
    }

    /// Returns the largest available rate: twice the media's largest rate, so that the model can
    /// give it all the room that it may want.
    fn max_available(&self) -> f64 {
        2.0 * self.max_rate
    }

    /// Allocates the rate of the least distortion.
    fn allocate(&mut self, path: PathId, session: &SessionView, paths: &[PathView]) {
        let deadline = match session.deadline {
            Duration::ZERO => USUAL_DEADLINE.as_secs_f64(),
            deadline => deadline.as_secs_f64(),
        };
        let view = paths.iter().find(|view| view.id == path);
        let own = PathModel {
            available: self.available,
            burst: self.burst,
            slack: slack(deadline, view.and_then(|view| view.rtt.least)),
        };
        let burst = self.packet_bits;
        let siblings = paths
            .iter()
            .filter(|view| view.id != path && view.state.is_usable())
            .map(|view| sibling(view, deadline, burst));
        let price = best_price(&self.video, siblings.chain([own]));
        self.allocated = rate_of(&own, price);
    }

    /// Increases the rate by TCP's law: a packet more per round trip.
    fn increase(&mut self, span: Duration, rtt: Duration) {
        let rtt = rtt.as_secs_f64().max(1e-3);
        let round_trips = span.as_secs_f64().min(1.0) / rtt;
        self.allocated += round_trips * self.packet_bits / rtt;
        self.allocated = self.allocated.min(self.available);
    }

    fn halve_available(&mut self) {
        self.available = (0.5 * self.available).max(self.min_rate);
        self.allocated = self.allocated.min(0.5 * self.allocated.max(self.min_rate));
        self.halved_until = self.next_packet_number;
        self.train = Train::default();
    }

    fn rate(bits_per_second: f64) -> DataRate {
        DataRate::from_bits_per_second(bits_per_second as u64)
    }
}

fn slack(deadline: f64, min_rtt: Option<Duration>) -> f64 {
    let propagation = min_rtt.unwrap_or(PathView::UNKNOWN_RTT).as_secs_f64() / 2.0;
    (deadline - propagation).max(LEAST_SLACK)
}

/// Returns the model of another path by the read model. Its pacing rate is a multiple of its
/// available rate, its target the allocated rate.
fn sibling(view: &PathView, deadline: f64, packet_bits: f64) -> PathModel {
    fn bits(rate: DataRate) -> f64 {
        rate.bits_per_second() as f64
    }
    let available = bits(view.drain_rate()) / PROBE_GAIN;
    let wait = match (view.rtt.smoothed, view.rtt.least) {
        (Some(smoothed), Some(min)) => smoothed.saturating_sub(min).as_secs_f64(),
        _ => 0.0,
    };
    let residual = (available - bits(view.bandwidth)).max(0.0);
    PathModel {
        available,
        burst: (wait * residual).max(packet_bits),
        slack: slack(deadline, view.rtt.least),
    }
}

impl CongestionController for Zhu {
    fn on_sent(&mut self, _now: Instant, packet: &anabranch_core::recovery::SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.observe(now, feedback);
        self.is_probing |= now.saturating_since(self.measured_at) >= PROBE_INTERVAL;
        if self.is_aimd
            && feedback
                .lost
                .iter()
                .any(|packet| packet.packet_number >= self.halved_until)
        {
            self.allocated *= 0.5;
            self.halved_until = self.next_packet_number;
        }
        let since = self.allocated_at.map(|at| now.saturating_since(at));
        if since.is_some_and(|since| since < ALLOCATION_INTERVAL) {
            return;
        }
        self.allocated_at = Some(now);
        if self.is_aimd {
            self.increase(since.unwrap_or(Duration::ZERO), feedback.rtt.smoothed());
        } else {
            self.allocate(feedback.path, session, paths);
        }
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if cause != Timeout::Own {
            self.halve_available();
        }
    }

    fn control(&self) -> ControlParameters {
        let target = self.allocated.clamp(self.min_rate, self.max_rate);
        let pacing_rate = Self::rate(PROBE_GAIN * self.available.max(target));
        ControlParameters {
            pacing_rate: Some(pacing_rate),
            padding_rate: if self.is_probing {
                pacing_rate
            } else {
                DataRate::ZERO
            },
            ..ControlParameters::of(Self::rate(target))
        }
    }

    fn state(&self) -> &'static str {
        if self.is_aimd { "AIMD" } else { "MediaAware" }
    }
}

#[cfg(test)]
mod tests;
