//! `anabranch`: each packet where it arrives first, by a forecast that is quick to see a path fall.
//!
//! Ours. As min-cost does, it
//! 1. binds a packet to the path that brings it first: when the pacer is ready, what waits before
//!    it, and half the latest round-trip time;
//!
//! but what is known of a path is a round trip old, and packets are late because of what has
//! happened since. So it
//! 2. adds for how long the path has kept an acknowledgement due: one that has just fallen silent
//!    is dear before it is suspect;
//! 3. takes a path for as slow as packets leave it, come through or lost, while that is
//!    less than it is sent: all that is in flight there, at that rate, comes before a new packet
//!    (Little's law), and so do those bound to it;
//! 4. leaves a path that comes back from an outage to prove itself with copies;
//! 5. sends a second copy of a packet that would probably miss its deadline, if another path may
//!    make it and stands idle, within an allowance of a twentieth of the media. Disposable frames
//!    get none, and wait behind the others.
//!
//! Retransmissions go where they arrive first.
//! `docs/results.md` has what it gains and where it does not.

use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::binding::Binding;
use super::one_by_one::candidates;
use super::{Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::session_view::SessionView;

/// Over how long the rate at which packets leave a path is measured: a few reports.
const DEPARTURE_MEMORY: Duration = Duration::from_millis(150);
/// A path that packets leave at less than this share of the rate at which it is sent has slowed
/// down.
const SLOWED_DOWN: f64 = 0.9;
/// A round-trip time beyond the least by so much tells of a queue: no more leaves a path than it
/// is given.
const STANDING_QUEUE: Duration = Duration::from_millis(20);

/// So many copies have to arrive before a path that was out is trusted again.
const PROOFS: u8 = 8;
const PROOF_INTERVAL: Duration = Duration::from_millis(20);

/// Second copies may take this share of the media, and so much at once.
const COPY_SHARE: f64 = 0.05;
const MAX_COPY_ALLOWANCE_BYTES: f64 = 20_000.0;
/// A packet counts as late if it is so with so many deviations of the round-trip time.
const DEVIATIONS: u64 = 2;

#[derive(Debug, Default)]
struct Anabranch {
    binding: Binding,
    /// The paths that the packet of the moment may take, and when it would arrive by them.
    choices: Vec<(Duration, PathId)>,
    trust: [Trust; PathId::LIMIT],
    departures: [Departures; PathId::LIMIT],
    copy_allowance_bytes: f64,
}

/// What a path still has to show.
#[derive(Clone, Copy, Debug, Default)]
struct Trust {
    proofs_missing: u8,
    copied_at: Instant,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(Anabranch::default())
}

/// What has come through a path or been lost there of late: bytes that fade over
/// [`DEPARTURE_MEMORY`].
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    bytes: f64,
    at: Instant,
}

impl Departures {
    fn faded_bytes(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_since(self.at).as_secs_f64();
        self.bytes * libm::exp(-elapsed / DEPARTURE_MEMORY.as_secs_f64())
    }

    fn add(&mut self, now: Instant, bytes: u32) {
        self.bytes = self.faded_bytes(now) + f64::from(bytes);
        self.at = now;
    }

    /// Never zero.
    fn rate(&self, now: Instant) -> DataRate {
        let bytes = self.faded_bytes(now).max(1.0) as u64;
        DataRate::from_bytes_per(bytes, DEPARTURE_MEMORY)
    }
}

/// Whether a packet that would arrive after `after` is likely to miss its deadline.
fn is_late(now: Instant, packet: &PacketView, after: Duration, path: &PathView) -> bool {
    let at = now + path.unweighted(after + path.rtt_variation * DEVIATIONS);
    packet.deadline.is_some_and(|deadline| at > deadline)
}

impl Anabranch {
    /// How long until a packet, bound now, would be there. Its own bytes do not count: the pacer's
    /// gap comes after a packet, and its time on the wire is in the round-trip time.
    fn arrival(&self, now: Instant, path: &PathView) -> Duration {
        let mut transit = path.latest_rtt.unwrap_or(PathView::UNKNOWN_RTT) / 2 + path.overdue;
        // What waits takes longer to leave than a pacing gain lasts.
        let mut rate = match path.bandwidth {
            DataRate::ZERO => path.drain_rate(),
            bandwidth => bandwidth,
        };
        if let Some(departing) = self.slowed_down(now, path, rate) {
            let min_rtt = path.min_rtt.unwrap_or_default();
            let in_flight = departing.time_for(path.bytes_in_flight);
            transit = transit.max(in_flight.saturating_sub(min_rtt / 2));
            rate = departing;
        }
        path.ready_at.saturating_since(now) + rate.time_for(path.queued_bytes) + transit
    }

    /// The rate at which packets leave the path, if that is less than it is sent and
    /// packets queue there.
    fn slowed_down(&self, now: Instant, path: &PathView, sent: DataRate) -> Option<DataRate> {
        // As schedulers are shown all rates: with the user's weight in it.
        let departing = self.departures[path.id.index()]
            .rate(now)
            .mul_f64(path.weight)
            .max(DataRate::from_bits_per_second(1));
        let is_slow = departing < sent.mul_f64(SLOWED_DOWN);
        (path.queueing_delay > STANDING_QUEUE && is_slow).then_some(departing)
    }

    fn has_proved_itself(&self, path: &PathView) -> bool {
        self.trust[path.id.index()].proofs_missing == 0
    }

    /// Notes the paths that a packet may be given to, each with when it would arrive.
    fn note_choices(&mut self, now: Instant, packet: &PacketView) {
        let mut choices = core::mem::take(&mut self.choices);
        choices.clear();
        let mut is_any_proved = false;
        for path in candidates(packet, &self.binding.paths) {
            let is_proved = self.has_proved_itself(path);
            if is_proved && !is_any_proved {
                choices.clear();
                is_any_proved = true;
            }
            if is_proved || !is_any_proved {
                choices.push((self.arrival(now, path), path.id));
            }
        }
        self.choices = choices;
    }

    /// Another path that may bring a packet in time which `path` would not, and that stands idle: a
    /// copy is not to push anything back.
    fn rescue(&self, now: Instant, packet: &PacketView, path: PathId) -> Option<PathId> {
        if packet.importance == Importance::Disposable
            || self.copy_allowance_bytes < f64::from(packet.bytes)
        {
            return None;
        }
        let may_rescue = |(after, id): &&(Duration, PathId)| {
            let other = &self.binding.paths[id.index()];
            let is_free = other.sendable_bytes >= u64::from(packet.bytes);
            *id != path && is_free && !is_late(now, packet, *after, other)
        };
        self.choices.iter().find(may_rescue).map(|(_, id)| *id)
    }

    /// A path besides `paths` that has to prove itself with a copy now, if there is one.
    fn proof(&mut self, now: Instant, paths: PathSet) -> PathSet {
        let is_due = |path: &&PathView| {
            let trust = &self.trust[path.id.index()];
            path.state == PathState::Active
                && !path.is_standby
                && !paths.contains(path.id)
                && trust.proofs_missing > 0
                && now.saturating_since(trust.copied_at) >= PROOF_INTERVAL
        };
        let due = self.binding.paths.iter().find(is_due).map(|path| path.id);
        if let Some(path) = due {
            self.trust[path.index()].copied_at = now;
        }
        due.into_iter().collect()
    }

    /// The paths that a packet takes which is sent for the first time, and which of them have to
    /// prove themselves; none: it is held.
    fn bind_source(&mut self, now: Instant, packet: &PacketView) -> (PathSet, PathSet) {
        let bytes = f64::from(packet.bytes);
        self.note_choices(now, packet);
        let Some((after, best)) = self.choices.iter().min_by_key(|(after, _)| *after).copied()
        else {
            return (PathSet::EMPTY, PathSet::EMPTY);
        };
        let mut paths = PathSet::only(best);
        if is_late(now, packet, after, &self.binding.paths[best.index()])
            && let Some(other) = self.rescue(now, packet, best)
        {
            self.copy_allowance_bytes -= bytes;
            debug_assert!(self.copy_allowance_bytes >= 0.0);
            paths.insert(other);
        }
        let proofs = self.proof(now, paths);
        self.copy_allowance_bytes =
            (self.copy_allowance_bytes + bytes * COPY_SHARE).min(MAX_COPY_ALLOWANCE_BYTES);
        proofs.iter().for_each(|path| paths.insert(path));
        (paths, proofs)
    }
}

impl Scheduler for Anabranch {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.binding.begin(paths);
        for is_disposable in [false, true] {
            let of_turn = queue.iter().filter(|(_, packet)| {
                (packet.importance == Importance::Disposable) == is_disposable
            });
            for (index, packet) in of_turn {
                let (paths, proofs) = match packet.kind() {
                    PacketKind::Source => self.bind_source(now, packet),
                    _ => {
                        let path = self.binding.by_rule(packet);
                        (path.into_iter().collect(), PathSet::EMPTY)
                    }
                };
                if !paths.is_empty() {
                    self.binding.bind(index, packet, paths, out);
                    if let Some(bound) = out.last_mut() {
                        bound.proofs = proofs;
                    }
                }
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        match event {
            SchedulerEvent::PathDown(path) => {
                self.trust[path.index()].proofs_missing = PROOFS;
            }
            SchedulerEvent::Acked { path, bytes } => {
                self.departures[path.index()].add(now, *bytes);
                let trust = &mut self.trust[path.index()];
                trust.proofs_missing = trust.proofs_missing.saturating_sub(1);
            }
            SchedulerEvent::Lost { path, bytes } => {
                self.departures[path.index()].add(now, *bytes);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
