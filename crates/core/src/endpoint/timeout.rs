//! What time changes.

use anabranch_units::Instant;

use super::{Closing, Endpoint};
use crate::control::Timeout;
use crate::liveness::Alarm;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::SentPacket;
use crate::send_reason::SendReason;

/// Why an endpoint wants to be called at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The pacer lets a packet go: that is for [`Endpoint::poll_transmit`] alone.
    Pacing,
    /// A packet may count as lost.
    LossDetection,
    /// A path has been silent for too long, or is to be challenged.
    PathSilence,
    /// A stream's path has been silent for too long, or its tail is to be probed.
    Retransmission,
    /// The peer is to be asked for a larger window.
    Blocked,
    /// A report is due.
    Feedback,
    /// A controller asked for it.
    Controller,
    /// The scheduler asked for it.
    Scheduler,
    /// A frame at the sender becomes worthless.
    FrameDeadline,
    /// A lost fragment has waited long enough for repairs.
    Repairs,
    /// What has not been heard of can be there in time only if it is sent again now.
    LastCall,
    /// The peer is to be told of frames that were given up.
    Notice,
    /// A frame at the receiver has waited long enough.
    Reassembly,
    /// The end is to be told again.
    Close,
}

impl Endpoint {
    /// When to call [`Endpoint::handle_timeout`] and [`Endpoint::poll_transmit`] next, and why. A
    /// moment that has passed means at once. `None`: only a datagram or the application can change
    /// anything. [`Timer::Pacing`]: nothing else is due at that moment.
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let mut next = (Instant::FAR_FUTURE, Timer::Close);
        let mut consider = |at: Option<Instant>, timer| {
            if let Some(at) = at
                && at < next.0
            {
                next = (at, timer);
            }
        };
        if let Closing::Telling { next_at, .. } = self.closing {
            consider(Some(next_at), Timer::Close);
        }
        let is_open = self.closing == Closing::Open;
        // One that only receives has few timers.
        let is_sender = self.has_sent_media || self.stream.is_some() || self.is_kept_alive;
        let mut leaves_at = Instant::FAR_FUTURE;
        for path in self
            .paths
            .iter()
            .filter(|path| path.state() != PathState::Removed)
        {
            consider(path.arrivals.due_at(), Timer::Feedback);
            if !is_open {
                continue;
            }
            consider(path.recovery.loss_timer(), Timer::LossDetection);
            consider(path.controller.next_timeout(), Timer::Controller);
            if is_sender || !path.is_at_rest() {
                leaves_at = leaves_at.min(self.leaves_at(path).unwrap_or(Instant::FAR_FUTURE));
                match self.stream {
                    Some(_) => consider(self.stream_timer_at(path.id), Timer::Retransmission),
                    None => consider(path.liveness.due_at(&path.recovery), Timer::PathSilence),
                }
                consider(self.idle_probe_at(path.id), Timer::PathSilence);
            }
        }
        if is_open && is_sender {
            consider(self.blocked_at(), Timer::Blocked);
            consider(self.held_until(), Timer::Scheduler);
            consider(self.send_buffer.expires_at(), Timer::FrameDeadline);
            consider(self.notice_due().map(|(at, _)| at), Timer::Notice);
            consider(self.send_buffer.waits_until(), Timer::Repairs);
            consider(self.send_buffer.next_last_call(), Timer::LastCall);
        }
        consider(self.reassembly.expires_at(), Timer::Reassembly);
        consider(Some(leaves_at), Timer::Pacing);
        (next.0 < Instant::FAR_FUTURE).then_some(next)
    }

    /// When the pacer lets go what is ready for the path: media, a segment, or padding.
    fn leaves_at(&self, path: &Path) -> Option<Instant> {
        if self.stream.is_some() {
            self.segment_due_at(path.id)
        } else if path.has_bound() {
            path.has_window().then(|| path.ready_at())
        } else {
            self.padding_due_at(path.id)
        }
    }

    /// Does what is due. Early or repeated calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.reassembly.expires_at().is_some_and(|at| at <= now) {
            let mut outcomes = core::mem::take(&mut self.scratch.outcomes);
            self.reassembly.deliver(now, &mut outcomes);
            self.tell_outcomes(&mut outcomes);
            self.scratch.outcomes = outcomes;
        }
        if self.closing != Closing::Open {
            return;
        }
        if self.send_buffer.expires_at().is_some_and(|at| at <= now) {
            self.expire_frames(now);
        }
        self.on_blocked_timeout(now);
        for index in 0..self.paths.len() {
            self.handle_path_timeout(now, PathId(index as u8));
        }
        // The paths' timers change what these follow: round-trip times, rates and windows.
        if self.send_buffer.waits_until().is_some_and(|at| at <= now) {
            self.retry_disappointed(now);
        }
        self.answer_last_calls(now);
        if self.held_until().is_some_and(|at| at <= now) {
            self.is_schedule_due = true;
        }
    }

    fn handle_path_timeout(&mut self, now: Instant, id: PathId) {
        let path = &mut self.paths[id.index()];
        if path.state() == PathState::Removed {
            return;
        }
        if path.recovery.loss_timer().is_some_and(|at| at <= now) {
            let mut digest = self.scratch.digest.take().unwrap_or_default();
            if path.recovery.on_loss_timeout(now, &mut digest) {
                self.on_losses(now, id, &digest, SendReason::Lost);
                self.tell_controller(now, id, &digest);
                self.on_stream_feedback(now, id, &digest);
            }
            self.scratch.digest = Some(digest);
        }
        let path = &mut self.paths[id.index()];
        if path.controller.next_timeout().is_some_and(|at| at <= now) {
            path.on_timeout(now, Timeout::Own);
            self.update_target(now);
        }
        if self.stream.is_some() {
            // Over its only path a stream waits for ever longer, but does not give up.
            self.on_stream_timeout(now, id);
            return;
        }
        self.probe_idle(now, id);
        while let Some(alarm) = self.next_alarm(now, id) {
            match alarm {
                Alarm::Suspect => self.on_suspect(now, id),
                Alarm::Out => self.on_out(now, id),
                Alarm::Challenge => {
                    if self.paths[id.index()].state() == PathState::Out {
                        self.declare_silent(now, id, SendReason::PathOut);
                    }
                    self.challenge(id);
                }
            }
        }
    }

    fn next_alarm(&mut self, now: Instant, id: PathId) -> Option<Alarm> {
        let path = &mut self.paths[id.index()];
        path.liveness.on_timeout(now, &path.recovery)
    }

    /// The path is in doubt: what it holds goes elsewhere too, if there is an elsewhere.
    fn on_suspect(&mut self, now: Instant, id: PathId) {
        self.challenge(id);
        if self.best_other_path(id).is_some() {
            self.take_back(id);
            self.refresh_views(now);
            let outstanding: Vec<SentPacket> =
                self.paths[id.index()].recovery.outstanding().collect();
            for packet in &outstanding {
                self.on_copy_lost(now, id, packet, SendReason::PathSuspect);
            }
        }
        self.on_path_changed(now, id);
    }

    /// The driver cannot send on a path: its interface has gone, for instance. The path is out at
    /// once, without a probe timeout of silence, and is back when it answers. A stream waits.
    pub fn suspend_path(&mut self, now: Instant, path: PathId) {
        let is_media = self.stream.is_none();
        if is_media
            && let Some(suspended) = self.paths.get_mut(path.index())
            && suspended.liveness.suspend(now)
        {
            self.on_out(now, path);
        }
    }

    fn on_out(&mut self, now: Instant, id: PathId) {
        self.take_back(id);
        let prior_bytes_in_flight = self.paths[id.index()].recovery.bytes_in_flight();
        self.declare_silent(now, id, SendReason::PathOut);
        let cause = Timeout::FeedbackSilence {
            prior_bytes_in_flight,
        };
        // One that has not been used has nothing to learn from that.
        if self.paths[id.index()].counters.sent_packets > 0 {
            self.paths[id.index()].on_timeout(now, cause);
        }
        self.challenge(id);
        self.on_path_changed(now, id);
    }

    /// Takes all that flies on the path out of flight. `reason` is why it may be sent again.
    pub(super) fn declare_silent(&mut self, now: Instant, id: PathId, reason: SendReason) {
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        let path = &mut self.paths[id.index()];
        path.recovery.on_silence(now, &mut digest);
        path.recovery.forget_lost(now);
        path.on_silence();
        path.counters.lost_packets += digest.lost_count();
        self.on_losses(now, id, &digest, reason);
        self.scratch.digest = Some(digest);
    }

    /// Asks the path for a sign of life, and tells the peer, by another path, that it is in doubt.
    fn challenge(&mut self, id: PathId) {
        let token = self.rng.next_u64();
        let path = &mut self.paths[id.index()];
        // One token until it is answered: an answer may take longer than the next challenge.
        let token = *path.expected_response.get_or_insert(token);
        path.challenge = Some((token, SendReason::PathChallenge));
        path.status_to_tell = Some(true);
    }
}
