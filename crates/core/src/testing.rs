//! The recovery of one path without a session, so that a test can show a controller real reports.
//!
//! A [`PathReceiver`] writes reports as they are on the wire; a [`PathSender`] reads and digests
//! them.

use anabranch_units::Instant;

use crate::path_view::PathId;
use crate::recovery::{
    Arrivals, Digest, Feedback, FeedbackSchedule, LossDetection, PacketContent, Recovery,
    RttEstimator, SentPacket,
};
use crate::wire::{self, FeedbackReport};

const PATH: PathId = PathId(0);

/// The sending side of a path: packets in flight, lost and acknowledged.
#[derive(Debug)]
pub struct PathSender {
    recovery: Recovery,
    digest: Digest,
    report: FeedbackReport,
    last_reported_at: Instant,
}

impl PathSender {
    /// Creates a sender that has sent nothing at `now`.
    pub fn new(loss_detection: LossDetection, now: Instant) -> Self {
        PathSender {
            recovery: Recovery::new(loss_detection, now),
            digest: Digest::default(),
            report: FeedbackReport::default(),
            last_reported_at: Instant::ZERO,
        }
    }

    #[cfg(test)]
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Sends a packet of `bytes` bytes. Packets are numbered from zero.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) -> SentPacket {
        self.recovery.on_sent(now, bytes, PacketContent::Padding)
    }

    /// Returns the bytes sent that are neither acknowledged nor declared lost.
    pub fn bytes_in_flight(&self) -> u64 {
        self.recovery.bytes_in_flight()
    }

    /// Returns the path's round-trip time.
    pub fn rtt(&self) -> &RttEstimator {
        self.recovery.rtt()
    }

    /// Records that the sender has nothing more to send, though the controller would allow it.
    pub fn mark_app_limited(&mut self) {
        self.recovery.mark_app_limited();
    }

    /// Digests a report. Returns whether [`PathSender::feedback`] has changed.
    ///
    /// # Panics
    /// If `report` does not come from [`PathReceiver::report`].
    pub fn on_report(&mut self, now: Instant, report: &[u8]) -> bool {
        let (_, mut frames) = wire::decode(report).expect("a report");
        let frame = frames.next(&mut self.report).expect("a frame");
        frame.expect("a well-formed one");
        let next_packet_number = self.recovery.next_packet_number();
        self.report
            .expand(next_packet_number, self.last_reported_at);
        self.last_reported_at = self.report.reported_at();
        self.recovery
            .on_report(now, &self.report, true, &mut self.digest)
    }

    /// Declares packets lost if the loss timer has expired. Returns whether
    /// [`PathSender::feedback`] has changed.
    pub fn on_loss_timer(&mut self, now: Instant) -> bool {
        let is_due = self.recovery.loss_timer().is_some_and(|at| at <= now);
        is_due && self.recovery.on_loss_timeout(now, &mut self.digest)
    }

    /// Returns the time since which the path has been silent with packets in flight.
    pub fn silent_since(&self) -> Option<Instant> {
        self.recovery.silent_since()
    }

    /// Takes all packets out of flight, since the path is out.
    pub fn on_silence(&mut self, now: Instant) {
        self.recovery.on_silence(now, &mut self.digest);
    }

    /// Returns a controller's input after the last report or loss timer.
    pub fn feedback(&self, is_window_limited: bool) -> Feedback<'_> {
        self.recovery
            .feedback(PATH, &self.digest, self.last_reported_at, is_window_limited)
    }
}

/// The receiving side of a path: arrivals, and the time of the next report.
#[derive(Debug)]
pub struct PathReceiver(Arrivals);

impl Default for PathReceiver {
    /// Creates a receiver without arrivals; reports follow the default schedule.
    fn default() -> Self {
        PathReceiver(Arrivals::new(false))
    }
}

impl PathReceiver {
    /// Sets the schedule of reports from now on.
    pub fn set_schedule(&mut self, schedule: FeedbackSchedule) {
        self.0.set_schedule(schedule);
    }

    /// Receives a packet, with or without the mark Congestion Experienced.
    pub fn on_received(&mut self, now: Instant, packet_number: u64, is_marked: bool) {
        self.0.on_received(now, packet_number, now, is_marked);
    }

    /// Returns when the next report is due; `None` if there is nothing to report.
    pub fn due_at(&self) -> Option<Instant> {
        self.0.due_at()
    }

    /// Returns the report's datagram; `None` if nothing has arrived yet.
    pub fn report(&mut self, now: Instant) -> Option<Vec<u8>> {
        let outgoing = self.0.report(now, PATH)?;
        let mut report = Vec::new();
        wire::write_untracked_header(&mut report);
        wire::write_feedback(outgoing, &mut report);
        Some(report)
    }
}
