//! Paths that have been silent for too long to carry media.

use anabranch_units::Instant;

use super::{MediaSession, unanswered};
use crate::liveness::Alarm;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::SentPacket;
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
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

    /// Copies the packets of a suspect path to another path, if there is one.
    fn on_suspect(&mut self, now: Instant, id: PathId) {
        let lifetime = self.config.media.deadline;
        let path = &mut self.paths[id.index()];
        path.begin_interruption(now, lifetime);
        self.questions.challenge(path);
        unanswered::ask_for_life(now, &mut self.paths, &mut self.questions);
        let may_copy = self.config.laboratory.rules.has(SenderRule::SuspectCopies);
        if may_copy && Path::best_other(&self.paths, id).is_some() {
            let (content, mut ctx) = self.split(now);
            content.take_back(ctx.paths, id);
            ctx.refresh_views(content);
            let outstanding: Vec<SentPacket> =
                ctx.paths[id.index()].recovery.outstanding().collect();
            for packet in &outstanding {
                let reason = SendReason::PathSuspect;
                content.rule(&mut ctx).on_copy_lost(id, packet, reason);
            }
        }
        self.on_path_changed(now, id);
    }
}
