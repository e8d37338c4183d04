//! Forward error correction: repairs sent along with the media, and their effect.

use std::collections::VecDeque;

use anabranch_fec::Decoder;
use anabranch_units::Instant;

use super::Media;
use crate::fec::{FecPolicy, MediaShares, RepairPlacement};
use crate::media::{FrameId, SYMBOL_HEAD_BYTES, SendBuffer, Symbol};
use crate::path::Path;
use crate::path_view::{PathId, PathView};
use crate::recovery::PacketContent;
use crate::scheduler::{Assignment, PacketKind, PacketView, fastest};
use crate::session::content::Context;
use crate::session::sizes::Sizes;
use crate::wire::{self, MAX_RECOVERED, RepairHead};

/// Number of reports that list a recovered symbol, so that a lost report costs little.
const REPETITIONS: u8 = 3;

/// Received symbols of the peer.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    decoder: Decoder,
    /// The number of the last symbol that arrived.
    last_symbol: u64,
    /// Its frame.
    last_frame: FrameId,
    /// Recovered symbols that the peer does not know of, and the remaining repetitions.
    recovered: VecDeque<(u64, u8)>,
}

/// State for sending repairs.
#[derive(Debug)]
pub(super) struct Sender {
    policy: Box<dyn FecPolicy>,
    media_shares: MediaShares,
    repair_placement: RepairPlacement,
}

impl Sender {
    pub(super) fn new(policy: Box<dyn FecPolicy>) -> Box<Self> {
        Box::new(Sender {
            policy,
            media_shares: MediaShares::new(),
            repair_placement: RepairPlacement::new(),
        })
    }

    /// Counts a first transmission of media on a path.
    pub(super) fn on_media_sent(&mut self, now: Instant, path: PathId, bytes: u32) {
        self.media_shares.on_sent(now, path, bytes);
    }
    /// Records the paths of symbols, and adds bound bytes to the views.
    pub(super) fn record_symbols(
        &mut self,
        send_buffer: &SendBuffer,
        views: &mut [PathView],
        assignments: &[Assignment],
    ) {
        let waiting = send_buffer.waiting();
        for assignment in assignments {
            let packet = &waiting[assignment.index];
            for id in assignment.paths.iter() {
                views[id.index()].queued_bytes += u64::from(packet.bytes);
            }
            if packet.kind() == PacketKind::Source
                && let Some(path) = assignment.paths.iter().next()
                && let Some(symbol) = send_buffer.symbol(packet.frame, packet.fragment)
            {
                self.repair_placement.on_symbol(symbol, path);
            }
        }
    }

    /// Binds repairs to paths that lose little and do not carry the symbols they protect; none
    /// before its frame. `held_since` is the time since which the scheduler has held packets.
    pub(super) fn bind_repairs(
        &mut self,
        now: Instant,
        send_buffer: &mut SendBuffer,
        views: &mut [PathView],
        paths: &mut [Path],
        held_since: Option<Instant>,
    ) {
        let mut repairs = send_buffer.take_waiting_repairs();
        let held = send_buffer.waiting();
        repairs.retain(|packet| {
            if held
                .iter()
                .any(|other| other.kind() == PacketKind::Source && other.frame == packet.frame)
            {
                return true;
            }
            let (frame, repair) = (packet.frame, packet.fragment);
            let Some(window) = send_buffer.repair_window(frame, repair) else {
                return false;
            };
            let elsewhere = self.repair_placement.path_for(now, packet, &window, views);
            let Some(path) = elsewhere.or_else(|| fastest(packet, views)) else {
                return true;
            };
            self.repair_placement.on_repair(&window, path);
            views[path.index()].queued_bytes += u64::from(packet.bytes);
            paths[path.index()].bind(now, *packet, held_since);
            false
        });
        send_buffer.put_back_repairs(repairs);
    }
}

impl Receiver {
    /// Takes in the symbol of a fragment that has arrived.
    pub(super) fn on_source(&mut self, low_bits: u32, symbol: &Symbol<'_>) {
        let number = wire::expand(low_bits, self.last_symbol);
        self.last_symbol = number;
        self.last_frame = symbol.header.frame;
        self.decoder
            .on_source(number, [&symbol.head(), symbol.payload]);
    }

    /// Takes in a repair symbol.
    pub(super) fn on_repair(&mut self, head: RepairHead, bytes: &[u8]) {
        let header = head.expand(self.last_symbol);
        self.decoder.on_repair(header, bytes);
    }

    /// Returns the next recovered symbol, `None` in its place if it is malformed, and its number.
    pub(super) fn next_recovered(&mut self) -> Option<(u64, Option<Symbol<'_>>)> {
        let last_frame = self.last_frame;
        let (number, bytes) = self.decoder.next_recovered()?;
        Some((number, Symbol::read(bytes, last_frame)))
    }

    /// Queues the report of a recovered symbol.
    pub(super) fn on_recovered(&mut self, number: u64) {
        self.recovered.push_back((number, REPETITIONS));
        if self.recovered.len() > MAX_RECOVERED {
            self.recovered.pop_front();
        }
    }

    /// Reports recovered symbols, which the peer need not send again.
    pub(super) fn write_symbols_recovered(&mut self, buf: &mut Vec<u8>) {
        let recovered = &mut self.recovered;
        if recovered.is_empty() {
            return;
        }
        wire::write_symbols_recovered(recovered.iter().map(|(number, _)| *number), buf);
        recovered.retain_mut(|(_, repetitions)| {
            *repetitions -= 1;
            *repetitions > 0
        });
    }
}

/// Writes a repair, if it is still of use. Apart, as most packets are none.
#[inline(never)]
pub(super) fn write_repair(
    packet: &PacketView,
    path: &mut Path,
    send_buffer: &mut SendBuffer,
    sizes: &Sizes,
    heads: &mut Vec<[u8; SYMBOL_HEAD_BYTES]>,
    buf: &mut Vec<u8>,
) -> Option<PacketContent> {
    let (frame, repair) = (packet.frame, packet.fragment);
    let window = send_buffer.take_repair(frame, repair)?;
    let symbols = send_buffer.symbols(window);
    let longest_bytes = symbols.map(|symbol| symbol.payload.len()).max();
    // It may cover fragments that were cut for the larger packet size of an earlier moment or
    // another path.
    if !path.carries(longest_bytes.unwrap_or(0) as u32 + sizes.header_bytes) {
        send_buffer.on_repair_settled(frame, repair);
        return None;
    }
    let start = buf.len();
    path.write_tracked_header(buf);
    wire::write_repair(window, buf);
    let symbols = send_buffer.symbols(window);
    heads.clear();
    heads.extend(symbols.clone().map(|symbol| symbol.as_symbol().head()));
    let parts = heads
        .iter()
        .zip(symbols)
        .map(|(head, symbol)| [head.as_slice(), symbol.payload]);
    anabranch_fec::encode(window, parts, buf);
    let bytes = (buf.len() - start) as u64 + u64::from(sizes.overhead_bytes);
    path.counters.repair_packets += 1;
    path.counters.repair_bytes += bytes;
    Some(PacketContent::Repair { frame, repair })
}

impl Media {
    /// Protects a frame that has just been queued to its end, if a policy is set.
    pub(super) fn protect(&mut self, ctx: &mut Context<'_>, id: FrameId) {
        let Some(mut sender) = self.fec_sender.take() else {
            return;
        };
        let Some(to_protect) = self.send_buffer.to_protect(id) else {
            self.fec_sender = Some(sender);
            return;
        };
        ctx.refresh_views(self);
        sender.media_shares.write_shares(ctx.now, ctx.views);
        let deadline = ctx.config.media.deadline;
        let session = self.session_view(ctx.paths, deadline);
        let policy = &mut sender.policy;
        let protection = policy.protect(ctx.now, &to_protect, &session, ctx.views);
        self.fec_sender = Some(sender);
        let wanted = protection.repair_count();
        let repair_bytes = self.send_buffer.repair_bytes(id, &protection);
        let is_key = to_protect.importance.is_key();
        let granted = self.budget.grant(ctx.now, wanted, repair_bytes, is_key);
        self.send_buffer.protect(id, &protection, granted);
    }
}
