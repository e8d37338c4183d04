//! Forward error correction: repairs sent along with the media, and their effect.

use std::collections::VecDeque;

use anabranch_units::Instant;

use super::MediaSession;
use crate::config::SourceLimits;
use crate::fec::{self, Decoder, FecPolicy, MediaShares, RepairPlacement};
use crate::media::{self, Bandwidth, FrameId, Symbol, Taken};
use crate::path_view::{PathId, PathView};
use crate::recovery::PacketContent;
use crate::scheduler::{Assignment, PacketKind, PacketView, fastest};
use crate::wire::{self, MAX_RECOVERED, RecoveredSymbols, RepairHead};

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
}

impl MediaSession {
    pub(super) fn on_source_symbol(&mut self, now: Instant, low_bits: u32, symbol: &Symbol<'_>) {
        let mut receiver = self.content.fec_receiver.take().unwrap_or_default();
        let number = wire::expand(low_bits, receiver.last_symbol);
        receiver.last_symbol = number;
        receiver.last_frame = symbol.header.frame;
        receiver
            .decoder
            .on_source(number, [&symbol.head(), symbol.payload]);
        self.take_recovered(now, &mut receiver);
        self.content.fec_receiver = Some(receiver);
    }

    pub(super) fn on_repair_symbol(&mut self, now: Instant, head: RepairHead, bytes: &[u8]) {
        let mut receiver = self.content.fec_receiver.take().unwrap_or_default();
        let header = head.expand(receiver.last_symbol);
        receiver.decoder.on_repair(header, bytes);
        self.take_recovered(now, &mut receiver);
        self.content.fec_receiver = Some(receiver);
    }

    fn take_recovered(&mut self, now: Instant, receiver: &mut Receiver) {
        while let Some((number, bytes)) = receiver.decoder.next_recovered() {
            let Some(symbol) = Symbol::read(bytes, receiver.last_frame) else {
                self.counters.malformed_datagrams += 1;
                continue;
            };
            if self.on_fragment(now, &symbol) == Taken::New {
                self.counters.recovered_fragments += 1;
            }
            receiver.recovered.push_back((number, REPETITIONS));
            if receiver.recovered.len() > MAX_RECOVERED {
                receiver.recovered.pop_front();
            }
        }
    }

    /// Reports recovered symbols, which the peer need not send again.
    pub(super) fn write_symbols_recovered(&mut self, buf: &mut Vec<u8>) {
        let Some(receiver) = &mut self.content.fec_receiver else {
            return;
        };
        let recovered = &mut receiver.recovered;
        if recovered.is_empty() {
            return;
        }
        wire::write_symbols_recovered(recovered.iter().map(|(number, _)| *number), buf);
        recovered.retain_mut(|(_, repetitions)| {
            *repetitions -= 1;
            *repetitions > 0
        });
    }

    pub(super) fn on_symbols_recovered(&mut self, numbers: RecoveredSymbols<'_>) {
        for low_bits in numbers.iter() {
            let symbol = wire::expand(low_bits, self.content.send_buffer.next_symbol());
            self.content.send_buffer.on_recovered(symbol);
            self.counters.frames_acked = self.content.send_buffer.acked_frame_count();
        }
    }

    /// Protects a frame that has just been queued to its end, if a policy is set.
    pub(super) fn protect(&mut self, now: Instant, id: FrameId) {
        let Some(mut sender) = self.content.fec_sender.take() else {
            return;
        };
        let Some(to_protect) = self.content.send_buffer.to_protect(id) else {
            self.content.fec_sender = Some(sender);
            return;
        };
        self.refresh_views(now);
        sender.media_shares.write_shares(now, &mut self.views);
        let session = self.session_view();
        let policy = &mut sender.policy;
        let protection = policy.protect(now, &to_protect, &session, &self.views);
        self.content.fec_sender = Some(sender);
        let wanted = protection.repair_count();
        let repair_bytes = self.content.send_buffer.repair_bytes(id, &protection);
        let is_key = to_protect.importance.is_key();
        let granted = self.content.budget.grant(now, wanted, repair_bytes, is_key);
        self.content.send_buffer.protect(id, &protection, granted);
    }

    /// Records the paths of symbols, and adds bound bytes to the views.
    pub(super) fn record_symbols(&mut self, views: &mut [PathView], assignments: &[Assignment]) {
        let Some(sender) = self.content.fec_sender.as_deref_mut() else {
            return;
        };
        let waiting = self.content.send_buffer.waiting();
        for assignment in assignments {
            let packet = &waiting[assignment.index];
            for id in assignment.paths.iter() {
                views[id.index()].queued_bytes += u64::from(packet.bytes);
            }
            if packet.kind() == PacketKind::Source
                && let Some(path) = assignment.paths.iter().next()
                && let Some(symbol) = self
                    .content
                    .send_buffer
                    .symbol(packet.frame, packet.fragment)
            {
                sender.repair_placement.on_symbol(symbol, path);
            }
        }
    }

    /// Binds repairs to paths that lose little and do not carry the symbols they protect; none
    /// before its frame.
    pub(super) fn bind_repairs(&mut self, now: Instant, views: &mut [PathView]) {
        let Some(sender) = self.content.fec_sender.as_deref_mut() else {
            return;
        };
        let mut repairs = self.content.send_buffer.take_waiting_repairs();
        let held = self.content.send_buffer.waiting();
        repairs.retain(|packet| {
            let is_source = |other: &PacketView| other.kind() == PacketKind::Source;
            let is_held = |other: &PacketView| is_source(other) && other.frame == packet.frame;
            if held.iter().any(is_held) {
                return true;
            }
            let (frame, repair) = (packet.frame, packet.fragment);
            let Some(window) = self.content.send_buffer.repair_window(frame, repair) else {
                return false;
            };
            let elsewhere = sender
                .repair_placement
                .path_for(now, packet, &window, views);
            let Some(path) = elsewhere.or_else(|| fastest(packet, views)) else {
                return true;
            };
            sender.repair_placement.on_repair(&window, path);
            views[path.index()].queued_bytes += u64::from(packet.bytes);
            self.paths[path.index()].bind(now, *packet, self.content.held_since);
            false
        });
        self.content.send_buffer.put_back_repairs(repairs);
    }

    /// Records the paths' bandwidth, which bounds the repairs. Returns the cost of repairs and
    /// retransmissions as a share of the media.
    pub(super) fn record_bandwidth(&mut self, bandwidth: Bandwidth, backlog_bytes: u64) -> f64 {
        if self.content.fec_sender.is_none() {
            return self.content.budget.overhead();
        }
        // A source that does not follow may fill the paths, one that does leaves a margin.
        let media = &self.config.media;
        let rate = match media.source {
            SourceLimits::Fixed => {
                let payload_bytes = f64::from(self.config.fragment_bytes);
                bandwidth
                    .total
                    .mul_f64(payload_bytes / f64::from(self.max_packet_bytes))
            }
            SourceLimits::Adaptive { .. } => media::target_total(bandwidth, backlog_bytes),
        };
        self.content.budget.set_rate(rate);
        self.content.budget.overhead()
    }

    /// Writes a repair, if it is still of use. Apart, as most packets are none.
    #[inline(never)]
    pub(super) fn write_repair(
        &mut self,
        id: PathId,
        packet: &PacketView,
        buf: &mut Vec<u8>,
    ) -> Option<PacketContent> {
        let (frame, repair) = (packet.frame, packet.fragment);
        let window = self.content.send_buffer.take_repair(frame, repair)?;
        let symbols = self.content.send_buffer.symbols(window);
        let longest_bytes = symbols.map(|symbol| symbol.payload.len()).max();
        if self.is_repair_too_large(id, longest_bytes.unwrap_or(0)) {
            self.content.send_buffer.on_repair_settled(frame, repair);
            return None;
        }
        let start = buf.len();
        let path = &mut self.paths[id.index()];
        path.write_tracked_header(buf);
        wire::write_repair(window, buf);
        let symbols = self.content.send_buffer.symbols(window);
        let heads = &mut self.content.scratch.symbol_heads;
        heads.clear();
        heads.extend(symbols.clone().map(|symbol| symbol.as_symbol().head()));
        let parts = heads
            .iter()
            .zip(symbols)
            .map(|(head, symbol)| [head.as_slice(), symbol.payload]);
        fec::encode(window, parts, buf);
        let bytes = (buf.len() - start) as u64 + u64::from(self.config.overhead_bytes);
        path.counters.repair_packets += 1;
        path.counters.repair_bytes += bytes;
        Some(PacketContent::Repair { frame, repair })
    }
}
