//! Paths that have been silent for too long to carry media, and peers that have left.

use anabranch_units::Instant;

use super::{MediaSession, unanswered};
use crate::liveness::Alarm;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::SentPacket;
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::session::Event;
use crate::session::content::Hooks;

impl MediaSession {
    /// Handles the due stages of a path's silence.
    pub(super) fn on_silence_timeout(&mut self, now: Instant, id: PathId) {
        while let Some(alarm) = self.paths[id.index()].next_alarm(now) {
            match alarm {
                Alarm::Suspect => self.on_suspect(now, id),
                Alarm::Out => self.on_out(now, id),
                Alarm::Challenge => {
                    if self.paths[id.index()].state() == PathState::Out {
                        self.declare_silent(now, id, SendReason::PathOut);
                    }
                    self.questions.challenge(&mut self.paths[id.index()]);
                }
            }
        }
    }

    /// Receivers come and go. Only the end that media comes from ends a session of media.
    pub(super) fn on_peer_left(&mut self, now: Instant) {
        self.has_peer_left = true;
        self.output.events.push_back(Event::PeerLeft);
        for index in 0..self.paths.len() {
            self.suspend_path(now, PathId(index as u8));
        }
    }

    /// Copies the packets of a suspect path to another path, if there is one.
    fn on_suspect(&mut self, now: Instant, id: PathId) {
        let lifetime = self.config.media.deadline;
        let path = &mut self.paths[id.index()];
        path.begin_interruption(now, lifetime);
        self.questions.challenge(path);
        unanswered::ask_for_life(now, &mut self.paths, &mut self.questions);
        let may_copy = self.config.laboratory.rules.has(SenderRule::SuspectCopies);
        if may_copy && Path::best_other(&self.paths, id).is_some() {
            self.content.take_back(&mut self.paths, id);
            self.refresh_views(now);
            let outstanding: Vec<SentPacket> =
                self.paths[id.index()].recovery.outstanding().collect();
            for packet in &outstanding {
                let reason = SendReason::PathSuspect;
                self.rule(now).on_copy_lost(id, packet, reason);
            }
        }
        self.on_path_changed(now, id);
    }
}
