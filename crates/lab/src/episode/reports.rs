//! A sender's knowledge of its paths: its own counts, and the receiver's reports.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::control::{
    CongestionController, ControlParameters, Controller, ControllerConfig, Timeout,
};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{Config, PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

/// A sender's knowledge of a path after a step. Counts are those of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderPath {
    /// Bytes on the wire of the packets sent, padding included.
    pub sent_bytes: u64,
    /// Packets that were newly acknowledged.
    pub acked_packets: u64,
    /// Their bytes on the wire.
    pub acked_bytes: u64,
    /// Packets that were declared lost.
    pub lost_packets: u64,
    /// Mean round-trip time of the acknowledged packets; `None`: there was no sample.
    pub mean_rtt: Option<Duration>,
    /// Smoothed round-trip time at the end (RFC 6298); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Least round-trip time of the episode; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Time since the last report at the end of the step, since the start without any.
    pub silence: Duration,
    /// Bytes in flight at the end.
    pub bytes_in_flight: u64,
    /// Bytes bound to the path at the end that are not sent yet.
    pub unsent_bytes: u64,
    /// Rate that the path's controller believes it carries, at the end.
    pub bandwidth: DataRate,
    /// Whether packets may take the path.
    pub is_usable: bool,
}

impl SenderPath {
    pub(super) fn new(now: Instant, view: &PathView, heard: Heard, sent_bytes: u64) -> SenderPath {
        let last_at = heard.last_at.unwrap_or(Instant::ZERO);
        SenderPath {
            sent_bytes,
            acked_packets: heard.acked_packets,
            acked_bytes: heard.acked_bytes,
            lost_packets: heard.lost_packets,
            mean_rtt: (heard.rtt_count > 0).then(|| heard.rtts / heard.rtt_count),
            smoothed_rtt: view.rtt.smoothed,
            min_rtt: view.rtt.least,
            silence: now.saturating_since(last_at),
            bytes_in_flight: view.bytes_in_flight,
            unsent_bytes: view.queued_bytes,
            bandwidth: view.bandwidth,
            is_usable: view.state.is_usable(),
        }
    }
}

/// Sums over the reports on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    acked_packets: u64,
    acked_bytes: u64,
    lost_packets: u64,
    rtts: Duration,
    rtt_count: u64,
    last_at: Option<Instant>,
}

/// The reports on each path since the last step.
#[derive(Clone, Debug)]
pub(super) struct Reports(Arc<Mutex<Vec<Heard>>>);

impl Reports {
    pub(super) fn new(path_count: usize) -> Reports {
        Reports(Arc::new(Mutex::new(vec![Heard::default(); path_count])))
    }

    /// Makes the controllers of a session pass on their reports.
    pub(super) fn install(&self, config: &mut Config) {
        let reports = self.clone();
        let inner = config.controller.clone();
        // Flows with equal names share a set-up.
        let name = format!("{} of an episode", inner.name());
        config.controller = Controller::new(name, inner.rate(), move |path| {
            Box::new(Listener::new(&inner, path, reports.clone()))
        });
    }

    /// Returns the sums of each path, and begins the next ones.
    pub(super) fn take(&self) -> Vec<Heard> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard
            .iter_mut()
            .map(|heard| {
                let last_at = heard.last_at;
                std::mem::replace(
                    heard,
                    Heard {
                        last_at,
                        ..Heard::default()
                    },
                )
            })
            .collect()
    }

    fn add(&self, now: Instant, feedback: &Feedback<'_>) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(heard) = heard.get_mut(feedback.path.index()) else {
            return;
        };
        heard.last_at = Some(now);
        heard.lost_packets += feedback.lost.len() as u64;
        for packet in feedback.acked {
            heard.acked_packets += 1;
            heard.acked_bytes += u64::from(packet.sent.bytes);
            if let Some(rtt) = packet.rtt {
                heard.rtts += rtt;
                heard.rtt_count += 1;
            }
        }
    }
}

/// A controller whose reports are also counted.
#[derive(Debug)]
struct Listener {
    inner: Box<dyn CongestionController>,
    reports: Reports,
}

impl Listener {
    fn new(inner: &Controller, config: &ControllerConfig, reports: Reports) -> Listener {
        Listener {
            inner: inner.build(config),
            reports,
        }
    }
}

impl CongestionController for Listener {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.inner.on_sent(now, packet);
    }

    fn on_source_rate(&mut self, rate: DataRate) {
        self.inner.on_source_rate(rate);
    }

    fn looks_at_paths(&self) -> bool {
        self.inner.looks_at_paths()
    }

    fn looks_at_only_path(&self) -> bool {
        self.inner.looks_at_only_path()
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.reports.add(now, feedback);
        self.inner.on_feedback(now, feedback, session, paths);
    }

    fn on_penalty(&mut self) {
        self.inner.on_penalty();
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
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
