//! Paths that are silent: in doubt, out, and asked for a sign of life.

use anabranch_units::Instant;

use super::MediaSession;
use crate::control::Timeout;
use crate::liveness::Alarm;
use crate::path_view::{PathId, PathState};
use crate::recovery::SentPacket;
use crate::send_reason::SendReason;
use crate::session::Event;

impl MediaSession {
    /// Serves what a path's silence has come to.
    pub(super) fn on_silence_timeout(&mut self, now: Instant, id: PathId) {
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

    /// Receivers come and go. Only the end that media comes from ends a session of media.
    pub(super) fn on_peer_left(&mut self, now: Instant) {
        self.has_peer_left = true;
        self.events.push_back(Event::PeerLeft);
        for index in 0..self.paths.len() {
            self.suspend_path(now, PathId(index as u8));
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
    /// once, without a probe timeout of silence, and is back when it answers.
    pub fn suspend_path(&mut self, now: Instant, path: PathId) {
        if let Some(suspended) = self.paths.get_mut(path.index())
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
