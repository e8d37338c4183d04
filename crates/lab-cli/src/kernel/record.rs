//! Recordings: everything that the controllers of a simulated connection hear.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_controllers::{Controller, by_name};
use anabranch_core::control::{CongestionController, ControlParameters, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_lab::{Algorithms, Point, RunOptions, run_outcomes};
use anabranch_units::{DataRate, Duration, Instant};
use anyhow::Context;

use super::networks::Case;

/// Name of the recording controller in a scenario.
const NAME: &str = "recorded";
/// Length of a recording.
const SECONDS: u64 = 12;

/// Something that a path's controller has heard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) at: Instant,
    /// Index of the path.
    pub(super) path: usize,
    pub(super) what: What,
}

/// Contents of a recording. Packets in flight are numbers of whole packets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A packet left; it is among those in flight.
    Sent { number: u64, in_flight: u32 },
    /// A report came.
    Report(Report),
    /// The retransmission timer expired, or the path fell silent.
    Timeout { prior_in_flight: u32 },
}

/// Contents of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// Numbers of packets newly acknowledged, in their order.
    pub(super) acked: Vec<u64>,
    /// Numbers of packets newly lost, in their order.
    pub(super) lost: Vec<u64>,
    /// Round-trip time of the newest one acknowledged.
    pub(super) rtt: Option<Duration>,
    pub(super) prior_in_flight: u32,
    pub(super) in_flight: u32,
    pub(super) is_limited: bool,
    /// Packets delivered within an interval.
    pub(super) delivery: Option<(u32, Duration)>,
}

type Log = Arc<Mutex<Vec<Heard>>>;

/// Simulates a connection, and returns all that its controllers have heard.
///
/// # Errors
/// The scenario cannot be run.
pub(super) fn record(case: Case) -> anyhow::Result<Vec<Heard>> {
    let log = Log::default();
    let inner = by_name(case.controller)?;
    let count = AtomicUsize::new(0);
    let of_paths = log.clone();
    let controller = Controller::new(NAME, inner.rate(), move |config| {
        Box::new(Recorder {
            inner: inner.build(config),
            path: count.fetch_add(1, Ordering::Relaxed),
            segment_bytes: config.max_packet_bytes.max(1),
            log: of_paths.clone(),
        })
    });
    let algorithms = Algorithms {
        controllers: vec![controller],
        ..Algorithms::default()
    };
    let text = case.network.scenario(NAME, SECONDS);
    let points = Point::parse_with("a recording", &text, &[], &algorithms)?;
    let scenario = &points.first().context("no scenario")?.scenario;
    run_outcomes(scenario, &RunOptions::seeds(1), &|_progress| ())?;
    let mut heard = log.lock().unwrap_or_else(PoisonError::into_inner);
    // Both ends of a connection have controllers: the sender's are those that hear reports.
    let mut paths: Vec<usize> = Vec::new();
    for one in heard.iter() {
        let is_report = matches!(&one.what, What::Report(report) if report.acked.len() > 1);
        if is_report && !paths.contains(&one.path) {
            paths.push(one.path);
        }
    }
    paths.sort_unstable();
    paths.truncate(case.network.path_count());
    heard.retain(|one| paths.contains(&one.path));
    for one in heard.iter_mut() {
        one.path = paths.binary_search(&one.path).unwrap_or_default();
    }
    Ok(std::mem::take(&mut *heard))
}

/// A controller that records all that it hears.
#[derive(Debug)]
struct Recorder {
    inner: Box<dyn CongestionController>,
    path: usize,
    segment_bytes: u32,
    log: Log,
}

impl Recorder {
    fn packets(&self, bytes: u64) -> u32 {
        bytes.div_ceil(u64::from(self.segment_bytes)) as u32
    }

    fn push(&self, at: Instant, what: What) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(Heard {
            at,
            path: self.path,
            what,
        });
    }
}

impl CongestionController for Recorder {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        let what = What::Sent {
            number: packet.packet_number,
            in_flight: self.packets(packet.bytes_in_flight),
        };
        self.push(now, what);
        self.inner.on_sent(now, packet);
    }

    fn on_source_rate(&mut self, rate: DataRate) {
        self.inner.on_source_rate(rate);
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        fn number(packet: &SentPacket) -> u64 {
            packet.packet_number
        }
        let report = Report {
            acked: feedback
                .acked
                .iter()
                .map(|acked| number(&acked.sent))
                .collect(),
            lost: feedback.lost.iter().map(number).collect(),
            rtt: feedback.acked.last().and_then(|newest| newest.rtt),
            prior_in_flight: self.packets(feedback.prior_bytes_in_flight),
            in_flight: self.packets(feedback.bytes_in_flight),
            is_limited: feedback.is_window_limited,
            delivery: feedback
                .delivery
                .map(|sample| (self.packets(sample.delivered_bytes), sample.interval)),
        };
        self.push(now, What::Report(report));
        self.inner.on_feedback(now, feedback, session, paths);
    }

    fn on_penalty(&mut self) {
        self.inner.on_penalty();
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        if let Some(bytes) = cause.flight_size() {
            let prior_in_flight = self.packets(bytes);
            self.push(now, What::Timeout { prior_in_flight });
        }
        self.inner.on_timeout(now, cause);
    }

    fn control(&self) -> ControlParameters {
        self.inner.control()
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        self.inner.feedback_schedule()
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}
