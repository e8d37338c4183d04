//! Outgoing packets of media: probes of paths, then fragments and repairs, then padding.

use anabranch_units::Instant;

use super::{Media, MediaSession, fec, probing};
use crate::config::PaddingPolicy;
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::{PacketKind, PacketView, SchedulerEvent};
use crate::send_reason::SendReason;
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
        self.closing.is_open()
            && self.due_notice_on(now).is_none()
            && paths.all(|path| !path.has_notices(now) && is_waiting(path))
    }

    pub(super) fn write_media(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
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
                let around = fec::Around {
                    header_bytes: self.header_bytes(),
                    overhead_bytes: self.config.overhead_bytes,
                };
                let (path, content) = (&mut self.paths[id.index()], &mut self.content);
                let heads = &mut content.scratch.symbol_heads;
                let send_buffer = &mut content.send_buffer;
                match fec::write_repair(&packet, path, send_buffer, around, heads, buf) {
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

    pub(super) fn write_padding(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let path = &mut self.paths[id.index()];
        // A greedy session always has something to send.
        path.is_window_limited |= self.content.has_sent_media
            && self.config.padding == PaddingPolicy::Always
            && !path.has_window();
        let due_at = self.padding_due_at(id)?;
        if due_at > now {
            return None;
        }
        let wanted_bytes = self.config.laboratory.padding_bytes;
        let wanted_bytes = wanted_bytes.unwrap_or(self.config.fragment_bytes);
        let padding_bytes = match self.paths[id.index()].recovery.mtu() {
            Some(mtu) => wanted_bytes.min(self.fragment_bytes_in(mtu.carried())),
            None => wanted_bytes,
        };
        self.paths[id.index()].write_tracked_header(buf);
        wire::write_padding(usize::from(padding_bytes), buf);
        Some((PacketContent::Padding, SendReason::Padding))
    }

    /// Returns when padding is due on a path; `None` while none is wanted.
    pub(super) fn padding_due_at(&self, id: PathId) -> Option<Instant> {
        if !self.content.has_sent_media || !self.closing.is_open() {
            return None;
        }
        let need = probing::Need {
            policy: self.config.padding,
            source: self.config.media.source,
            target: self.content.target.bitrate(),
            paths: &self.paths,
            standby: &self.content.standby,
        };
        self.content.probing.padding_due_at(&need, id)
    }
}

impl Media {
    /// Handles the departure of a packet on this path.
    pub(super) fn on_packet_sent(&mut self, now: Instant, path: &mut Path, packet: &SentPacket) {
        let is_padding = packet.content == PacketContent::Padding;
        path.is_padded = !path.control().padding_rate.is_zero() && (path.is_padded || is_padding);
        self.probing.on_sent(now, packet.bytes, is_padding);
        if is_padding {
            path.counters.padding_packets += 1;
            path.counters.padding_bytes += u64::from(packet.bytes);
        }
        let event = SchedulerEvent::Sent {
            path: path.id,
            bytes: packet.bytes,
            queued_bytes: path.queued_bytes(),
        };
        self.scheduler.on_event(now, &event);
        // Held packets may leave now that the path is free, or a burst is not over.
        self.is_schedule_due |= self.send_buffer.has_waiting();
    }
}
