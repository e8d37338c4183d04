//! Handling of received datagrams.

use anabranch_units::{Ecn, Instant};

use super::{Closing, Content, DatagramMeta, Event, Session};
use crate::path_view::PathId;
use crate::recovery::Digest;
use crate::wire::{self, Tracking, WireFrame};

impl<C: Content> Session<C> {
    /// Takes in a datagram that the driver has authenticated. Whatever is wrong with it is counted.
    pub fn handle_datagram(&mut self, now: Instant, meta: DatagramMeta, payload: &[u8]) {
        let is_known = self
            .paths
            .get(meta.path.index())
            .is_some_and(|path| !path.is_removed());
        if !is_known {
            self.output.counters.unknown_path_datagrams += 1;
            return;
        }
        // Packets sent before the peer left are no sign of life.
        if self.has_peer_left {
            return;
        }
        let Ok((tracking, mut frames)) = wire::decode(payload) else {
            self.output.counters.malformed_datagrams += 1;
            return;
        };
        let path = &mut self.paths[meta.path.index()];
        path.last_heard_at = now;
        path.counters.received_packets += 1;
        path.counters.received_bytes +=
            payload.len() as u64 + u64::from(self.config.overhead_bytes);
        if let Tracking::Tracked(low_bits) = tracking {
            let packet_number = wire::expand(low_bits, path.arrivals.expected());
            let is_ce_marked = meta.ecn == Ecn::Ce;
            if !path
                .arrivals
                .on_received(now, packet_number, meta.received_at, is_ce_marked)
            {
                path.counters.duplicate_packets += 1;
                return;
            }
        }
        let mut report = self.scratch.report.take().unwrap_or_default();
        while let Some(frame) = frames.next(&mut report) {
            match frame {
                Ok(WireFrame::Feedback { path }) => {
                    self.on_feedback(now, &meta, path, &mut report);
                }
                // Without a packet number a segment cannot be acknowledged.
                Ok(WireFrame::Segment { .. }) if tracking == Tracking::Untracked => {
                    self.output.counters.malformed_datagrams += 1;
                }
                Ok(WireFrame::Padding) => {}
                Ok(
                    frame @ (WireFrame::FeedbackSchedule(_)
                    | WireFrame::PathChallenge(_)
                    | WireFrame::PathResponse(_)
                    | WireFrame::PathStatus { .. }
                    | WireFrame::Close
                    | WireFrame::Replaced),
                ) => self.on_control_frame(now, meta.path, frame),
                Ok(frame) => {
                    let (content, mut ctx) = self.split(now);
                    if !content.on_frame(&mut ctx, meta.path, frame) {
                        self.end(Event::PeerLies);
                    }
                }
                Err(_) => self.output.counters.malformed_datagrams += 1,
            }
        }
        self.scratch.report = Some(report);
        if !self.content.awaits_more() {
            for path in &mut self.paths {
                path.arrivals.expect_nothing();
            }
        }
    }

    /// Handles a frame about a path or the end of the session.
    #[cold]
    fn on_control_frame(&mut self, now: Instant, on: PathId, frame: WireFrame<'_>) {
        let path = &mut self.paths[on.index()];
        match frame {
            WireFrame::FeedbackSchedule(schedule) => path.arrivals.set_schedule(schedule),
            WireFrame::PathChallenge(token) => {
                path.response = Some(token);
                path.arrivals.report_at_once(now);
            }
            WireFrame::PathResponse(token) => {
                let expected = &mut path.expected_response;
                if expected.take_if(|expected| *expected == token).is_some() {
                    path.recovery.on_heard(now);
                    if path.on_answer() {
                        self.on_path_changed(now, on);
                    }
                }
            }
            WireFrame::PathStatus { path, is_suspect } => {
                if let Some(path) = self.paths.get_mut(path.index()) {
                    path.on_status(now, is_suspect);
                }
            }
            WireFrame::Close if self.content.outlives_peer(&self.config) => {
                self.on_peer_left(now);
            }
            WireFrame::Close => self.end(Event::Closed),
            WireFrame::Replaced => self.end(Event::Replaced),
            _ => {}
        }
    }

    /// Handles the departure of the receiver of this end's media. Receivers come and go; only the
    /// end that media comes from ends the session.
    fn on_peer_left(&mut self, now: Instant) {
        self.has_peer_left = true;
        self.output.events.push_back(Event::PeerLeft);
        for index in 0..self.paths.len() {
            self.suspend_path(now, PathId(index as u8));
        }
    }

    /// Ends the session on the peer's side, with `event` as the last notification.
    pub(super) fn end(&mut self, event: Event) {
        if self.closing == Closing::Closed {
            return;
        }
        self.closing = Closing::Closed;
        self.content.on_end(&mut self.output);
        self.output.events.push_back(event);
    }

    /// Handles a report about path `about`. Round-trip times and rates end at its arrival, however
    /// late the driver's machine lets it be read.
    fn on_feedback(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        about: PathId,
        report: &mut wire::FeedbackReport,
    ) {
        let (on, arrived_at) = (meta.path, meta.received_at.min(now));
        let Some(path) = self.paths.get_mut(about.index()) else {
            return;
        };
        if path.is_removed() {
            return;
        }
        report.expand(path.recovery.next_packet_number(), path.last_reported_at);
        if report.largest() >= path.recovery.next_packet_number() {
            return self.end(Event::PeerLies);
        }
        path.last_reported_at = path.last_reported_at.max(report.reported_at());
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        if path
            .recovery
            .on_report(arrived_at, report, on == about, &mut digest)
        {
            path.counters.acked_packets += digest.acked.len() as u64;
            path.counters.marked_packets += digest.ce_count;
            let (content, mut ctx) = self.split(now);
            content.on_report(&mut ctx, about, &digest);
            self.judge_answer(now, on, about, &digest);
            let (content, mut ctx) = self.split(now);
            content.act_on_report(&mut ctx, about, &digest);
        } else if on == about && path.recovery.rtt().sampled_at() == now && path.on_answer() {
            // A report on another path brought the same news first.
            self.on_path_changed(now, about);
        }
        self.scratch.digest = Some(digest);
    }

    /// Updates the path's state of life by a report. A report that came by another path only proves
    /// that the forward direction works, and only since its newest packet was sent.
    fn judge_answer(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        let path = &mut self.paths[about.index()];
        let is_back = if on == about {
            path.on_answer()
        } else {
            path.on_answer_elsewhere(digest)
        };
        if is_back {
            self.on_path_changed(now, about);
        }
    }
}
