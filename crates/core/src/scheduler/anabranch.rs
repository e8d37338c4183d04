//! `anabranch`: each packet where it arrives in time, no path left to go stale.
//!
//! Ours. Schedulers before it bind a frame when it comes, by estimates a round trip old
//! (min-cost, WRR, EDCLD, SFL), or give each path a packet as it becomes free, however slow it is
//! (round robin). This one
//! 1. binds late: a packet stays with the session until the pacer of a path that suits it is
//!    ready, so that the newest estimates decide, and nothing has to be taken back;
//! 2. predicts when a packet would arrive: what waits before it, half the least round-trip time,
//!    the *whole* queueing delay (the reverse way is hardly ever the slow one; half of it, as in
//!    RTT/2, makes a long queue look short), and for how long the path has kept an
//!    acknowledgement due: a path that has just fallen silent is dear before it is suspect;
//! 3. takes a ready path that is slower than the best by no more than a *slack*, which grows with
//!    the load to a tenth of the deadline. At low load the fastest path carries all. Near
//!    capacity all paths are kept busy, or those left idle lose their share of what they cross
//!    to other traffic, and the encoder's rate with it;
//! 4. leaves a path that comes back from an outage to prove itself with copies, and sends a copy
//!    on a path that has long been idle, so that its estimates are fresh when it is needed;
//! 5. sends a second copy of a packet that would probably miss its deadline on the best path, if
//!    another may make it, within an allowance of a twentieth of the media; disposable frames get
//!    none, and wait behind the others.
//!
//! Retransmissions go where they arrive first, repairs away from what they protect.
//! `docs/results.md` has what it gains and where it does not.

use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::binding::Binding;
use super::one_by_one::candidates;
use super::{Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::session_view::SessionView;

/// The slack at full load, as a share of the deadline.
const SLACK: f64 = 0.1;
/// Media at this share of the paths' bandwidth is full load, and at that share of it light load.
const FULL_LOAD: f64 = 0.8;
const LIGHT_LOAD: f64 = 0.6;
/// Of the slack, so much is there at light load: a packet time or two.
const LEAST_SLACK: f64 = 0.1;
/// Over how long the media's rate is measured.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// So many copies have to arrive before a path that was out is trusted again.
const PROOFS: u8 = 8;
const PROOF_INTERVAL: Duration = Duration::from_millis(20);
/// An idle path's estimates are refreshed as often.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Copies for the deadline's sake may take this share of the media, and so much at once.
const COPY_SHARE: f64 = 0.05;
const MAX_COPY_ALLOWANCE_BYTES: f64 = 20_000.0;
/// A packet counts as late if it is so with so many deviations of the round-trip time.
const DEVIATIONS: u64 = 2;

#[derive(Debug, Default)]
struct Anabranch {
    binding: Binding,
    /// Bytes of packets that are to wait for a path, by path.
    held_bytes: Vec<u64>,
    /// The paths that the packet of the moment may take, and when it would arrive by them.
    choices: Vec<(Duration, PathId)>,
    trust: [Trust; PathId::LIMIT],
    media_rate: MediaRate,
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

/// The rate of media bound, over about a second.
#[derive(Debug, Default)]
struct MediaRate {
    bytes: f64,
    at: Instant,
}

impl MediaRate {
    fn on_bound(&mut self, now: Instant, bytes: u64) {
        let elapsed = now.saturating_since(self.at).as_secs_f64() / RATE_WINDOW.as_secs_f64();
        self.bytes = self.bytes * (1.0 - elapsed.min(1.0)) + bytes as f64;
        self.at = now;
    }

    fn rate(&self) -> DataRate {
        DataRate::from_bytes_per(self.bytes as u64, RATE_WINDOW)
    }
}

/// From the pacer to the receiver.
fn transit(path: &PathView) -> Duration {
    let (Some(min), Some(smoothed)) = (path.min_rtt, path.smoothed_rtt) else {
        return PathView::UNKNOWN_RTT / 2;
    };
    min / 2 + smoothed.saturating_sub(min) + path.overdue
}

/// Whether a packet that would arrive after `after` is likely to miss its deadline.
fn is_late(now: Instant, packet: &PacketView, after: Duration, path: &PathView) -> bool {
    let at = now + path.unweighted(after + path.rtt_variation * DEVIATIONS);
    packet.deadline.is_some_and(|deadline| at > deadline)
}

/// What is decided for a packet.
enum Place {
    /// It leaves now, maybe with a copy.
    Goes { path: PathId, copy: Option<PathId> },
    /// It stays until this path, or a better one, is ready.
    WaitsFor(PathId),
}

impl Anabranch {
    /// How much later than on the best path a packet may arrive.
    fn slack(&self, session: &SessionView) -> Duration {
        let is_counted = |path: &&PathView| path.state == PathState::Active && !path.is_standby;
        let bandwidth: DataRate = self
            .binding
            .paths
            .iter()
            .filter(is_counted)
            .map(|p| p.bandwidth)
            .sum();
        let load = self.media_rate.rate().bits_per_second() as f64
            / bandwidth.bits_per_second().max(1) as f64;
        let share = ((load - LIGHT_LOAD) / (FULL_LOAD - LIGHT_LOAD)).clamp(LEAST_SLACK, 1.0);
        session.deadline.mul_f64(SLACK * share)
    }

    /// How long until a packet, bound after those that are to wait for the path, would be there.
    fn arrival(&self, now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        let held_bytes = self.held_bytes[path.id.index()];
        let bytes = path.queued_bytes + held_bytes + u64::from(packet.bytes);
        path.ready_at.saturating_since(now) + path.drain_rate().time_for(bytes) + transit(path)
    }

    fn is_ready(&self, packet: &PacketView, path: &PathView) -> bool {
        path.sendable_bytes >= u64::from(packet.bytes) && self.held_bytes[path.id.index()] == 0
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
                choices.push((self.arrival(now, packet, path), path.id));
            }
        }
        self.choices = choices;
    }

    /// Where a packet goes that is sent for the first time, by its choices.
    fn place(&self, now: Instant, packet: &PacketView, slack: Duration) -> Option<Place> {
        let (soonest, best) = *self.choices.iter().min_by_key(|(at, _)| *at)?;
        let path = |id: PathId| &self.binding.paths[id.index()];
        let ready = self
            .choices
            .iter()
            .filter(|(at, id)| *at <= soonest + slack && self.is_ready(packet, path(*id)))
            .min_by_key(|(at, _)| *at);
        Some(match ready {
            None => Place::WaitsFor(best),
            Some((at, id)) => Place::Goes {
                path: *id,
                copy: if is_late(now, packet, *at, path(*id)) {
                    self.rescue(now, packet, *id)
                } else {
                    None
                },
            },
        })
    }

    /// Another path that may bring a packet in time which `path` would not.
    fn rescue(&self, now: Instant, packet: &PacketView, path: PathId) -> Option<PathId> {
        if packet.importance == Importance::Disposable
            || self.copy_allowance_bytes < f64::from(packet.bytes)
        {
            return None;
        }
        let may_rescue = |(at, id): &&(Duration, PathId)| {
            let other = &self.binding.paths[id.index()];
            *id != path && !is_late(now, packet, *at, other) && self.is_ready(packet, other)
        };
        self.choices.iter().find(may_rescue).map(|(_, id)| *id)
    }

    /// Adds a copy on a path that has to prove itself, or whose estimates are old.
    fn add_probe(&mut self, now: Instant, paths: &mut PathSet) {
        let is_due = |path: &&PathView| {
            let trust = &self.trust[path.id.index()];
            let last_at = path.last_acked_at.unwrap_or(now).max(trust.copied_at);
            let is_idle = path.bytes_in_flight == 0 && path.queued_bytes == 0;
            let since = now.saturating_since(last_at);
            let is_proving =
                trust.proofs_missing > 0 && now.saturating_since(trust.copied_at) >= PROOF_INTERVAL;
            path.state == PathState::Active
                && !path.is_standby
                && !paths.contains(path.id)
                && (is_proving || (is_idle && since >= REFRESH_INTERVAL))
        };
        if let Some(path) = self.binding.paths.iter().find(is_due) {
            self.trust[path.id.index()].copied_at = now;
            paths.insert(path.id);
        }
    }

    /// Where a packet is sent to for the first time now; no path: it is held.
    fn bind_source(&mut self, now: Instant, packet: &PacketView, slack: Duration) -> PathSet {
        let bytes = u64::from(packet.bytes);
        self.note_choices(now, packet);
        let (path, copy) = match self.place(now, packet, slack) {
            Some(Place::Goes { path, copy }) => (path, copy),
            Some(Place::WaitsFor(path)) => {
                self.held_bytes[path.index()] += bytes;
                return PathSet::EMPTY;
            }
            None => return PathSet::EMPTY,
        };
        let mut paths = PathSet::only(path);
        if let Some(copy) = copy {
            self.copy_allowance_bytes -= bytes as f64;
            paths.insert(copy);
        }
        self.add_probe(now, &mut paths);
        self.media_rate.on_bound(now, bytes);
        self.copy_allowance_bytes =
            (self.copy_allowance_bytes + bytes as f64 * COPY_SHARE).min(MAX_COPY_ALLOWANCE_BYTES);
        paths
    }
}

impl Scheduler for Anabranch {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.binding.begin(paths);
        self.held_bytes.clear();
        self.held_bytes.resize(paths.len(), 0);
        let slack = self.slack(session);
        for is_disposable in [false, true] {
            let of_turn = queue.iter().filter(|(_, packet)| {
                (packet.importance == Importance::Disposable) == is_disposable
            });
            for (index, packet) in of_turn {
                let paths = match packet.kind {
                    PacketKind::Source => self.bind_source(now, packet, slack),
                    _ => self.binding.by_rule(now, packet).into_iter().collect(),
                };
                if !paths.is_empty() {
                    self.binding.bind(index, packet, paths, out);
                }
            }
        }
    }

    fn on_event(&mut self, _now: Instant, event: &SchedulerEvent) {
        match event {
            SchedulerEvent::PathDown(path) => self.trust[path.index()].proofs_missing = PROOFS,
            SchedulerEvent::Acked { path, .. } => {
                let trust = &mut self.trust[path.index()];
                trust.proofs_missing = trust.proofs_missing.saturating_sub(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
