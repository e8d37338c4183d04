//! The check of the invariants of media.

use super::Media;
use crate::invariants::{Checker, Invariant};
use crate::media::{CopyMap, Exceptions};
use crate::path::Path;

impl Media {
    pub(super) fn check_parts(&self, paths: &[Path], checker: &mut Checker) {
        let mut copies = CopyMap::default();
        let exceptions = Exceptions {
            is_redundant: self.binding.is_redundant(),
        };
        for path in paths {
            for packet in path.bound_packets() {
                let is_only = copies.add_bound(path.id, packet);
                let holds = is_only || exceptions.is_redundant;
                checker.require(Invariant::Lists, holds, || {
                    format!("path {}: bound twice: {packet:?}", path.id)
                });
            }
            for packet in path.recovery.outstanding() {
                copies.add_outstanding(path.id, packet);
            }
        }
        self.send_buffer.check(&mut copies, exceptions, checker);
        self.reception.reassembly().check(checker);
        self.budget.check(checker);
    }
}
