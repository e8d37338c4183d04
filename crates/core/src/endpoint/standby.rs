//! Which paths stand by: metered ones, while the others suffice.

use anabranch_units::{Duration, Instant};

use super::Endpoint;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::{AckedPacket, Digest, PacketContent};
use crate::standby::{PROBE_INTERVAL, Standby, Unmetered};

impl Endpoint {
    /// A path with these options has joined.
    pub(super) fn meet_meter(&mut self, now: Instant, is_metered: bool) {
        if is_metered {
            self.standby
                .get_or_insert_with(|| Box::new(Standby::new(now)));
        }
    }

    /// Whether metered paths stand by. Never while all others are silent.
    pub(super) fn are_metered_in_reserve(&self) -> bool {
        let is_other = |path: &Path| !path.is_metered() && path.state() == PathState::Active;
        self.standby.as_deref().is_some_and(Standby::is_in_reserve)
            && self.paths.iter().any(is_other)
    }

    /// Whether the path stands by.
    pub(super) fn is_standby(&self, id: PathId) -> bool {
        self.paths[id.index()].is_metered() && self.are_metered_in_reserve()
    }

    /// Whether bandwidth of unmetered paths is worth looking for, since metered ones carry what it
    /// could.
    pub(super) fn is_unmetered_bandwidth_wanted(&self) -> bool {
        self.standby
            .as_ref()
            .is_some_and(|standby| standby.is_bandwidth_wanted())
    }

    /// Whether metered paths carry what unmetered ones do not.
    fn is_spending(&self) -> bool {
        self.standby
            .as_ref()
            .is_some_and(|standby| !standby.is_in_reserve())
    }

    /// Looks at the paths anew.
    pub(super) fn update_standby(&mut self, now: Instant) {
        let Some(standby) = &mut self.standby else {
            return;
        };
        let mut unmetered = Unmetered {
            queueing_delay: Duration::MAX,
            ..Unmetered::default()
        };
        for path in &self.paths {
            if !path.is_metered() && path.state() == PathState::Active {
                unmetered.path_count += 1;
                let queueing_delay = path.queueing_delay();
                unmetered.queueing_delay = unmetered.queueing_delay.min(queueing_delay);
                unmetered.queued_bytes += path.queued_bytes();
                if path.control().is_usable {
                    unmetered.bandwidth += path.control().target_rate;
                }
            }
        }
        let media = &self.config.media;
        if standby.update(now, media.source, media.deadline, &unmetered) {
            self.is_schedule_due = true;
        }
    }

    /// Whether the path is asked for signs of life when it is idle: if it stands by, or if metered
    /// ones stand in for it, since nobody would learn otherwise that it has recovered.
    fn is_probed(&self, id: PathId) -> bool {
        if self.standby.is_none() {
            return false;
        }
        match self.paths[id.index()].is_metered() {
            true => self.is_standby(id),
            false => self.is_spending(),
        }
    }

    /// When such a path is to be asked.
    pub(super) fn standby_probe_at(&self, id: PathId) -> Option<Instant> {
        if !self.has_sent_media || !self.is_probed(id) {
            return None;
        }
        let path = &self.paths[id.index()];
        let is_idle = path.state() == PathState::Active && path.challenge.is_none();
        is_idle.then(|| path.last_sent_at + PROBE_INTERVAL)
    }

    /// Asks it, if it is time.
    pub(super) fn probe_standby(&mut self, now: Instant, id: PathId) {
        if self.standby_probe_at(id).is_none_or(|at| at > now) {
            return;
        }
        let token = self.rng.next_u64();
        let path = &mut self.paths[id.index()];
        // So small a packet says nothing of what the path carries.
        path.leave_idleness(now);
        path.challenge = Some(*path.expected_response.get_or_insert(token));
    }

    /// Whether all that the report is about is a probe of an idle path. It is a sample of
    /// the round-trip time, but would make a controller believe that the path carries no more.
    pub(super) fn is_of_probe(&self, id: PathId, digest: &Digest) -> bool {
        let is_probe = |packet: &AckedPacket| packet.sent.content == PacketContent::Challenge;
        self.is_probed(id) && digest.lost.is_empty() && digest.acked.iter().all(is_probe)
    }
}
