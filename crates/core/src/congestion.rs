//! Congestion control: one controller per path, a pure function of what it is told.
//!
//! A controller hears of every packet sent, of every feedback report (digested once by
//! [`crate::recovery`]) and of timeouts, and answers with [`ControlParameters`]. It knows neither
//! media nor streams nor schedulers. To add one: one file in `congestion/`, one line in
//! [`CONTROLLERS`].

#[cfg(test)]
mod contract;
mod delay_bbr;
mod fixed;
mod new_reno;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod testing;

use core::fmt::Debug;

use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::path_view::{PathId, PathView};
use crate::recovery::{AckedPacket, RateSample, RttEstimator, SentPacket};
use crate::session_view::SessionView;

/// Decides how fast one path may send.
pub trait CongestionController: Debug + Send {
    /// A tracked packet has left. `packet` holds the state as it was with this packet in flight.
    fn on_sent(&mut self, _now: Instant, _packet: &SentPacket) {}

    /// A feedback report has been digested. `paths` holds all paths of the session, this one too,
    /// for controllers that are coupled.
    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    );

    /// When the controller wants [`Timeout::Own`]; `None` for never.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// A timer has run out.
    fn on_timeout(&mut self, now: Instant, cause: Timeout);

    /// What the path may do now.
    fn control(&self) -> ControlParameters;

    /// When the receiver should report.
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule::default()
    }

    /// The phase of the algorithm by its source's own name, such as `"ProbeRTT"`.
    fn state(&self) -> &'static str;
}

/// Why [`CongestionController::on_timeout`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The retransmission timer (RFC 6298) has expired for the `count`-th time in a row.
    Retransmission {
        /// Expiries since the last acknowledgement, from 1.
        count: u32,
    },
    /// The path has been silent with packets outstanding so long that it counts as out. All that
    /// was in flight has been taken out of flight.
    FeedbackSilence,
    /// The moment asked for by [`CongestionController::next_timeout`].
    Own,
}

/// What a controller grants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlParameters {
    /// The most bytes in flight; `None`: no window.
    pub congestion_window: Option<u64>,
    /// The rate at which packets are spaced; `None`: sending is clocked by acknowledgements.
    pub pacing_rate: Option<DataRate>,
    /// The rate that the path is believed to carry for this session. The encoder's target is made
    /// of it (0.8 × the sum over usable paths, Zhang & Lei).
    pub target_rate: DataRate,
    /// How fast useless packets may fill what media leaves, to probe for bandwidth; zero outside
    /// probing. A session that always pads ignores it and fills the pacing rate or window.
    pub padding_rate: DataRate,
    /// Bytes that may leave back to back before pacing spaces them, beyond the first packet.
    pub burst_bytes: u64,
    /// Whether the controller gives the path up.
    pub is_usable: bool,
}

/// One feedback report, digested.
#[derive(Debug)]
pub struct Feedback<'a> {
    /// Which path it is about.
    pub path: PathId,
    /// Packets newly acknowledged, in the order of their numbers.
    pub acked: &'a [AckedPacket],
    /// Packets newly declared lost, in the order of their numbers. They have left flight.
    pub lost: &'a [SentPacket],
    /// Packets declared lost before that have arrived after all; they are in `acked` too.
    pub spurious: &'a [AckedPacket],
    /// The path's round-trip time, this report included.
    pub rtt: &'a RttEstimator,
    /// The delivery-rate sample of this report, if it gave a valid one.
    pub delivery: Option<RateSample>,
    /// Bytes in flight before this report.
    pub prior_bytes_in_flight: u64,
    /// Bytes in flight after this report.
    pub bytes_in_flight: u64,
    /// All bytes ever delivered on the path, this report included.
    pub delivered_bytes: u64,
    /// Whether the sender has had too little to send when the newest acknowledged packet left.
    pub is_app_limited: bool,
    /// Whether only the window kept the sender from sending since the last report.
    pub is_window_limited: bool,
    /// When the receiver made the report, by the receiver's clock.
    pub reported_at: Instant,
    /// Packets acknowledged by this report that carried the mark Congestion Experienced.
    pub ce_count: u64,
}

/// When the receiver reports. Sent to it in a control frame; it reports when any of the limits is
/// reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackSchedule {
    /// A report at the latest after so many tracked packets; at least 1.
    pub every_packets: u32,
    /// A report at the latest so long after the first unreported packet.
    pub max_delay: Duration,
    /// Whether a hole in the packet numbers or a Congestion Experienced mark is reported at once.
    pub is_immediate_on_hole: bool,
}

impl Default for FeedbackSchedule {
    /// Every 8 packets or 10 ms: about 2 % of the media's bytes at 4 Mbit/s.
    fn default() -> Self {
        FeedbackSchedule {
            every_packets: 8,
            max_delay: Duration::from_millis(10),
            is_immediate_on_hole: true,
        }
    }
}

impl FeedbackSchedule {
    /// A report for every packet (Zhang & Lei).
    pub const EVERY_PACKET: FeedbackSchedule = FeedbackSchedule {
        every_packets: 1,
        max_delay: Duration::ZERO,
        is_immediate_on_hole: true,
    };
}

/// What a controller is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// The rate below which the controller shall not go.
    pub min_rate: DataRate,
    /// The rate before anything is known.
    pub initial_rate: DataRate,
    /// The rate of `fixed`.
    pub fixed_rate: DataRate,
    /// The largest packet on the wire, in bytes; windows are counted in it.
    pub max_packet_bytes: u32,
    /// The path's random stream.
    pub seed: Seed,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        ControllerConfig {
            min_rate: DataRate::from_kilobits_per_second(50),
            initial_rate: DataRate::from_kilobits_per_second(300),
            fixed_rate: DataRate::from_megabits_per_second(1),
            max_packet_bytes: 1_500,
            seed: Seed::default(),
        }
    }
}

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct ControllerEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    build: fn(&ControllerConfig) -> Box<dyn CongestionController>,
}

/// Every controller there is.
pub const CONTROLLERS: &[ControllerEntry] = &[
    ControllerEntry {
        name: "delay-bbr",
        summary: "Delay-BBR with a start-up exit on delay (the default)",
        build: delay_bbr::build_default,
    },
    ControllerEntry {
        name: "delay-bbr-text",
        summary: "Delay-BBR, Algorithms 1-5 as printed by Zhang & Lei",
        build: delay_bbr::build_text,
    },
    ControllerEntry {
        name: "delay-bbr-v5",
        summary: "Delay-BBR as the authors' published code has it",
        build: delay_bbr::build_v5,
    },
    ControllerEntry {
        name: "fixed",
        summary: "a constant rate, deaf to the network",
        build: fixed::build,
    },
    ControllerEntry {
        name: "new-reno",
        summary: "the window of RFC 5681 and RFC 9002 §7",
        build: new_reno::build,
    },
];

/// No controller has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no controller is called {name:?}; known are {}",
    known_names(CONTROLLERS.iter().map(|entry| entry.name))
)]
pub struct UnknownController {
    /// The name asked for.
    pub name: String,
}

/// A controller by its name in [`CONTROLLERS`].
///
/// # Errors
/// [`UnknownController`], which lists the known names.
pub fn build(
    name: &str,
    config: &ControllerConfig,
) -> Result<Box<dyn CongestionController>, UnknownController> {
    CONTROLLERS
        .iter()
        .find(|entry| entry.name == name)
        .map(|entry| (entry.build)(config))
        .ok_or_else(|| UnknownController {
            name: name.to_owned(),
        })
}

/// "a, b, c", for error messages.
pub(crate) fn known_names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
