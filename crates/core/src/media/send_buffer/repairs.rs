//! The sender's repairs, the symbols they cover, and the lost fragments that wait for them.

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_fec::{MAX_ROWS, MAX_WINDOW, RepairHeader};
use anabranch_units::Instant;

use super::{OutgoingFragment, OutgoingFrame, SendBuffer, State};
use crate::copies::Outlook;
use crate::fec::{FrameToProtect, Protection};
use crate::fragment::{FragmentId, FrameId};
use crate::path_view::PathSet;
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;

/// The most repairs that are remembered until they are settled.
const MAX_REPAIRS: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Repairs {
    next_symbol: u64,
    next_row: u8,
    /// Repairs that wait for a path, oldest first.
    pub(super) unbound: Vec<PacketView>,
    /// Repairs that wait or are in flight, oldest first.
    unsettled: VecDeque<Repair>,
    /// Lost fragments that wait for them, each until then at the latest.
    pub(super) waiting: Vec<(FragmentId, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Repair {
    frame: FrameId,
    /// Counts the frame's repairs.
    index: u16,
    /// The symbols that it covers: from the first on, and before the end.
    first: u64,
    end: u64,
    row: u8,
}

impl OutgoingFrame {
    /// Returns the number behind its last symbol.
    fn end_symbol(&self) -> u64 {
        self.first_symbol + u64::from(self.symbol_count)
    }
}

impl Repairs {
    /// Reserves the numbers of `count` new symbols.
    pub(super) fn number(&mut self, count: u16) {
        self.next_symbol += u64::from(count);
    }

    pub(super) fn forget_frame(&mut self, id: FrameId) {
        self.unbound.retain(|packet| packet.frame != id);
        self.unsettled.retain(|repair| repair.frame != id);
    }

    /// Puts one to those that wait for a path.
    pub(super) fn take_back(&mut self, packet: PacketView) {
        let place = self.unbound.partition_point(|other| {
            (other.frame, other.fragment) <= (packet.frame, packet.fragment)
        });
        self.unbound.insert(place, packet);
    }

    /// Returns the bytes on the wire of repairs that wait for a path.
    pub(super) fn unbound_bytes(&self) -> u64 {
        let bytes = self.unbound.iter().map(|packet| u64::from(packet.bytes));
        bytes.sum()
    }

    pub(super) fn has_unbound(&self) -> bool {
        !self.unbound.is_empty()
    }

    fn is_covered(&self, symbol: u64) -> bool {
        let mut repairs = self.unsettled.iter();
        repairs.any(|repair| (repair.first..repair.end).contains(&symbol))
    }

    fn position(&self, frame: FrameId, index: u16) -> Option<usize> {
        let mut repairs = self.unsettled.iter();
        repairs.position(|repair| repair.frame == frame && repair.index == index)
    }

    fn push(&mut self, frame: FrameId, index: u16, first: u64, end: u64) {
        if self.unsettled.len() == MAX_REPAIRS {
            self.unsettled.pop_front();
        }
        let row = self.next_row;
        self.next_row = (row + 1) % MAX_ROWS;
        self.unsettled.push_back(Repair {
            frame,
            index,
            first,
            end,
            row,
        });
    }
}

impl SendBuffer {
    /// Returns the number of the next symbol.
    pub(crate) fn next_symbol(&self) -> u64 {
        self.repairs
            .as_ref()
            .map_or(0, |repairs| repairs.next_symbol)
    }

    /// Describes a frame that is kept, for the choice of its repairs.
    pub(crate) fn to_protect(&self, id: FrameId) -> Option<FrameToProtect> {
        let frame = self.frame(id)?;
        Some(FrameToProtect {
            id,
            importance: frame.importance,
            symbol_count: frame.symbol_count,
            bytes: frame.bytes.len() as u32,
            deadline: self.deadline_of(frame),
        })
    }

    /// Returns the symbol number of a fragment, if it has one and its frame is still kept.
    pub(crate) fn symbol(&self, id: FrameId, fragment: u16) -> Option<u64> {
        self.repairs.as_ref()?;
        let frame = self.frame(id)?;
        (fragment < frame.symbol_count).then(|| frame.first_symbol + u64::from(fragment))
    }

    /// Takes the repairs out that wait for a path.
    pub(crate) fn take_waiting_repairs(&mut self) -> Vec<PacketView> {
        let repairs = self.repairs.as_mut();
        repairs.map_or(Vec::new(), |repairs| core::mem::take(&mut repairs.unbound))
    }

    /// Puts back the repairs that still wait for a path.
    pub(crate) fn put_back_repairs(&mut self, unbound: Vec<PacketView>) {
        if let Some(repairs) = &mut self.repairs {
            repairs.unbound = unbound;
        }
    }

    /// Returns the symbols that a repair covers, if it is not settled.
    pub(crate) fn repair_window(&self, frame: FrameId, index: u16) -> Option<Range<u64>> {
        let repairs = self.repairs.as_ref()?;
        let repair = &repairs.unsettled[repairs.position(frame, index)?];
        Some(repair.first..repair.end)
    }

    /// Returns the payload size of each repair that `protection` asks for.
    pub(crate) fn repair_bytes(&self, id: FrameId, protection: &Protection) -> u64 {
        let Some(frame) = self.frame(id) else {
            return 0;
        };
        let end = frame.end_symbol();
        let symbols = protection.window.map_or(0, |window| window.symbols);
        let first = end.saturating_sub(u64::from(symbols));
        let in_window = self
            .frames
            .iter()
            .rev()
            .take_while(|frame| frame.end_symbol() > first);
        let bytes = in_window.map(OutgoingFrame::longest_bytes).max();
        bytes.unwrap_or(0).max(frame.longest_bytes()) as u64
    }

    /// Queues repairs behind the newest frame, at most `at_most`.
    pub(crate) fn protect(&mut self, id: FrameId, protection: &Protection, at_most: u16) {
        let Some(frame) = self.frame(id) else {
            return;
        };
        let first = frame.first_symbol;
        let count = u64::from(frame.symbol_count);
        // A frame of more symbols than fit a window is several blocks.
        let block_count = count.div_ceil(u64::from(MAX_WINDOW));
        let frame_repairs = protection.frame_repairs.min(at_most);
        for index in 0..frame_repairs {
            let block = u64::from(index) % block_count;
            let start = first + block * count / block_count;
            let end = first + (block + 1) * count / block_count;
            self.queue_repair(id, index, start, end);
        }
        if let Some(window) = protection.window {
            let end = first + count;
            let start = end.saturating_sub(u64::from(window.symbols.min(MAX_WINDOW)));
            let repairs = window.repairs.min(at_most - frame_repairs);
            for index in frame_repairs..frame_repairs + repairs {
                self.queue_repair(id, index, start, end);
            }
        }
    }

    /// Queues one repair over the symbols from `first` on and before `end` whose frames are still
    /// kept.
    fn queue_repair(&mut self, id: FrameId, index: u16, first: u64, end: u64) {
        let oldest = self.frames.front().map_or(end, |frame| frame.first_symbol);
        let first = first.max(oldest);
        let (Some(newest), true) = (self.frame(id), first < end) else {
            return;
        };
        let (importance, fragment_count) = (newest.importance, newest.symbol_count);
        let deadline = self.deadline_of(newest);
        let mut largest_bytes = 0;
        let from = self.frame_of(first);
        for frame in self.frames.range_mut(from..) {
            if frame.first_symbol >= end {
                break;
            }
            frame.is_protected = true;
            largest_bytes = largest_bytes.max(frame.longest_bytes());
        }
        let Some(repairs) = &mut self.repairs else {
            return;
        };
        repairs.push(id, index, first, end);
        repairs.take_back(PacketView {
            frame: id,
            fragment: index,
            fragment_count,
            reason: SendReason::Repair,
            importance,
            bytes: largest_bytes as u32 + self.packet_overhead_bytes,
            deadline: Some(deadline),
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        });
    }

    /// Returns the header of a repair that may leave now. Its window is trimmed at both ends by
    /// symbols that have arrived or are given up. If nothing is left, it is forgotten, and the
    /// result is `None`.
    pub(crate) fn take_repair(&mut self, frame: FrameId, index: u16) -> Option<RepairHeader> {
        let position = self.repairs.as_ref()?.position(frame, index)?;
        let mut repair = self.repairs.as_ref()?.unsettled[position];
        while repair.first < repair.end && !self.is_wanted(repair.first) {
            repair.first += 1;
        }
        while repair.first < repair.end && !self.is_wanted(repair.end - 1) {
            repair.end -= 1;
        }
        let repairs = self.repairs.as_mut()?;
        if repair.first == repair.end {
            repairs.unsettled.remove(position);
            return None;
        }
        repairs.unsettled[position] = repair;
        Some(RepairHeader {
            first: repair.first,
            count: (repair.end - repair.first) as u16,
            row: repair.row,
        })
    }

    /// Returns the symbols of a window from [`SendBuffer::take_repair`].
    pub(crate) fn symbols(
        &self,
        window: RepairHeader,
    ) -> impl Iterator<Item = OutgoingFragment<'_>> + Clone {
        let end = window.first + u64::from(window.count);
        (window.first..end).map(|symbol| {
            let index = self.frame_of(symbol);
            let frame = &self.frames[index];
            let id = FrameId(self.first.0 + index as u64);
            let fragment = &frame.fragments[(symbol - frame.first_symbol) as usize];
            OutgoingFragment {
                symbol: Some(symbol),
                ..frame.part(id, fragment.cut_bytes())
            }
        })
    }

    /// Forgets a repair that has arrived, or is lost.
    pub(crate) fn on_repair_settled(&mut self, frame: FrameId, index: u16) {
        if let Some(repairs) = &mut self.repairs
            && let Some(position) = repairs.position(frame, index)
        {
            repairs.unsettled.remove(position);
        }
    }

    /// Marks a symbol that the receiver has recovered: it need not be resent. Returns whether that
    /// is new.
    pub(crate) fn on_recovered(&mut self, symbol: u64) -> bool {
        let is_kept = self
            .frames
            .front()
            .is_some_and(|frame| frame.first_symbol <= symbol);
        if !is_kept || symbol >= self.next_symbol() {
            return false;
        }
        let index = self.frame_of(symbol);
        let frame = FrameId(self.first.0 + index as u64);
        let pieces = self.frames[index].pieces((symbol - self.frames[index].first_symbol) as u16);
        let mut is_new = false;
        for fragment in pieces {
            is_new |= self.on_arrived(FragmentId { frame, fragment }, PathSet::EMPTY);
        }
        is_new
    }

    /// Lets a lost fragment wait while repairs that cover it are under way. It waits while another
    /// try still makes the deadline, but no longer than the report about a packet sent now takes.
    pub(super) fn wait_for_repairs(
        &mut self,
        id: FragmentId,
        outlook: &Outlook,
        due_at: Instant,
    ) -> bool {
        let Some(symbol) = self.symbol(id.frame, id.fragment) else {
            return false;
        };
        let Some(repairs) = &mut self.repairs else {
            return false;
        };
        let arrives_at = outlook.now + outlook.arrives_after + outlook.delay_margin;
        let latest_at = outlook.now + due_at.saturating_since(arrives_at);
        let until = latest_at.min(outlook.now + outlook.loss_reported_after);
        let waits = until > outlook.now && repairs.is_covered(symbol);
        if waits {
            repairs.waiting.push((id, until));
            self.set_state(id, State::Waiting);
        }
        waits
    }

    /// Returns when [`SendBuffer::next_unrepaired`] surely returns a fragment.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        let waiting = &self.repairs.as_ref()?.waiting;
        waiting.iter().map(|(_, until)| *until).min()
    }

    /// Returns a lost fragment that has waited in vain, or long enough, to be judged again.
    pub(crate) fn next_unrepaired(&mut self, now: Instant) -> Option<FragmentId> {
        loop {
            let repairs = self.repairs.as_ref()?;
            let position = repairs.waiting.iter().position(|(id, until)| {
                let symbol = self.symbol(id.frame, id.fragment);
                *until <= now || !symbol.is_some_and(|symbol| repairs.is_covered(symbol))
            })?;
            let (id, _) = self.repairs.as_mut()?.waiting.remove(position);
            if self.frame(id.frame).is_some() {
                self.set_state(id, State::Sent);
                return Some(id);
            }
        }
    }

    /// Returns whether the symbol's frame is kept, and the receiver still lacks the symbol.
    fn is_wanted(&self, symbol: u64) -> bool {
        if self
            .frames
            .front()
            .is_none_or(|frame| frame.first_symbol > symbol)
        {
            return false;
        }
        let frame = &self.frames[self.frame_of(symbol)];
        let mut pieces = frame.pieces((symbol - frame.first_symbol) as u16);
        !frame.is_given_up
            && pieces.any(|piece| frame.fragments[usize::from(piece)].state != State::Arrived)
    }

    /// Returns the index of the frame of a symbol. There must be one.
    fn frame_of(&self, symbol: u64) -> usize {
        self.frames
            .partition_point(|frame| frame.first_symbol <= symbol)
            - 1
    }
}
