//! The receiver's frames, from their first fragment until they are whole or given up.

mod frame_bytes;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod ranges;

use std::collections::{BTreeSet, VecDeque};

use anabranch_units::{Duration, Importance, Instant, MemoryShare};
use frame_bytes::FrameBytes;
use ranges::Ranges;

use super::peer_clock::{ClockOffset, PeerClock};
use crate::config::{HandOut, MediaConfig};

use super::{DropReason, FragmentHeader, FrameId, FramePart, MAX_FRAME_BYTES, ReceivedFrame};

/// Maximum number of open frames; a frame beyond that pushes the oldest out. Frames that are
/// datagrams of 1,380 bytes need one for each millisecond that paths differ by and each 11 Mbit/s:
/// these are 100 ms at 1.8 Gbit/s. A larger number would take long to pass over one by one.
const MAX_OPEN_FRAMES: usize = 16_384;
/// Maximum memory of all frames, with the state of their fragments and with complete frames that
/// wait for their turn: ten seconds of 50 Mbit/s. Beyond that the oldest goes, even if it is a key
/// frame.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Number of used-up frames that are kept for reuse.
const MAX_SPARE_FRAMES: usize = 8;

/// Result of inserting a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is new.
    New,
    /// It had arrived already.
    Duplicate,
    /// Its frame has been given up, or was delivered long ago.
    Late,
    /// It contradicts earlier fragments of its frame, or its frame is too large.
    Contradictory,
}

/// Output of the buffer, in the order of frames.
#[derive(Debug)]
pub(crate) enum Outcome {
    Part(FramePart),
    Whole(ReceivedFrame),
    Dropped(FrameId, DropReason),
}

#[derive(Debug)]
enum Slot {
    /// A later frame has been seen, this one has not.
    Missing {
        noticed_at: Instant,
    },
    Open(Box<IncomingFrame>),
    Whole(ReceivedFrame),
    /// It was handed out before frames that are still missing.
    HandedOut,
    /// The sender has given it up.
    GivenUp(DropReason),
}

#[derive(Debug, Default)]
struct IncomingFrame {
    importance: Importance,
    captured_at: Instant,
    /// Length of the frame, once the fragment that ends it has arrived.
    length: Option<u32>,
    arrived: Ranges,
    /// The bytes that have arrived, if they are kept.
    bytes: FrameBytes,
    keeps_bytes: bool,
    /// Bytes that were handed out as parts.
    parted_bytes: usize,
}

/// Frames of which something has arrived.
#[derive(Debug)]
pub(crate) struct Reassembly {
    slots: VecDeque<Slot>,
    first: FrameId,
    /// The frames that are open or whole, and those that are whole: to find the next one without a
    /// walk over all slots.
    known: BTreeSet<FrameId>,
    whole: BTreeSet<FrameId>,
    /// Number of key frames among `whole`.
    whole_key_count: usize,
    /// Which of the frames before the first were whole, the last one in the lowest bit: what
    /// comes of them now is a copy, and not late.
    was_whole: u64,
    open_bytes: usize,
    /// Bytes of complete frames that wait for those before them.
    whole_bytes: usize,
    /// Memory of open frames beside their bytes.
    overhead_bytes: usize,
    peak: Peak,
    /// Time after which an incomplete frame stops holding up others, counted from its capture.
    pub(crate) wait: Duration,
    clock: PeerClock,
    keeps_bytes: bool,
    order: HandOut,
    /// Part of the memory of all sessions.
    memory: MemoryShare,
    /// Used-up frames, for the next ones.
    #[allow(clippy::vec_box, reason = "the boxes are used again")]
    spare: Vec<Box<IncomingFrame>>,
}

/// The most that was held at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

impl Reassembly {
    pub(crate) fn new(media: &MediaConfig, keeps_bytes: bool) -> Self {
        Reassembly {
            memory: media.memory.share(),
            slots: VecDeque::new(),
            first: FrameId(0),
            known: BTreeSet::new(),
            whole: BTreeSet::new(),
            whole_key_count: 0,
            was_whole: 0,
            open_bytes: 0,
            whole_bytes: 0,
            overhead_bytes: 0,
            peak: Peak::default(),
            wait: media.reassembly_wait,
            clock: PeerClock::new(),
            keeps_bytes,
            order: match media.hand_out {
                HandOut::PartsInOrder if !keeps_bytes => HandOut::InOrder,
                order => order,
            },
            spare: Vec::new(),
        }
    }

    /// Returns the maximum held at a time, the newest fragment included.
    pub(crate) fn peak(&self) -> Peak {
        self.peak
    }

    /// Returns the first frame that may still be handed out or given up. All before it are settled.
    pub(crate) fn first_unsettled(&self) -> FrameId {
        self.first
    }

    /// Returns whether a frame has begun to arrive and is not whole.
    pub(crate) fn has_incomplete(&self) -> bool {
        self.open_bytes > 0
    }

    /// Takes the departure of a datagram by the peer's clock.
    pub(crate) fn on_send_time(&mut self, now: Instant, sent_at: Instant) {
        self.clock.on_send_time(now, sent_at);
    }

    /// Returns when a frame has used up its time.
    fn due_at(&self, captured_at: Instant) -> Instant {
        // In this order: the receiver's clock may begin between the two.
        self.clock.offset().to_local(captured_at + self.wait)
    }

    /// Takes a fragment in.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        header: FragmentHeader,
        captured_at: Instant,
        payload: &[u8],
        out: &mut Vec<Outcome>,
    ) -> Taken {
        let Some(ahead) = header.frame.0.checked_sub(self.first.0) else {
            return self.taken_before(header.frame);
        };
        if header.offset as usize + payload.len() > MAX_FRAME_BYTES {
            return Taken::Contradictory;
        }
        if ahead >= MAX_OPEN_FRAMES as u64 {
            let skipped = ahead - (MAX_OPEN_FRAMES as u64 - 1);
            self.push_out(skipped, out);
        }
        let index = (header.frame.0 - self.first.0) as usize;
        while self.slots.len() <= index {
            self.slots.push_back(Slot::Missing { noticed_at: now });
        }
        self.clock.on_fragment(now, captured_at);
        let slot = &mut self.slots[index];
        if let Slot::GivenUp(_) = slot {
            return Taken::Late;
        }
        if let Slot::Missing { .. } = slot {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.begin(header, captured_at, self.keeps_bytes);
            self.overhead_bytes += frame.overhead_bytes();
            self.known.insert(header.frame);
            *slot = Slot::Open(frame);
        }
        let Slot::Open(frame) = slot else {
            return Taken::Duplicate;
        };
        let before = frame.held_bytes();
        self.overhead_bytes -= frame.overhead_bytes();
        let taken = frame.insert(header, payload);
        self.overhead_bytes += frame.overhead_bytes();
        self.open_bytes += frame.held_bytes() - before;
        if frame.is_whole() {
            self.complete(now, index, out);
        }
        self.peak.frames = self.peak.frames.max(self.slots.len());
        self.peak.bytes = self.peak.bytes.max(self.open_bytes + self.whole_bytes);
        self.memory.set(self.taken_bytes());
        while self.memory.bytes() > MAX_HELD_BYTES || self.memory.is_exceeded() {
            self.push_out(1, out);
        }
        self.deliver(now, out);
        taken
    }

    /// Closes a frame that has become whole, and hands it out unless it waits for its turn.
    fn complete(&mut self, now: Instant, index: usize, out: &mut Vec<Outcome>) {
        let slot = &mut self.slots[index];
        let Slot::Open(mut frame) = core::mem::replace(slot, Slot::HandedOut) else {
            return;
        };
        let id = FrameId(self.first.0 + index as u64);
        self.open_bytes -= frame.held_bytes();
        self.overhead_bytes -= frame.overhead_bytes();
        let whole = ReceivedFrame {
            id,
            importance: frame.importance,
            captured_at: frame.captured_at,
            size_bytes: frame.held_bytes(),
            bytes: frame.bytes.take(),
            completed_at: now,
            offset: self.clock.offset(),
            parted_bytes: frame.parted_bytes,
        };
        if self.spare.len() < MAX_SPARE_FRAMES {
            self.spare.push(frame);
        }
        match self.order {
            HandOut::WhenWhole => {
                self.known.remove(&id);
                out.push(Outcome::Whole(whole));
            }
            HandOut::InOrder | HandOut::PartsInOrder => {
                self.whole_bytes += whole.size_bytes;
                self.whole.insert(id);
                self.whole_key_count += usize::from(whole.importance.is_key());
                *slot = Slot::Whole(whole);
            }
        }
    }

    /// Returns the memory of all frames.
    fn taken_bytes(&self) -> usize {
        let slot_bytes = self.slots.len() * size_of::<Slot>();
        self.open_bytes + self.whole_bytes + self.overhead_bytes + slot_bytes
    }

    /// Marks frames that the sender will not complete, so that nobody waits for them any more.
    pub(crate) fn give_up(
        &mut self,
        now: Instant,
        frames: core::ops::Range<u64>,
        out: &mut Vec<Outcome>,
    ) {
        let begin = frames.start.max(self.first.0);
        if frames.end > self.first.0 + MAX_OPEN_FRAMES as u64 {
            return;
        }
        for frame_id in begin..frames.end {
            let index = (frame_id - self.first.0) as usize;
            while self.slots.len() <= index {
                self.slots.push_back(Slot::Missing { noticed_at: now });
            }
            let reason = match &self.slots[index] {
                Slot::Open(frame) => {
                    self.open_bytes -= frame.held_bytes();
                    self.overhead_bytes -= frame.overhead_bytes();
                    self.known.remove(&FrameId(frame_id));
                    DropReason::Incomplete
                }
                Slot::Missing { .. } => DropReason::Missing,
                Slot::Whole(_) | Slot::HandedOut | Slot::GivenUp(_) => continue,
            };
            self.slots[index] = Slot::GivenUp(reason);
        }
        self.deliver(now, out);
    }

    /// Returns when [`Reassembly::deliver`] may have a frame to give up.
    ///
    /// A missing frame holds up later frames no longer than until these are due themselves. A key
    /// frame, which they need, is waited for until then, unless another one is whole; any other
    /// frame only until its own time is over.
    #[inline]
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        match self.slots.front()? {
            Slot::Open(frame) if !frame.importance.is_key() => Some(self.due_at(frame.captured_at)),
            slot => self.expires_at_with(slot),
        }
    }

    /// Returns the same if the first frame is a key frame, missing or over. Apart, as few are.
    #[inline(never)]
    fn expires_at_with(&self, first: &Slot) -> Option<Instant> {
        match first {
            Slot::Missing { noticed_at } => {
                let latest = *noticed_at + self.wait;
                Some(self.next_due_at(false).unwrap_or(latest).min(latest))
            }
            Slot::Open(frame) if self.whole_key_count > 0 || self.order == HandOut::WhenWhole => {
                Some(self.due_at(frame.captured_at))
            }
            Slot::Open(_) => self.next_due_at(true),
            Slot::Whole(_) | Slot::HandedOut | Slot::GivenUp(_) => Some(Instant::ZERO),
        }
    }

    /// Returns when the frame after the first that is known, or whole, is due.
    fn next_due_at(&self, is_whole: bool) -> Option<Instant> {
        let frames = if is_whole { &self.whole } else { &self.known };
        let behind_first = FrameId(self.first.0 + 1)..;
        let next = frames.range(behind_first).next()?;
        match self.slots.get((next.0 - self.first.0) as usize)? {
            Slot::Whole(frame) => Some(self.due_at(frame.captured_at)),
            Slot::Open(frame) => Some(self.due_at(frame.captured_at)),
            Slot::Missing { .. } | Slot::HandedOut | Slot::GivenUp(_) => None,
        }
    }

    /// Hands out complete frames in order, and gives up those that have held up others for too
    /// long.
    pub(crate) fn deliver(&mut self, now: Instant, out: &mut Vec<Outcome>) {
        while let Some(slot) = self.slots.front_mut() {
            if let Slot::Open(frame) = slot
                && self.order == HandOut::PartsInOrder
                && let Some(part) = frame.take_part(self.first, self.clock.offset())
            {
                out.push(Outcome::Part(part));
            }
            let is_over = match slot {
                Slot::Whole(_) | Slot::HandedOut | Slot::GivenUp(_) => true,
                Slot::Open(_) | Slot::Missing { .. } => {
                    self.expires_at().is_some_and(|at| at <= now)
                }
            };
            if !is_over {
                return;
            }
            self.push_out(1, out);
        }
    }

    /// Ends the session: hands out complete frames and gives up the rest.
    pub(crate) fn finish(&mut self, out: &mut Vec<Outcome>) {
        self.push_out(self.slots.len() as u64, out);
    }

    /// Classifies a fragment of a frame that is over.
    fn taken_before(&self, frame: FrameId) -> Taken {
        let behind = self.first.0 - frame.0;
        if behind <= u64::from(u64::BITS) && self.was_whole >> (behind - 1) & 1 == 1 {
            Taken::Duplicate
        } else {
            Taken::Late
        }
    }

    /// Takes the first `count` frames out, as they are.
    fn push_out(&mut self, count: u64, out: &mut Vec<Outcome>) {
        let open = (self.slots.len() as u64).min(count);
        for slot in self.slots.drain(..open as usize) {
            let was_whole = matches!(slot, Slot::Whole(_) | Slot::HandedOut);
            self.was_whole = self.was_whole << 1 | u64::from(was_whole);
            out.extend(match slot {
                Slot::Whole(mut frame) => {
                    self.whole_bytes -= frame.size_bytes;
                    self.whole_key_count -= usize::from(frame.importance.is_key());
                    frame.offset = self.clock.offset();
                    Some(Outcome::Whole(frame))
                }
                Slot::HandedOut => None,
                Slot::Open(frame) => {
                    self.open_bytes -= frame.held_bytes();
                    self.overhead_bytes -= frame.overhead_bytes();
                    Some(Outcome::Dropped(self.first, DropReason::Incomplete))
                }
                Slot::Missing { .. } => Some(Outcome::Dropped(self.first, DropReason::Missing)),
                Slot::GivenUp(reason) => Some(Outcome::Dropped(self.first, reason)),
            });
            self.first.0 += 1;
        }
        // The usual case is one frame, the first of all.
        for frames in [&mut self.known, &mut self.whole] {
            while frames.first().is_some_and(|frame| *frame < self.first) {
                frames.pop_first();
            }
        }
        debug_assert!(!self.slots.is_empty() || self.taken_bytes() == 0);
        self.memory.set(self.taken_bytes());
        // Frames without even a received successor are too many to report one by one.
        let unseen = count - open;
        self.first.0 += unseen;
        self.was_whole = self
            .was_whole
            .checked_shl(unseen.min(64) as u32)
            .unwrap_or(0);
    }
}

impl IncomingFrame {
    /// Returns the number of bytes that have arrived.
    fn held_bytes(&self) -> usize {
        self.arrived.byte_count()
    }

    fn is_whole(&self) -> bool {
        self.length
            .is_some_and(|length| length as usize == self.arrived.prefix())
    }

    /// Returns the memory of the frame beside the bytes that have arrived: itself, ranges, filled
    /// gaps, and the places of fragments far ahead.
    fn overhead_bytes(&self) -> usize {
        let kept_bytes = self.bytes.placed().len() + self.bytes.ahead_bytes();
        let gap_bytes = kept_bytes.saturating_sub(self.held_bytes());
        size_of::<Self>() + self.arrived.beside_bytes() + gap_bytes
    }

    /// Starts another frame in the memory of the last one.
    fn begin(&mut self, header: FragmentHeader, captured_at: Instant, keeps_bytes: bool) {
        let mut arrived = core::mem::take(&mut self.arrived);
        arrived.clear();
        *self = IncomingFrame {
            importance: header.importance,
            captured_at,
            keeps_bytes,
            arrived,
            ..IncomingFrame::default()
        };
    }

    /// Takes the bytes that have come in order since the last part.
    fn take_part(&mut self, id: FrameId, offset: ClockOffset) -> Option<FramePart> {
        let (begin, end) = (self.parted_bytes, self.arrived.prefix());
        if end <= begin {
            return None;
        }
        self.parted_bytes = end;
        Some(FramePart {
            id,
            importance: self.importance,
            captured_at: self.captured_at,
            offset,
            begin,
            bytes: self.bytes.placed()[begin..end].to_vec(),
        })
    }

    fn insert(&mut self, header: FragmentHeader, payload: &[u8]) -> Taken {
        let start = header.offset;
        let end = start + payload.len() as u32;
        let fits = match self.length {
            Some(length) => end <= length && (!header.ends_frame || end == length),
            None => !header.ends_frame || end >= self.arrived.end(),
        };
        if !fits || header.importance != self.importance {
            return Taken::Contradictory;
        }
        let before = self.held_bytes();
        let (bytes, keeps_bytes) = (&mut self.bytes, self.keeps_bytes);
        let is_added = self.arrived.add(start..end, |new| {
            if keeps_bytes {
                let part = (new.start - start) as usize..(new.end - start) as usize;
                bytes.place(new.start as usize, &payload[part]);
            }
        });
        if !is_added {
            return Taken::Contradictory;
        }
        let is_end_known = self.length.is_some() || !header.ends_frame;
        if header.ends_frame {
            self.length = Some(end);
        }
        if self.held_bytes() == before && is_end_known {
            Taken::Duplicate
        } else {
            Taken::New
        }
    }
}

#[cfg(test)]
mod tests;
