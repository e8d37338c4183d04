//! Received packets of media.

use anabranch_units::Instant;

use super::{Media, fec};
use crate::config::Config;
use crate::media::{FrameId, Outcome, Reassembly, Symbol, Taken};
use crate::path::Path;
use crate::session::Event;
use crate::session::output::Output;
use crate::wire::{self, WireFrame};

/// Receive side of a session: the peer's media.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) reassembly: Reassembly,
    /// Latest known instant of the peer's clock, by which truncated times are expanded.
    peer_time: Instant,
    /// Receive side of the peer's forward error correction.
    fec: Option<Box<fec::Receiver>>,
    /// Used again and again, so that the steady state allocates nothing.
    outcomes: Vec<Outcome>,
}

impl Output {
    fn report(&mut self, outcomes: &mut Vec<Outcome>) {
        for outcome in outcomes.drain(..) {
            self.events.push_back(match outcome {
                Outcome::Part(part) => Event::FramePart(part),
                Outcome::Whole(frame) => {
                    self.counters.frames_received += 1;
                    self.counters.media_bytes_received += frame.size_bytes as u64;
                    Event::FrameReceived(frame)
                }
                Outcome::Dropped(id, reason) => {
                    self.counters.frames_dropped += 1;
                    Event::FrameDropped { id, reason }
                }
            });
        }
    }
}

impl Reception {
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        Reception {
            reassembly: Reassembly::new(&config.media, config.laboratory.keeps_bytes),
            peer_time: now,
            fec: None,
            outcomes: Vec::new(),
        }
    }

    pub(super) fn reassembly(&self) -> &Reassembly {
        &self.reassembly
    }

    /// Handles a fragment. `number` is its symbol's, if the peer sends repairs.
    #[inline]
    fn on_fragment(
        &mut self,
        now: Instant,
        number: Option<u32>,
        symbol: &Symbol<'_>,
        output: &mut Output,
    ) {
        self.insert(now, symbol, output);
        if let Some(number) = number {
            let mut receiver = self.fec.take().unwrap_or_default();
            receiver.on_source(number, symbol);
            self.take_recovered(now, receiver, output);
        }
    }

    /// Handles a repair symbol.
    fn on_repair(
        &mut self,
        now: Instant,
        head: wire::RepairHead,
        bytes: &[u8],
        output: &mut Output,
    ) {
        let mut receiver = self.fec.take().unwrap_or_default();
        receiver.on_repair(head, bytes);
        self.take_recovered(now, receiver, output);
    }

    /// Inserts the fragments that were recovered.
    fn take_recovered(
        &mut self,
        now: Instant,
        mut receiver: Box<fec::Receiver>,
        output: &mut Output,
    ) {
        while let Some((number, recovered)) = receiver.next_recovered() {
            let Some(symbol) = recovered else {
                output.counters.malformed_datagrams += 1;
                continue;
            };
            if self.insert(now, &symbol, output) == Taken::New {
                output.counters.recovered_fragments += 1;
            }
            receiver.on_recovered(number);
        }
        self.fec = Some(receiver);
    }

    /// Reports recovered symbols to the peer.
    pub(super) fn write_symbols_recovered(&mut self, buf: &mut Vec<u8>) {
        if let Some(receiver) = &mut self.fec {
            receiver.write_symbols_recovered(buf);
        }
    }

    fn on_send_time(&mut self, now: Instant, micros: u32) {
        let expected = self.peer_time.as_micros();
        let sent_at = Instant::from_micros(wire::expand(micros, expected));
        self.peer_time = sent_at;
        self.reassembly.on_send_time(now, sent_at);
    }

    fn on_frames_given_up(
        &mut self,
        now: Instant,
        first: FrameId,
        count: u64,
        output: &mut Output,
    ) {
        let frames = first.0..first.0.saturating_add(count);
        self.reassembly.give_up(now, frames, &mut self.outcomes);
        output.report(&mut self.outcomes);
    }

    /// Inserts a fragment that has arrived, or been recovered.
    fn insert(&mut self, now: Instant, symbol: &Symbol<'_>, output: &mut Output) -> Taken {
        let Symbol {
            header,
            captured_at_micros,
            payload,
        } = *symbol;
        let expected = self.peer_time.as_micros();
        let captured_at = Instant::from_micros(wire::expand(captured_at_micros, expected));
        let (reassembly, outcomes) = (&mut self.reassembly, &mut self.outcomes);
        let taken = reassembly.insert(now, header, captured_at, payload, outcomes);
        let counters = &mut output.counters;
        match taken {
            Taken::New => self.peer_time = captured_at,
            Taken::Duplicate => counters.duplicate_fragments += 1,
            Taken::Late => counters.late_fragments += 1,
            Taken::Contradictory => counters.contradictory_fragments += 1,
        }
        let peak = self.reassembly.peak();
        counters.reassembly_peak_frames = peak.frames as u64;
        counters.reassembly_peak_bytes = peak.bytes as u64;
        if !self.outcomes.is_empty() {
            output.report(&mut self.outcomes);
        }
        taken
    }

    /// Hands out all frames that it still holds.
    pub(super) fn finish(&mut self, output: &mut Output) {
        self.reassembly.finish(&mut self.outcomes);
        output.report(&mut self.outcomes);
    }

    /// Hands out frames that have waited long enough.
    pub(super) fn deliver_due(&mut self, now: Instant, output: &mut Output) {
        let expires_at = self.reassembly.expires_at();
        if expires_at.is_some_and(|at| at <= now) {
            self.reassembly.deliver(now, &mut self.outcomes);
            output.report(&mut self.outcomes);
        }
    }
}

impl Media {
    /// Handles a wire frame of media that has arrived on this path.
    pub(super) fn receive_frame(
        &mut self,
        now: Instant,
        path: &mut Path,
        frame: WireFrame<'_>,
        output: &mut Output,
    ) {
        let reception = &mut self.reception;
        match frame {
            WireFrame::Fragment {
                header,
                captured_at_micros,
                symbol: number,
                payload,
            } => {
                path.counters.received_media_packets += 1;
                path.counters.received_media_bytes += payload.len() as u64;
                let symbol = Symbol {
                    header,
                    captured_at_micros,
                    payload,
                };
                reception.on_fragment(now, number, &symbol, output);
            }
            WireFrame::Repair { head, bytes } => reception.on_repair(now, head, bytes, output),
            WireFrame::SymbolsRecovered(numbers) => {
                let send_buffer = &mut self.send_buffer;
                for low_bits in numbers.iter() {
                    let symbol = wire::expand(low_bits, send_buffer.next_symbol());
                    send_buffer.on_recovered(symbol);
                    output.counters.frames_acked = send_buffer.acked_frame_count();
                }
            }
            WireFrame::FramesGivenUp { first, count } => {
                reception.on_frames_given_up(now, first, count, output);
            }
            WireFrame::SendTime(micros) => reception.on_send_time(now, micros),
            _ => output.counters.malformed_datagrams += 1,
        }
    }
}
