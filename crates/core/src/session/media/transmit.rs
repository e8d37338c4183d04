//! Outgoing packets of media: probes of paths, then fragments and repairs, then padding.

use anabranch_units::Instant;

use super::MediaSession;
use crate::config::PaddingPolicy;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::{PacketKind, PacketView, SchedulerEvent};
use crate::send_reason::SendReason;
use crate::session::Closing;
use crate::session::content::Written;
use crate::wire;

impl MediaSession {
    /// Returns whether a quick check finds nothing to send. This is true for about half of the
    /// calls.
    #[inline]
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        let is_waiting = |path: &Path| match self.content.has_sent_media || path.has_bound() {
            true => path.has_window() && path.ready_at() > now,
            false => true,
        };
        let mut paths = self.paths.iter();
        self.closing == Closing::Open
            && self.due_notice_on(now).is_none()
            && paths.all(|path| !path.has_notices(now) && is_waiting(path))
    }

    pub(super) fn write_next_packet(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        self.write_due_mtu_probe(now, id, buf)
            .or_else(|| self.write_challenge(id, buf))
            .or_else(|| self.write_media(now, id, buf))
            .or_else(|| self.write_padding(now, id, buf))
    }

    pub(super) fn on_packet_sent(&mut self, now: Instant, id: PathId, packet: &SentPacket) {
        let path = &mut self.paths[id.index()];
        let is_padding = packet.content == PacketContent::Padding;
        path.is_padded = !path.control().padding_rate.is_zero() && (path.is_padded || is_padding);
        self.content.probing.on_sent(now, packet.bytes, is_padding);
        if is_padding {
            path.counters.padding_packets += 1;
            path.counters.padding_bytes += u64::from(packet.bytes);
        }
        let event = SchedulerEvent::Sent {
            path: id,
            bytes: packet.bytes,
            queued_bytes: path.queued_bytes(),
        };
        self.content.scheduler.on_event(now, &event);
        // Held packets may leave now that the path is free, or a burst is not over.
        self.content.is_schedule_due |= self.content.send_buffer.has_waiting();
    }

    fn write_media(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Written> {
        // Packets that have arrived by another copy or were given up meanwhile are skipped.
        let mut has_dropped = false;
        loop {
            let path = &mut self.paths[id.index()];
            let Some(packet) = path.pop_bound(now) else {
                self.content.is_schedule_due |=
                    has_dropped && self.content.send_buffer.has_waiting();
                return None;
            };
            has_dropped = true;
            let lifetime = self.content.send_buffer.lifetime_of(packet.frame);
            if path.is_too_late_for(now, &packet, lifetime) {
                self.on_too_late(now, &packet);
                continue;
            }
            if packet.kind() == PacketKind::Repair {
                match self.write_repair(id, &packet, buf) {
                    None => continue,
                    Some(content) => return Some((content, SendReason::Repair)),
                }
            }
            let Some(content) = self.write_fragment(id, &packet, buf) else {
                continue;
            };
            let reason = self.content.send_buffer.reason_of(&packet);
            self.on_fragment_left(now, id, &packet, reason);
            return Some((content, reason));
        }
    }

    /// Handles a packet that was dropped, since it would have come too late.
    #[cold]
    fn on_too_late(&mut self, now: Instant, packet: &PacketView) {
        // A copy in flight or bound to another path may still arrive in time.
        let is_bound = |path: &Path| path.has_bound_copy_of(packet);
        if packet.kind() == PacketKind::Repair || self.paths.iter().any(is_bound) {
            return;
        }
        match self.content.send_buffer.has_left(packet) {
            true => self.content.send_buffer.on_dropped(packet),
            false => self.give_up(now, packet.frame),
        }
    }

    fn write_padding(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Written> {
        let path = &mut self.paths[id.index()];
        // A greedy session always has something to send.
        path.is_window_limited |= self.content.has_sent_media
            && self.config.padding == PaddingPolicy::Always
            && !path.has_window();
        let due_at = self.padding_due_at(id)?;
        if due_at > now {
            return None;
        }
        let padding_bytes = self.padding_bytes_on(id);
        self.paths[id.index()].write_tracked_header(buf);
        wire::write_padding(usize::from(padding_bytes), buf);
        Some((PacketContent::Padding, SendReason::Padding))
    }

    /// Returns when padding is due on a path; `None` while none is wanted.
    pub(super) fn padding_due_at(&self, id: PathId) -> Option<Instant> {
        if !self.content.has_sent_media || self.closing != Closing::Open {
            return None;
        }
        let policy = self.config.padding;
        // Volume costs money there: only a user who is greedy on purpose pays for padding. Without
        // any such path, there is no `standby`.
        if self.content.standby.is_some()
            && self.paths[id.index()].is_metered()
            && (policy != PaddingPolicy::Always || self.is_standby(id))
        {
            return None;
        }
        let path = &self.paths[id.index()];
        let is_useful = policy == PaddingPolicy::Always
            || self.may_probe(path) && self.is_more_bandwidth_useful();
        path.padding_due_at(policy, is_useful)
    }

    /// Whether a path's probe may cost padding. Users with a cap pay for padding, so a capped path
    /// is probed only if no other carries the stream.
    fn may_probe(&self, path: &Path) -> bool {
        if self.config.padding != PaddingPolicy::Earned {
            return true;
        }
        let is_other = |other: &Path| {
            let is_gone = matches!(other.state(), PathState::Out | PathState::Removed);
            other.id != path.id && !other.is_capped() && !is_gone
        };
        let is_spared = path.is_capped() && self.paths.iter().any(is_other);
        !is_spared && (path.is_padded || self.content.probing.may_begin())
    }
}
