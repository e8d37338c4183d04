//! Packets about a path itself: questions, probes of its MTU, and reports of suspicion.

use anabranch_units::{Duration, Instant};

use super::Path;
use crate::liveness::Alarm;
use crate::path_view::{PathId, PathState};
use crate::recovery::{Digest, PacketContent};
use crate::send_reason::SendReason;
use crate::wire;

/// Lifetime of a peer's suspicion of a path unless the peer repeats it.
const SUSPICION_LIFETIME: Duration = Duration::from_secs(1);

impl Path {
    /// Writes the queued question, if there is one. Returns the packet's content and reason.
    pub(crate) fn write_challenge(
        &mut self,
        buf: &mut Vec<u8>,
    ) -> Option<(PacketContent, SendReason)> {
        let (token, reason) = self.challenge.take()?;
        self.write_tracked_header(buf);
        wire::write_path_challenge(token, buf);
        Some((PacketContent::Challenge, reason))
    }

    /// Writes a probe for a larger MTU, if it is time, directly before another packet, by which its
    /// loss shows: the question that is queued, or one of the content if `is_content_next` says so.
    /// `overhead_bytes` will be added to it.
    pub(crate) fn write_due_mtu_probe(
        &mut self,
        now: Instant,
        is_content_next: impl FnOnce(&Path) -> bool,
        overhead_bytes: u32,
        buf: &mut Vec<u8>,
    ) -> Option<(PacketContent, SendReason)> {
        self.mtu_probe_at().filter(|at| *at <= now)?;
        if self.challenge.is_none() && !is_content_next(self) {
            return None;
        }
        let bytes = self.recovery.mtu_mut()?.due_probe(now)?;
        let size = bytes.saturating_sub(overhead_bytes) as usize;
        let padding_bytes = size.saturating_sub(wire::TRACKED_HEADER_BYTES);
        self.write_tracked_header(buf);
        wire::write_padding(padding_bytes, buf);
        self.recovery.mtu_mut().map(|mtu| {
            mtu.on_probe_sent(bytes);
            (PacketContent::MtuProbe, SendReason::MtuProbe)
        })
    }

    /// Returns the next due stage of the path's silence.
    pub(crate) fn next_alarm(&mut self, now: Instant) -> Option<Alarm> {
        self.liveness.on_timeout(now, &self.recovery)
    }

    /// Handles the peer's statement whether it doubts the path.
    pub(crate) fn on_status(&mut self, now: Instant, is_suspect: bool) {
        self.suspected_until = if is_suspect {
            now + SUSPICION_LIFETIME
        } else {
            Instant::ZERO
        };
        if is_suspect {
            self.arrivals.report_at_once(now);
        }
    }

    /// Handles a proof that the path is alive, both ways. Returns whether it is back by that.
    pub(crate) fn on_answer(&mut self) -> bool {
        let is_back = self.liveness.on_answer();
        if is_back {
            self.challenge = None;
            self.expected_response = None;
            self.pending_status = Some(false);
        }
        is_back
    }

    /// Handles a report about the path that came by another one. Returns whether it is back by
    /// that.
    #[cold]
    pub(crate) fn on_answer_elsewhere(&mut self, digest: &Digest) -> bool {
        // The way back is still broken: the peer must keep on reporting by the other path.
        self.pending_status = Some(true);
        let newest = digest.acked.last().map(|packet| packet.sent.sent_at);
        newest.is_some_and(|sent_at| sent_at >= self.liveness.suspect_since())
            && self.liveness.on_answer()
    }

    /// Returns the best active one of these paths other than `id`.
    pub(crate) fn best_other(paths: &[Path], id: PathId) -> Option<PathId> {
        let others = paths
            .iter()
            .filter(|path| path.id != id && path.state() == PathState::Active);
        let best = others.min_by_key(|path| path.recovery.rtt().smoothed());
        best.map(|path| path.id)
    }

    /// Requests that the next datagram on the best other path repeats the report about path `id`,
    /// while the peer doubts that one.
    pub(crate) fn repeat_report(paths: &mut [Path], now: Instant, id: PathId) {
        if paths[id.index()].suspected_until <= now {
            return;
        }
        let others = paths
            .iter_mut()
            .filter(|path| path.id != id && path.state().is_usable());
        if let Some(other) = others.max_by_key(|other| other.last_heard_at) {
            other.report_elsewhere = Some(id);
        }
    }

    /// Returns the one of these paths whose state is to be reported to the peer on path `on`.
    pub(crate) fn status_for(paths: &[Path], on: PathId) -> Option<PathId> {
        let about = paths.iter().find(|path| path.pending_status.is_some())?.id;
        (Path::best_other(paths, about) == Some(on)).then_some(about)
    }
}
