//! Outgoing packets of media: probes of paths, then fragments and repairs, then padding.

use anabranch_units::Instant;

use super::mtu::write_fragment;
use super::{Media, fec, probing};
use crate::config::{Config, PaddingPolicy};
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::{PacketKind, PacketView, SchedulerEvent};
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::session::content::{Context, Written};
use crate::session::output::Output;
use crate::wire;

impl Media {
    /// Writes the next fragment or repair that is bound to a path and may leave now.
    pub(super) fn write_media(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        // Packets that have arrived by another copy or were given up meanwhile are skipped.
        let mut has_dropped = false;
        loop {
            let path = &mut ctx.paths[id.index()];
            let Some(packet) = path.pop_bound(ctx.now) else {
                if has_dropped && self.send_buffer.has_waiting() {
                    self.binding.request();
                }
                return None;
            };
            has_dropped = true;
            let lifetime = self.send_buffer.lifetime_of(packet.frame);
            if path.is_too_late_for(ctx.now, &packet, lifetime) {
                self.drop_late(ctx.now, &packet, ctx.paths, ctx.output);
                continue;
            }
            let sizes = ctx.sizes;
            let send_buffer = &mut self.send_buffer;
            if packet.kind() == PacketKind::Repair {
                let heads = &mut self.scratch.symbol_heads;
                match fec::write_repair(&packet, path, send_buffer, sizes, heads, buf) {
                    None => continue,
                    Some(repair) => return Some((repair, SendReason::Repair)),
                }
            }
            let Some(written) = write_fragment(&packet, path, send_buffer, sizes, buf) else {
                continue;
            };
            let reason = send_buffer.reason_of(&packet);
            self.on_fragment_left(ctx.now, path, &packet, reason);
            if packet.kind() == PacketKind::Retransmission {
                let payload_bytes = packet.bytes.saturating_sub(sizes.header_bytes);
                self.budget
                    .on_retransmission(ctx.now, u64::from(payload_bytes));
                if ctx.config.laboratory.rules.has(SenderRule::LastTries) {
                    ctx.refresh_views(self);
                    self.rule(ctx).try_last(id, &packet);
                }
            }
            return Some((written, reason));
        }
    }

    /// Returns whether a quick check finds nothing to send. This is true for about half of the
    /// calls.
    #[inline]
    pub(super) fn is_quiet(&self, now: Instant, paths: &[Path]) -> bool {
        let mut all = paths.iter();
        self.notices.due_on(now, paths).is_none()
            && all.all(|path| {
                let is_sending = self.has_sent_media || path.has_bound();
                !path.has_notices(now)
                    && (!is_sending || path.has_window() && path.ready_at() > now)
            })
    }

    /// Drops a packet that would come too late.
    #[cold]
    fn drop_late(
        &mut self,
        now: Instant,
        packet: &PacketView,
        paths: &[Path],
        output: &mut Output,
    ) {
        // A copy in flight or bound to another path may still arrive in time.
        if packet.kind() == PacketKind::Repair
            || paths.iter().any(|path| path.has_bound_copy_of(packet))
        {
            return;
        }
        if self.send_buffer.has_left(packet) {
            self.send_buffer.on_dropped(packet);
        } else if self.send_buffer.give_up(packet.frame) {
            self.notices.on_given_up(now, packet.frame, output);
        }
    }

    /// Records a copy that has left on a path.
    fn on_fragment_left(
        &mut self,
        now: Instant,
        path: &mut Path,
        packet: &PacketView,
        reason: SendReason,
    ) {
        let (frame, fragment) = (packet.frame, packet.fragment);
        self.send_buffer.on_sent(frame, fragment, path.id, reason);
        if packet.kind() == PacketKind::Source
            && let Some(sender) = &mut self.fec_sender
        {
            sender.on_media_sent(now, path.id, packet.bytes);
        }
        if packet.kind() == PacketKind::Retransmission {
            path.counters.retransmitted_packets += 1;
            path.counters.retransmitted_bytes += u64::from(packet.bytes);
        }
    }

    /// Writes padding to a path if it is due.
    pub(super) fn write_padding(
        &self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let config = ctx.config;
        let path = &mut ctx.paths[id.index()];
        // A greedy session always has something to send.
        path.is_window_limited |=
            self.has_sent_media && config.padding == PaddingPolicy::Always && !path.has_window();
        self.padding_due_at(id, config, ctx.paths)
            .filter(|due_at| *due_at <= ctx.now)?;
        let wanted_bytes = config
            .laboratory
            .padding_bytes
            .unwrap_or(config.fragment_bytes);
        let path = &mut ctx.paths[id.index()];
        let padding_bytes = match path.recovery.mtu() {
            Some(mtu) => wanted_bytes.min(ctx.sizes.fragment_bytes_in(mtu.carried())),
            None => wanted_bytes,
        };
        path.write_tracked_header(buf);
        wire::write_padding(usize::from(padding_bytes), buf);
        Some((PacketContent::Padding, SendReason::Padding))
    }

    /// Returns when padding is due on a path; `None` while none is wanted.
    pub(super) fn padding_due_at(
        &self,
        id: PathId,
        config: &Config,
        paths: &[Path],
    ) -> Option<Instant> {
        if !self.has_sent_media {
            return None;
        }
        let need = probing::Need {
            policy: config.padding,
            source: config.media.source,
            target: self.target.bitrate(),
            paths,
            standby: &self.standby,
        };
        self.probing.padding_due_at(&need, id)
    }

    /// Records the departure of a packet on this path.
    pub(super) fn record_departure(&mut self, now: Instant, path: &mut Path, packet: &SentPacket) {
        let is_padding = packet.content == PacketContent::Padding;
        path.is_padded = !path.control().padding_rate.is_zero() && (path.is_padded || is_padding);
        if !packet.content.is_probe() {
            self.probing.on_sent(now, packet.bytes, is_padding);
        }
        if is_padding {
            path.counters.padding_packets += 1;
            path.counters.padding_bytes += u64::from(packet.bytes);
        }
        let event = SchedulerEvent::Sent {
            path: path.id,
            bytes: packet.bytes,
            queued_bytes: path.queued_bytes(),
        };
        self.binding.notify(now, &event);
        // Held packets may leave now that the path is free, or a burst is not over.
        if self.send_buffer.has_waiting() {
            self.binding.request();
        }
    }
}
