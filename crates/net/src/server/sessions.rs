//! The sessions that a server holds, by index and by due time.

use std::collections::{BTreeMap, BTreeSet};

use crate::session_parameters::SessionKind;
use anabranch_secure::PublicKey;
use anabranch_units::Instant;

use crate::peer_sockets::Peer;
use crate::served::{Audience, Served};

/// Owner of a session and its kind: there is one session of each at a time.
pub(super) type Owner = (PublicKey, SessionKind);

/// One session.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) session: Box<dyn Served>,
    pub(super) audience: Audience,
    /// Its number in the order in which sessions began.
    number: u64,
    next_at: Instant,
    /// The addresses that its peer has proven.
    proven: Vec<Peer>,
}

impl Held {
    pub(super) fn owner(&self) -> Owner {
        (self.session.peer(), self.session.session_kind())
    }
}

/// All sessions of a server. The cost of a turn depends only on the sessions with something to do.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_index: BTreeMap<u32, Held>,
    /// Times at which the sessions are to be advanced.
    timer_queue: BTreeSet<(Instant, u32)>,
    begun_count: u64,
    /// The addresses of all peers, and the number of their changes.
    peers: Vec<Peer>,
    peers_version: u64,
}

impl Sessions {
    /// Adds a session that has begun; it is advanced at the next turn.
    pub(super) fn add(&mut self, index: u32, session: Box<dyn Served>, audience: Audience) {
        self.begun_count += 1;
        let held = Held {
            session,
            audience,
            number: self.begun_count,
            next_at: Instant::ZERO,
            proven: Vec::new(),
        };
        self.timer_queue.insert((held.next_at, index));
        self.by_index.insert(index, held);
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Held> {
        let held = self.by_index.remove(&index)?;
        self.timer_queue.remove(&(held.next_at, index));
        if !held.proven.is_empty() {
            self.list_peers();
        }
        Some(held)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    pub(super) fn has(&self, index: u32) -> bool {
        self.by_index.contains_key(&index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Held)> {
        self.by_index.iter().map(|(index, held)| (*index, held))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.by_index.values_mut()
    }

    /// Returns a session for reading.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Held> {
        self.by_index.get_mut(&index)
    }

    /// Returns a session that is about to change: it is advanced at the next turn.
    pub(super) fn touch(&mut self, index: u32) -> Option<&mut Held> {
        self.put_off(index, Instant::ZERO);
        self.by_index.get_mut(&index)
    }

    /// Makes all sessions due now.
    pub(super) fn touch_all(&mut self) {
        let all: Vec<u32> = self.by_index.keys().copied().collect();
        for index in all {
            self.put_off(index, Instant::ZERO);
        }
    }

    /// Returns the session that began last.
    pub(super) fn newest_mut(&mut self) -> Option<&mut Held> {
        self.by_index.values_mut().max_by_key(|held| held.number)
    }

    /// Returns the sessions with something to do now.
    pub(super) fn due(&self, now: Instant) -> Vec<u32> {
        let mut due: Vec<u32> = self
            .timer_queue
            .range(..=(now, u32::MAX))
            .map(|(_, index)| *index)
            .collect();
        let others = self.iter().filter(|(_, held)| held.next_at > now);
        due.extend(
            others
                .filter(|(_, held)| held.session.may_have_data())
                .map(|(index, _)| index),
        );
        due
    }

    /// Returns the time of the next due session.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.timer_queue.first().map(|(at, _)| *at)
    }

    /// Postpones a session's next step to `until`.
    pub(super) fn put_off(&mut self, index: u32, until: Instant) {
        if let Some(held) = self.by_index.get_mut(&index) {
            self.timer_queue.remove(&(held.next_at, index));
            held.next_at = until;
            self.timer_queue.insert((until, index));
        }
    }

    /// Checks whether the addresses of a session's peer have changed.
    pub(super) fn check_addresses(&mut self, index: u32) {
        let Some(held) = self.by_index.get_mut(&index) else {
            return;
        };
        let mut proven = Vec::new();
        held.session.add_proven_peers(&mut proven);
        if proven != held.proven {
            held.proven = proven;
            self.list_peers();
        }
    }

    fn list_peers(&mut self) {
        let all = self.by_index.values();
        self.peers = all.flat_map(|held| held.proven.iter().copied()).collect();
        self.peers_version += 1;
    }

    /// Returns the addresses that the peers have proven, and the number of their changes.
    pub(super) fn peers(&self) -> (u64, &[Peer]) {
        (self.peers_version, &self.peers)
    }
}
