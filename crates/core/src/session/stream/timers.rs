//! The timers of a stream: retransmission, the probe of a tail, and a window that stays closed.

use anabranch_units::{Duration, Instant};

use super::mtu::segment_bytes;
use super::{Stream, StreamPath, StreamSession, answers};
use crate::control::Timeout;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::questions;
use crate::recovery::{LossDetection, Recovery};
use crate::send_reason::SendReason;
use crate::session::content::Hooks;
use crate::session::sizes::Sizes;

/// The longest wait between two times of saying that the peer's window keeps bytes back.
const MAX_BLOCKED_WAIT: Duration = Duration::from_secs(60);

/// Packets in flight after a retransmission timeout until the path answers, whatever the controller
/// allows: one that paces keeps no window (RFC 9002 §7.2: minimum window).
const LOSS_WINDOW_PACKETS: u64 = 2;

impl StreamPath {
    /// Schedules the probe of a tail (RFC 8985 §7.2). `packet_bytes` are those of a full packet,
    /// and `delayed_ack` is the longest delay of the acknowledgement of a single one.
    pub(super) fn schedule_probe(
        &mut self,
        now: Instant,
        recovery: &Recovery,
        packet_bytes: u32,
        delayed_ack: Duration,
    ) {
        if recovery.loss_detection() != LossDetection::TcpSack {
            return;
        }
        let in_flight = recovery.bytes_in_flight();
        if in_flight == 0 {
            self.probe.cancel();
            return;
        }
        let alone_delay = if in_flight <= u64::from(packet_bytes) {
            delayed_ack
        } else {
            Duration::ZERO
        };
        self.probe.schedule(now, recovery.rtt(), alone_delay);
    }

    /// Returns when the path's timers are due.
    pub(super) fn timer_at(&self) -> Option<Instant> {
        let expires_at = self.timer.expires_at();
        [expires_at, self.probe.due_at(expires_at)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl StreamSession {
    pub(super) fn on_stream_timeout(&mut self, now: Instant, id: PathId) {
        let stream = &mut self.content;
        let own = &mut stream.paths[id.index()];
        let recovery = &self.paths[id.index()].recovery;
        let expires_at = own.timer.expires_at();
        if own.probe.due_at(expires_at).is_some_and(|at| at <= now) {
            own.probe.cancel();
            if recovery.outstanding_bytes() > 0 {
                own.timer.restart(now);
                if stream.send.is_probe_wanted(id) {
                    own.probe.want();
                } else {
                    // All of it has arrived by other paths, or is about to.
                    let path = &mut self.paths[id.index()];
                    self.questions.ask(path, SendReason::TailLossProbe);
                }
                self.content.request_scheduling();
            }
        }
        let own = &mut self.content.paths[id.index()];
        let recovery = &self.paths[id.index()].recovery;
        // Both may be due, and there may be nothing to probe with.
        if own.timer.expires_at().is_some_and(|at| at <= now) {
            if recovery.has_outstanding_content() {
                self.on_retransmission_timeout(now, id);
            } else {
                // Only probes are in flight, and no later packet would reveal their loss. They
                // take none of the window any more.
                self.content.paths[id.index()].timer.stop();
                self.declare_silent(now, id, SendReason::RetransmissionTimeout);
            }
        }
    }

    /// Handles a retransmission timeout (RFC 6298 §5.4 to 5.6). No packet is in flight any more,
    /// and data is resent from the first unacknowledged byte on as far as the window allows.
    fn on_retransmission_timeout(&mut self, now: Instant, id: PathId) {
        let recovery = &mut self.paths[id.index()].recovery;
        let prior_bytes_in_flight = recovery.outstanding_bytes();
        if let Some(mtu) = recovery.mtu_mut() {
            mtu.on_retransmission_timeout(now);
        }
        self.declare_silent(now, id, SendReason::RetransmissionTimeout);
        let stream = &mut self.content;
        let own = &mut stream.paths[id.index()];
        own.duplicate_acks.on_timeout(stream.send.next_offset());
        own.probe.on_timeout();
        own.is_urgent = false;
        let count = own.timer.on_expiry(now);
        let path = &mut self.paths[id.index()];
        path.counters.retransmission_timeouts += 1;
        let cause = Timeout::Retransmission {
            count,
            prior_bytes_in_flight,
        };
        path.on_timeout(now, cause);
        let window_bytes = LOSS_WINDOW_PACKETS * u64::from(self.sizes.max_packet_bytes);
        wait_for_answers(now, id, window_bytes, &mut self.paths);
        self.leave_path(now, id);
    }

    /// Leaves a silent path. If there is another, it is out until it has answered.
    fn leave_path(&mut self, now: Instant, id: PathId) {
        let has_other = self
            .paths
            .iter()
            .any(|path| path.id != id && path.state().is_usable());
        if has_other && self.paths[id.index()].liveness.suspend(now) {
            self.content.take_back(&mut self.paths, id);
            self.questions.challenge(&mut self.paths[id.index()]);
            self.on_path_changed(now, id);
        }
    }

    /// Asks it again, if it is time.
    pub(super) fn repeat_challenge(&mut self, now: Instant, id: PathId) {
        let path = &self.paths[id.index()];
        if self.content.challenge_at(path).is_none_or(|at| at > now) {
            return;
        }
        if path.state() == PathState::Out {
            self.paths[id.index()].next_alarm(now);
            self.declare_silent(now, id, SendReason::PathOut);
            self.questions.challenge(&mut self.paths[id.index()]);
        } else {
            let path = &mut self.paths[id.index()];
            self.questions.ask(path, SendReason::IdleProbe);
        }
    }
}

/// Limits the packets in flight on a path whose timer has expired, until it answers. The others
/// that miss an answer may have failed with it: retransmissions would fill them at once.
fn wait_for_answers(now: Instant, id: PathId, window_bytes: u64, paths: &mut [Path]) {
    for path in paths {
        let due_at = path.recovery.answer_due_at();
        if path.id == id || due_at.is_some_and(|due_at| due_at <= now) {
            path.set_loss_window(Some(window_bytes));
        }
    }
}

impl Stream {
    /// Returns when a path that is out or silent, or has not answered yet, is asked again.
    pub(super) fn challenge_at(&self, path: &Path) -> Option<Instant> {
        match path.state() {
            PathState::Out => path.liveness.due_at(&path.recovery),
            _ if path.challenge.is_none() && answers::is_unanswered(path) => Some(
                next_question_at(path, self.config.initial_retransmission_timeout),
            ),
            // The answer reveals losses, and ends the back-off.
            PathState::Active if self.paths[path.id.index()].timer.has_expired() => {
                let interval = self.config.silence_question_interval?;
                Some(next_question_at(path, interval))
            }
            _ => None,
        }
    }

    /// Sees to it that a window that has closed is asked for: its reopening may get lost.
    pub(super) fn watch_window(&mut self, now: Instant, sizes: &Sizes, paths: &[Path]) {
        // Mostly something is in flight, and waiting data need not be checked.
        let is_silent = !paths
            .iter()
            .any(|path| path.recovery.outstanding_bytes() > 0);
        if !is_silent || !self.send.is_blocked(segment_bytes(sizes, paths)) {
            self.blocked_at = None;
            self.blocked_wait = self.config.initial_retransmission_timeout;
        } else if self.blocked_at.is_none() {
            self.blocked_at = Some(now + self.blocked_wait);
        }
    }

    /// Announces that the peer's window keeps bytes back, if it is time.
    pub(super) fn on_blocked_timeout(&mut self, now: Instant) {
        if self.blocked_at.is_some_and(|at| at <= now) {
            self.says_blocked = true;
            self.blocked_wait = (self.blocked_wait * 2).min(MAX_BLOCKED_WAIT);
            self.blocked_at = Some(now + self.blocked_wait);
        }
    }
}

/// Returns when a silent path is asked again, `floor` after its last packet at the earliest.
fn next_question_at(path: &Path, floor: Duration) -> Instant {
    let silent_for = path.last_sent_at.saturating_since(path.last_heard_at);
    path.last_sent_at + questions::interval(floor, silent_for)
}
