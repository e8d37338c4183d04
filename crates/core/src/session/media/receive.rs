//! Received packets of media.

use anabranch_units::Instant;

use super::MediaSession;
use crate::media::{FrameId, Half, Outcome, Symbol, Taken};
use crate::path_view::PathId;
use crate::session::Event;
use crate::wire::{self, WireFrame};

impl MediaSession {
    pub(super) fn on_frame(&mut self, now: Instant, on: PathId, frame: WireFrame<'_>) {
        match frame {
            WireFrame::Fragment {
                header,
                captured_at_micros,
                symbol: number,
                half,
                payload,
            } => {
                let path = &mut self.paths[on.index()];
                path.counters.received_media_packets += 1;
                path.counters.received_media_bytes += payload.len() as u64;
                let symbol = Symbol {
                    header,
                    captured_at_micros,
                    payload,
                };
                match half {
                    None => self.on_whole_fragment(now, number, &symbol),
                    Some(half) => self.on_half(now, half, number, &symbol),
                }
            }
            WireFrame::Repair { head, bytes } => {
                self.on_symbol(now, |receiver| receiver.on_repair(head, bytes));
            }
            WireFrame::SymbolsRecovered(numbers) => self.on_symbols_recovered(numbers),
            WireFrame::FramesGivenUp { first, count } => {
                self.on_frames_given_up(now, first, count);
            }
            WireFrame::SendTime(micros) => self.on_send_time(now, micros),
            _ => self.on_foreign_frame(),
        }
    }

    fn on_whole_fragment(&mut self, now: Instant, number: Option<u32>, symbol: &Symbol<'_>) {
        self.on_fragment(now, symbol);
        if let Some(number) = number {
            self.on_symbol(now, |receiver| receiver.on_source(number, symbol));
        }
    }

    #[cold]
    fn on_half(&mut self, now: Instant, half: Half, number: Option<u32>, symbol: &Symbol<'_>) {
        let id = (symbol.header.frame, symbol.header.fragment);
        if let Some(whole) = self.content.halves.join(id, half, symbol.payload) {
            let payload = &whole;
            self.on_whole_fragment(now, number, &Symbol { payload, ..*symbol });
        }
    }

    fn on_send_time(&mut self, now: Instant, micros: u32) {
        let expected = self.content.peer_time.as_micros();
        let sent_at = Instant::from_micros(wire::expand(micros, expected));
        self.content.peer_time = sent_at;
        self.content.reassembly.on_send_time(now, sent_at);
    }

    fn on_frames_given_up(&mut self, now: Instant, first: FrameId, count: u64) {
        let frames = first.0..first.0.saturating_add(count);
        let outcomes = &mut self.content.scratch.outcomes;
        self.content.reassembly.give_up(now, frames, outcomes);
        self.report_outcomes();
    }

    /// Handles a fragment that has arrived, or been recovered.
    pub(super) fn on_fragment(&mut self, now: Instant, symbol: &Symbol<'_>) -> Taken {
        let Symbol {
            header,
            captured_at_micros,
            payload,
        } = *symbol;
        let expected = self.content.peer_time.as_micros();
        let captured_at = Instant::from_micros(wire::expand(captured_at_micros, expected));
        let outcomes = &mut self.content.scratch.outcomes;
        let reassembly = &mut self.content.reassembly;
        let taken = reassembly.insert(now, header, captured_at, payload, outcomes);
        match taken {
            Taken::New => self.content.peer_time = captured_at,
            Taken::Duplicate => self.counters.duplicate_fragments += 1,
            Taken::Late => self.counters.late_fragments += 1,
            Taken::Contradictory => self.counters.contradictory_fragments += 1,
        }
        let peak = self.content.reassembly.peak();
        self.counters.reassembly_peak_frames = peak.frames as u64;
        self.counters.reassembly_peak_bytes = peak.bytes as u64;
        if !self.content.scratch.outcomes.is_empty() {
            self.report_outcomes();
        }
        taken
    }

    fn report_outcomes(&mut self) {
        for outcome in self.content.scratch.outcomes.drain(..) {
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

    /// Hands out all frames that the receiver still holds.
    pub(super) fn finish_reassembly(&mut self) {
        let outcomes = &mut self.content.scratch.outcomes;
        self.content.reassembly.finish(outcomes);
        self.report_outcomes();
    }

    /// Hands out frames that have waited long enough.
    pub(super) fn deliver_due(&mut self, now: Instant) {
        let expires_at = self.content.reassembly.expires_at();
        if expires_at.is_some_and(|at| at <= now) {
            let outcomes = &mut self.content.scratch.outcomes;
            self.content.reassembly.deliver(now, outcomes);
            self.report_outcomes();
        }
    }
}
