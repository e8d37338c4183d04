//! The check of the invariants of media.

use super::MediaSession;
use crate::invariants::{Checker, Invariant};
use crate::media::{Exceptions, Places};

impl MediaSession {
    pub(super) fn check_media(&self, checker: &mut Checker) {
        let mut places = Places::default();
        let exceptions = Exceptions {
            is_redundant: self.content.scheduler.is_redundant(),
        };
        for path in &self.paths {
            for packet in path.bound_packets() {
                let is_only = places.add_bound(path.id, packet);
                let holds = is_only || exceptions.is_redundant;
                checker.require(Invariant::Lists, holds, || {
                    format!("path {}: bound twice: {packet:?}", path.id)
                });
            }
            for packet in path.recovery.outstanding() {
                places.add_outstanding(path.id, packet);
            }
        }
        self.content
            .send_buffer
            .check(&mut places, exceptions, checker);
        self.content.reception.reassembly().check(checker);
        self.content.budget.check(checker);
    }
}
