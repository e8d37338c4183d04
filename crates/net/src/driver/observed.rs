//! The driver's reports to an observer of packets.

use std::sync::Arc;

use anabranch_core::{PathId, Transmit};
use anabranch_secure::{Cargo, PROTECTION_OVERHEAD_BYTES, PublicKey};
use anabranch_units::Instant;

use super::Authentic;
use crate::observer::{PacketEvent, PacketNews, PacketObserver};

/// The observer of a session's packets, if there is one.
#[derive(Debug)]
pub(super) struct Observed {
    observer: Option<Arc<dyn PacketObserver>>,
    peer: PublicKey,
    cargo: Cargo,
    /// Lost packets of each path at the last check.
    lost_counts: Vec<u64>,
}

impl Observed {
    pub(super) fn new(
        observer: Option<Arc<dyn PacketObserver>>,
        peer: PublicKey,
        cargo: Cargo,
    ) -> Self {
        Observed {
            observer,
            peer,
            cargo,
            lost_counts: Vec::new(),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.observer.is_some()
    }

    fn tell(&self, at: Instant, path: PathId, news: PacketNews) {
        if let Some(observer) = &self.observer {
            observer.on_packet(&PacketEvent {
                at,
                peer: self.peer,
                cargo: self.cargo,
                path,
                news,
            });
        }
    }

    pub(super) fn on_sent(&self, at: Instant, number: u64, sent: &Transmit) {
        let news = PacketNews::Sent {
            number,
            bytes: sent.size + PROTECTION_OVERHEAD_BYTES,
            reason: sent.reason,
            fragment: sent.fragment,
        };
        self.tell(at, sent.path, news);
    }

    pub(super) fn on_received(&self, at: Instant, received: &Authentic<'_>) {
        let news = PacketNews::Received {
            number: received.counter,
            bytes: received.plaintext.len() + PROTECTION_OVERHEAD_BYTES,
        };
        self.tell(at, received.path, news);
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
            self.tell(at, path, PacketNews::Lost { count: new_count });
        }
    }
}
