//! Congestion control as the session sees it: one controller per path, a pure function of its
//! inputs.
//!
//! A controller receives every packet sent, except probes of a path in use, every feedback report
//! (digested once by [`crate::recovery`]) and timeouts. It answers with [`ControlParameters`]. It
//! knows no scheduler and no frame. Of its content it knows the kind
//! ([`ControllerConfig::is_media`]), the rate of a source that does not follow the target, and the
//! session's deadline and backlog ([`SessionView`]). The algorithms are in a crate of their own,
//! `anabranch-controllers`; the session is handed a [`Controller`] and knows none of them.

mod controller;

use core::fmt::Debug;

use anabranch_units::{DataRate, Ecn, Instant};

use crate::path_view::PathView;
use crate::recovery::{Feedback, FeedbackSchedule, SentPacket};
use crate::session_view::SessionView;

pub use controller::{Controller, ControllerConfig, RateKind};

/// Algorithm that decides how fast one path may send.
pub trait CongestionController: Debug + Send {
    /// Handles a tracked packet that has left. `packet` holds the state with this packet in flight.
    fn on_sent(&mut self, _now: Instant, _packet: &SentPacket) {}

    /// Records the rate of a source that does not follow the target, as bytes of media: the path
    /// may have to carry it, or its part if there are other paths. Called with each frame of such
    /// a source.
    fn on_source_rate(&mut self, _rate: DataRate) {}

    /// Returns whether [`CongestionController::on_feedback`] uses `paths`. If not, they need not be
    /// computed at every report, and none may be passed.
    fn looks_at_paths(&self) -> bool {
        true
    }

    /// Returns whether it uses `paths` in a session of one path. Otherwise `feedback` and `session`
    /// suffice there, and none may be passed.
    fn looks_at_only_path(&self) -> bool {
        self.looks_at_paths()
    }

    /// Handles a digested feedback report. `paths` holds all paths of the session, this one too,
    /// for coupled controllers.
    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    );

    /// Reacts to a path that delays data for which the peer's full window waits, while another path
    /// delivers it (Raiciu et al., NSDI 2012, §4.2: the slow path's window is halved, at most once
    /// a round trip). Only streams over several paths call it.
    fn on_penalty(&mut self) {}

    /// Returns when the controller wants [`Timeout::Own`]; `None` for never.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Handles a timer that has expired.
    fn on_timeout(&mut self, now: Instant, cause: Timeout);

    /// Returns the limits for sending on the path now.
    fn control(&self) -> ControlParameters;

    /// Returns when the receiver should report.
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule::default()
    }

    /// Returns the phase of the algorithm by its source's own name, such as `"ProbeRTT"`.
    fn state(&self) -> &'static str;
}

/// Why [`CongestionController::on_timeout`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The retransmission timer (RFC 6298) has expired for the `count`-th time in a row.
    Retransmission {
        /// Expiries since the last acknowledgement, from 1.
        count: u32,
        /// Bytes in flight before anything was declared lost: RFC 5681's FlightSize.
        prior_bytes_in_flight: u64,
    },
    /// The path has been silent with packets outstanding for long enough to count as out. Nothing
    /// is in flight any more.
    FeedbackSilence {
        /// Bytes in flight before they were taken out.
        prior_bytes_in_flight: u64,
    },
    /// The moment asked for by [`CongestionController::next_timeout`].
    Own,
}

impl Timeout {
    /// Returns RFC 5681's FlightSize, if all bytes in flight count as lost; `None`: the timer was
    /// the controller's own.
    pub fn flight_size(&self) -> Option<u64> {
        match *self {
            Timeout::Retransmission {
                prior_bytes_in_flight,
                ..
            }
            | Timeout::FeedbackSilence {
                prior_bytes_in_flight,
            } => Some(prior_bytes_in_flight),
            Timeout::Own => None,
        }
    }
}

/// Limits that a controller sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlParameters {
    /// The most bytes in flight; `None`: no window.
    pub congestion_window: Option<u64>,
    /// The rate at which packets are spaced; `None`: sending is clocked by acknowledgements.
    pub pacing_rate: Option<DataRate>,
    /// Estimated rate of the path for this session. The encoder's target is the share of it that
    /// [`RateKind`] leaves.
    pub target_rate: DataRate,
    /// Rate at which padding may use the capacity that media leaves free, to probe for bandwidth;
    /// zero outside probing. A session that always pads ignores it and fills the pacing rate or
    /// window.
    pub padding_rate: DataRate,
    /// Bytes that may leave back to back before pacing spaces them, beyond the first packet.
    pub burst_bytes: u64,
    /// Packets leave together in groups of this many bytes, and pacing spaces the groups: a kernel
    /// hands a network card several packets at a time. Zero: each by itself.
    pub group_bytes: u64,
    /// Whether the path may be used; false: the controller gives it up, and schedulers take it only
    /// when no other path will do.
    pub is_usable: bool,
    /// The ECN field of the packets that leave: an ECT codepoint only if the controller reacts to
    /// marks and [`ControllerConfig::is_ecn_capable`] allows it.
    pub ecn: Ecn,
}

impl ControlParameters {
    /// Returns the parameters of a path with this `target_rate`, without window, pacing, padding or
    /// ECN: for `..` in a controller's own.
    pub const fn of(target_rate: DataRate) -> Self {
        ControlParameters {
            congestion_window: None,
            pacing_rate: None,
            target_rate,
            padding_rate: DataRate::ZERO,
            burst_bytes: 0,
            group_bytes: 0,
            is_usable: true,
            ecn: Ecn::NotEct,
        }
    }
}
