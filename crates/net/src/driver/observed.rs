//! The driver's reports to an observer of packets.

use std::sync::Arc;

use crate::session_parameters::SessionKind;
use anabranch_core::{PathId, Transmit};
use anabranch_secure::{PROTECTION_OVERHEAD_BYTES, PublicKey};
use anabranch_units::Instant;

use super::Authentic;
use crate::observer::{PacketEvent, PacketEventKind, PacketObserver};

/// The observer of a session's packets, if there is one.
#[derive(Debug)]
pub(super) struct Observed {
    observer: Option<Arc<dyn PacketObserver>>,
    peer: PublicKey,
    session_kind: SessionKind,
    /// Lost packets of each path at the last check.
    lost_counts: Vec<u64>,
}

impl Observed {
    pub(super) fn new(
        observer: Option<Arc<dyn PacketObserver>>,
        peer: PublicKey,
        session_kind: SessionKind,
    ) -> Self {
        Observed {
            observer,
            peer,
            session_kind,
            lost_counts: Vec::new(),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.observer.is_some()
    }

    fn emit(&self, at: Instant, path: PathId, kind: PacketEventKind) {
        if let Some(observer) = &self.observer {
            observer.on_packet(&PacketEvent {
                at,
                peer: self.peer,
                session_kind: self.session_kind,
                path,
                kind,
            });
        }
    }

    pub(super) fn on_sent(&self, at: Instant, number: u64, sent: &Transmit) {
        let kind = PacketEventKind::Sent {
            number,
            bytes: sent.size + PROTECTION_OVERHEAD_BYTES,
            reason: sent.reason,
            fragment: sent.fragment,
        };
        self.emit(at, sent.path, kind);
    }

    pub(super) fn on_received(&self, at: Instant, received: &Authentic<'_>) {
        let kind = PacketEventKind::Received {
            number: received.counter,
            bytes: received.plaintext.len() + PROTECTION_OVERHEAD_BYTES,
        };
        self.emit(at, received.path, kind);
    }

    /// Resets the count of a path number that another path takes.
    pub(super) fn forget(&mut self, path: PathId) {
        if let Some(count) = self.lost_counts.get_mut(path.index()) {
            *count = 0;
        }
    }

    /// Records that `count` packets of the path have been lost in total.
    pub(super) fn on_lost_count(&mut self, at: Instant, path: PathId, count: u64) {
        if self.lost_counts.len() <= path.index() {
            self.lost_counts.resize(path.index() + 1, 0);
        }
        let before = core::mem::replace(&mut self.lost_counts[path.index()], count);
        let new_count = count.saturating_sub(before);
        if new_count > 0 {
            self.emit(at, path, PacketEventKind::Lost { count: new_count });
        }
    }
}
