//! `tfrc`: TCP Friendly Rate Control, RFC 5348 (September 2008). `tfrc-ns2`: the same as ns-2.35
//! implements it, with its defaults. `tfrc-conservative`: ns-2's with `conservative_` on, the
//! self-clocked TFRC of Bansal, Balakrishnan, Floyd & Shenker, "Dynamic behavior of
//! slowly-responsive congestion control algorithms" (SIGCOMM 2001).
//!
//! The receiver measures the rate of loss events p and the rate at which packets arrive. Once per
//! round trip, the sender sets its rate to that of TCP Reno at that p, bounded by a multiple of the
//! receive rate. The variants are rows of [`Profile`].
//!
//! The segment size s is [`ControllerConfig::max_packet_bytes`], on the wire; all rates count wire
//! bytes.
//!
//! Deviations:
//! 1. The receiver runs at the sender, from arrival times, with the sender's present `R`; a loss
//!    that turns out spurious is not undone.
//! 2. s is neither payload only nor the mean size of sent packets (RFC 5348 §4.1).
//! 3. All losses of an outage are one loss event, since the session has reported that the path was
//!    out.
//! 4. The source counts as the limit if it has sent less than 0.8 of the allowed rate since the
//!    last report (RFC 5348 §8.2.1 counts packet by packet).
//! 5. The rate is at least the configured minimum, or a packet in 64 s (`t_mbi`). That holds for
//!    ns-2's sender, too, whose own minimum is lower still. Until the first report it is a packet
//!    per second.
//! 6. The self-clocked bound counts the part of the rate that a source leaves unused as received,
//!    down to 0.8 of the rate. That is the share that the session asks its encoder for, and 1.1
//!    times the arrivals of it would be less each round trip. Below 0.8, in slow start, too, the
//!    bound is that of RFC 5348 §4.3 for data-limited senders: twice the largest receive rate, and
//!    after a new loss that rate halved. ns-2 takes 1.1 times the receive rate, however much the
//!    source leaves unused, so that a source that uses less than 1/1.1 of its rate gradually loses
//!    it.
//! 7. ns-2: a step of slow start is taken by half for a round trip, instead of packet by packet
//!    (`slow_increase_`).

mod equation;
mod loss_history;
mod ns2;
mod receiver;
mod rfc5348;
mod sender;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, HoleReports, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant};

use self::equation::Equation;
use self::ns2::Ns2;
use self::receiver::{Path, Receiver};
use self::rfc5348::Rfc5348;
use self::sender::{Round, Sender};
use super::rate_use::RateUse;

/// The nofeedback timer before the first report (RFC 5348 §4.2).
const INITIAL_NOFEEDBACK: Duration = Duration::from_secs(2);
/// Interval of packets before the first report, in seconds (RFC 5348 §4.2).
const INITIAL_GAP_SECONDS: f64 = 1.0;
/// `t_mbi`: longest interval of packets, in seconds (RFC 5348 §4.5).
const MAX_BACKOFF_SECONDS: f64 = 64.0;
/// Lower bound of round-trip times, in seconds.
const MIN_RTT: f64 = 0.000_1;

const SELF_CLOCKING: AlgorithmOption = AlgorithmOption::number(
    "c",
    "multiple of the receive rate allowed without loss (Bansal et al.: 1.1; ns-2: 1.5)",
    1.1,
    1.0..=2.0,
);

pub(super) const CONSERVATIVE_OPTIONS: &[AlgorithmOption] = &[SELF_CLOCKING];

/// Parameters of a variant of TFRC.
#[derive(Debug)]
struct Profile {
    /// Weight of the old value in `R` (`df_`).
    rtt_memory: f64,
    /// Weight of the old value in the average root of the round-trip time.
    root_memory: f64,
    /// `t_RTO` in round trips; `None`: SRTT + 4 RTTVAR in ticks of 0.1 s.
    timeout_rtts: Option<f64>,
    is_chance_bounded: bool,
    discount_floor: f64,
    /// `NDUPACK`: packets of higher numbers after which a packet is lost.
    loss_threshold: u8,
    /// Whether a loss event needs, beyond `R`, a packet that was sent after a report on the last
    /// event had arrived (`PreciseLoss_`).
    is_round_needed: bool,
    is_first_interval_by_largest_rate: bool,
    /// The nofeedback timer in round trips.
    nofeedback_rtts: f64,
}

const RFC_5348: Profile = Profile {
    rtt_memory: 0.9,
    root_memory: 0.9,
    timeout_rtts: Some(4.0),
    is_chance_bounded: false,
    discount_floor: 0.25,
    loss_threshold: 3,
    is_round_needed: false,
    is_first_interval_by_largest_rate: true,
    nofeedback_rtts: 4.0,
};

const NS_2: Profile = Profile {
    rtt_memory: 0.95,
    root_memory: 0.95,
    timeout_rtts: None,
    is_chance_bounded: true,
    discount_floor: 0.5,
    loss_threshold: 1,
    is_round_needed: true,
    is_first_interval_by_largest_rate: false,
    nofeedback_rtts: 2.0,
};

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    let sender = Rfc5348::new(segment_bytes(config));
    Box::new(Tfrc::new(config, &RFC_5348, sender))
}

pub(super) fn build_ns2(config: &ControllerConfig) -> Box<dyn CongestionController> {
    let sender = Ns2::new(segment_bytes(config), None);
    Box::new(Tfrc::new(config, &NS_2, sender))
}

pub(super) fn build_conservative(config: &ControllerConfig) -> Box<dyn CongestionController> {
    let factor = config.options.number(&SELF_CLOCKING);
    let sender = Ns2::new(segment_bytes(config), Some(factor));
    Box::new(Tfrc::new(config, &NS_2, sender))
}

fn segment_bytes(config: &ControllerConfig) -> f64 {
    f64::from(config.max_packet_bytes.max(1))
}

#[derive(Debug)]
struct Tfrc<S> {
    profile: &'static Profile,
    segment_bytes: f64,
    min_rate: DataRate,
    max_rate: DataRate,
    rtt: Option<RoundTrip>,
    receiver: Receiver,
    sender: S,
    rate_use: RateUse,
    next_packet_number: u64,
    bytes_in_flight: u64,
    /// Whether nothing has been sent since the nofeedback timer was set.
    is_idle: bool,
    nofeedback_at: Option<Instant>,
}

/// Sender's estimates of the round-trip time, in seconds.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    /// `R`.
    smoothed: f64,
    latest: f64,
    /// `R_sqmean`.
    mean_root: f64,
    ticks: Ticks,
}

/// ns-2's TCP-like estimate: SRTT in eighths and RTTVAR in quarters of a tick.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    smoothed_eighths: i64,
    variation_quarters: i64,
}

impl Ticks {
    /// `tcp_tick_`, in seconds.
    const TICK: f64 = 0.1;

    fn in_ticks(rtt: f64) -> i64 {
        ((rtt / Self::TICK + 0.5) as i64).max(1)
    }

    fn first(rtt: f64) -> Self {
        let ticks = Self::in_ticks(rtt);
        Ticks {
            smoothed_eighths: ticks * 8,
            variation_quarters: ticks * 2,
        }
    }

    fn on_sample(&mut self, rtt: f64) {
        let error = Self::in_ticks(rtt) - self.smoothed_eighths / 8;
        self.smoothed_eighths = (self.smoothed_eighths + error).max(1);
        let change = error.abs() - self.variation_quarters / 4;
        self.variation_quarters = (self.variation_quarters + change).max(1);
    }

    fn timeout(&self) -> f64 {
        ((self.variation_quarters * 8 + self.smoothed_eighths) / 8) as f64 * Self::TICK
    }
}

impl<S: Sender> Tfrc<S> {
    fn new(config: &ControllerConfig, profile: &'static Profile, sender: S) -> Self {
        Tfrc {
            profile,
            segment_bytes: segment_bytes(config),
            min_rate: config.min_rate,
            max_rate: config.max_rate,
            rtt: None,
            receiver: Receiver::new(profile),
            sender,
            rate_use: RateUse::new(segment_bytes(config)),
            next_packet_number: 0,
            bytes_in_flight: 0,
            is_idle: false,
            nofeedback_at: None,
        }
    }

    /// Takes a sample (RFC 5348 §4.3, step 2, and §4.5).
    fn on_rtt_sample(&mut self, sample: Duration) {
        fn mix(memory: f64, old: f64, new: f64) -> f64 {
            memory * old + (1.0 - memory) * new
        }

        let latest = sample.as_secs_f64().max(MIN_RTT);
        let Some(rtt) = &mut self.rtt else {
            self.rtt = Some(RoundTrip {
                smoothed: latest,
                latest,
                mean_root: latest.sqrt(),
                ticks: Ticks::first(latest),
            });
            return;
        };
        rtt.smoothed = mix(self.profile.rtt_memory, rtt.smoothed, latest);
        rtt.mean_root = mix(self.profile.root_memory, rtt.mean_root, latest.sqrt());
        rtt.latest = latest;
        rtt.ticks.on_sample(latest);
    }

    fn path(&self) -> Option<Path> {
        self.rtt.map(|rtt| Path {
            rtt: rtt.smoothed,
            timeout: match self.profile.timeout_rtts {
                Some(round_trips) => round_trips * rtt.smoothed,
                None => rtt.ticks.timeout(),
            },
            equation: Equation {
                segment_bytes: self.segment_bytes,
                is_chance_bounded: self.profile.is_chance_bounded,
            },
        })
    }

    fn on_round(&mut self, now: Instant, report: receiver::Report, path: &Path) {
        let equation_rate = path
            .equation
            .rate(report.loss_event_rate, path.rtt, path.timeout);
        let used_share = self.rate_use.take_share(now);
        self.sender.on_report(&Round {
            now,
            report,
            rtt: path.rtt,
            equation_rate,
            used_share,
        });
        self.receiver.on_round(self.next_packet_number);
        self.set_nofeedback_timer(now);
        self.rate_use.on_rate(now, self.pacing_bytes_per_second());
    }

    fn set_nofeedback_timer(&mut self, now: Instant) {
        let rtt = self.rtt.map_or(0.0, |rtt| rtt.smoothed);
        let rate = self.within_limits(self.sender.rate());
        let span = (self.profile.nofeedback_rtts * rtt).max(2.0 * self.segment_bytes / rate);
        let span = Duration::from_secs_f64(span);
        let span = if self.rtt.is_none() {
            span.max(INITIAL_NOFEEDBACK)
        } else {
            span
        };
        self.nofeedback_at = Some(now + span);
        self.is_idle = self.bytes_in_flight == 0;
    }

    fn on_nofeedback(&mut self, now: Instant) {
        let rtt = self.rtt.map(|rtt| rtt.smoothed);
        self.sender.on_nofeedback(now, rtt, self.is_idle);
        self.receiver.on_round(self.next_packet_number);
        self.set_nofeedback_timer(now);
        self.rate_use.on_rate(now, self.pacing_bytes_per_second());
    }

    /// Returns `X_inst`, damped by the ratio of the latest round-trip time to the mean (RFC 5348
    /// §4.5, ns-2's `ca_`).
    fn pacing_bytes_per_second(&self) -> f64 {
        let damping = self
            .rtt
            .map_or(1.0, |rtt| rtt.mean_root / rtt.latest.sqrt());
        self.within_limits(self.sender.sending_rate() * damping)
    }

    fn within_limits(&self, rate: f64) -> f64 {
        fn bytes(rate: DataRate) -> f64 {
            rate.bits_per_second() as f64 / 8.0
        }
        let longest_gap = match self.rtt {
            Some(_) => MAX_BACKOFF_SECONDS,
            None => INITIAL_GAP_SECONDS,
        };
        let floor = bytes(self.min_rate).max(self.segment_bytes / longest_gap);
        rate.min(bytes(self.max_rate)).max(floor)
    }
}

impl<S: Sender> CongestionController for Tfrc<S> {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.bytes_in_flight = packet.bytes_in_flight;
        self.is_idle = false;
        if self.nofeedback_at.is_none() {
            self.set_nofeedback_timer(now);
            self.rate_use.on_rate(now, self.pacing_bytes_per_second());
        }
        self.rate_use.on_sent(now, packet.bytes);
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.bytes_in_flight = feedback.bytes_in_flight;
        let Some(newest) = feedback.acked.last() else {
            return;
        };
        let path = self.path();
        for acked in feedback.acked {
            self.receiver.on_received(acked, path.as_ref());
        }
        let Some(report) = self.receiver.report(feedback.reported_at, path.as_ref()) else {
            return;
        };
        if let Some(sample) = newest.rtt {
            self.on_rtt_sample(sample);
        }
        if let Some(path) = self.path() {
            self.on_round(now, report, &path);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.nofeedback_at
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        match cause {
            Timeout::Own if self.nofeedback_at.is_some_and(|at| at <= now) => {
                self.on_nofeedback(now);
            }
            Timeout::FeedbackSilence { .. } => {
                self.bytes_in_flight = 0;
                self.receiver.on_outage();
            }
            // The nofeedback timer replaces it.
            Timeout::Own | Timeout::Retransmission { .. } => {}
        }
    }

    fn control(&self) -> ControlParameters {
        fn rate(bytes_per_second: f64) -> DataRate {
            DataRate::from_bits_per_second((bytes_per_second * 8.0).ceil() as u64)
        }
        ControlParameters {
            pacing_rate: Some(rate(self.pacing_bytes_per_second())),
            ..ControlParameters::of(rate(self.within_limits(self.sender.rate())))
        }
    }

    /// Requests a report once per round trip, and at once when a loss event begins; of every packet
    /// until the first round trip is known (RFC 5348 §6.1, §6.2).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        let Some(rtt) = self.rtt else {
            return FeedbackSchedule::EVERY_PACKET;
        };
        let rtt = Duration::from_secs_f64(rtt.smoothed);
        FeedbackSchedule {
            every_packets: u32::MAX,
            max_delay: rtt,
            interval: Some(rtt),
            on_hole: Some(HoleReports {
                after_packets: self.profile.loss_threshold,
                min_interval: rtt,
            }),
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    fn state(&self) -> &'static str {
        self.sender.state()
    }
}
