//! The sender's frames, from their capture until they are acknowledged or worthless.

mod content;
mod cuts;
mod dependencies;
mod growing;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod last_calls;
mod reconsider;
mod repairs;
mod waiting;

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_units::{Duration, Importance, Instant};

use super::{FragmentHeader, FragmentId, Frame, FrameId, MAX_FRAME_BYTES, SendFrameError, Symbol};
use crate::path_view::{PathId, PathSet};
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;
use crate::wire;
use content::Content;
use cuts::Cut;
use dependencies::Groups;
pub(crate) use dependencies::{Group, Unsent};
use growing::Growth;
#[cfg(any(debug_assertions, feature = "invariants"))]
pub(crate) use invariants::{CopyMap, Exceptions};
pub(crate) use last_calls::LastCall;
use last_calls::LastCalls;
pub(crate) use reconsider::{CopiesInFlight, Verdict};
use repairs::Repairs;

/// The most bytes kept; a source that fills this is refused.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// When a key frame is given up though no other has followed.
const KEY_FRAME_LIFETIME: Duration = Duration::from_secs(5);

/// Number of used-up frames that are kept for the next, which takes over their list of fragments.
const MAX_SPARE_FRAMES: usize = 8;

#[derive(Debug, Default)]
struct OutgoingFrame {
    importance: Importance,
    captured_at: Instant,
    /// Its own lifetime, if that is less than the session's.
    own_lifetime: Option<Duration>,
    bytes: Content,
    fragments: Vec<Fragment>,
    /// Number of its first bytes that are in fragments.
    cut_bytes: usize,
    /// Offset of the fragment that ends it, once its end is known.
    ends_from: Option<u32>,
    unacked_count: u16,
    never_sent_count: u16,
    is_given_up: bool,
    /// A frame that it needs has been given up.
    is_undecodable: bool,
    /// The symbol number of its first fragment, which the others follow.
    first_symbol: u64,
    /// Number of its first fragments that are symbols.
    symbol_count: u16,
    /// Length of its longest fragments.
    fragment_bytes: u16,
    /// Whether repairs cover any part of it: it may complete though a retransmission would be late.
    is_protected: bool,
}

impl OutgoingFrame {
    /// Returns whether nothing more will be done for it.
    fn is_settled(&self) -> bool {
        (self.unacked_count == 0 && !self.bytes.is_growing()) || self.is_given_up
    }

    /// Returns these bytes of the frame as they go on the wire, without a symbol number.
    fn part(&self, id: FrameId, bytes: Range<usize>) -> OutgoingFragment<'_> {
        OutgoingFragment {
            header: FragmentHeader {
                frame: id,
                offset: bytes.start as u32,
                ends_frame: bytes.end == self.bytes.len()
                    && self
                        .ends_from
                        .is_some_and(|from| bytes.start >= from as usize),
                importance: self.importance,
            },
            captured_at: self.captured_at,
            symbol: None,
            payload: &self.bytes[bytes],
        }
    }
}

/// Event that a fragment waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// To be bound, or to leave where it is bound, or for what repairs achieve.
    #[default]
    Waiting,
    /// For what becomes of the copies that have left.
    Sent,
    /// For nothing: it has arrived.
    Arrived,
}

/// A byte range of a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Fragment {
    offset: u32,
    length: u16,
    /// Length before it was cut again.
    cut_length: u16,
    state: State,
    /// It has been sent at least once.
    has_left: bool,
    in_flight_on: PathSet,
    /// The paths on which two copies are in flight.
    twice_on: PathSet,
    /// Paths among these on which three copies or more are in flight.
    thrice_on: PathSet,
    /// The paths on which a copy was lost.
    lost_on: PathSet,
}

/// A fragment as it goes on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingFragment<'a> {
    pub(crate) header: FragmentHeader,
    pub(crate) captured_at: Instant,
    pub(crate) symbol: Option<u64>,
    pub(crate) payload: &'a [u8],
}

impl OutgoingFragment<'_> {
    /// Appends it to a datagram, as its last frame.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        wire::write_fragment(
            self.header,
            self.captured_at,
            self.symbol,
            self.payload,
            out,
        );
    }

    pub(crate) fn as_symbol(&self) -> Symbol<'_> {
        Symbol {
            header: self.header,
            captured_at_micros: self.captured_at.as_micros() as u32,
            payload: self.payload,
        }
    }
}

#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// Frames `first..`, in order.
    frames: VecDeque<OutgoingFrame>,
    /// Packets that wait for the scheduler: retransmissions first, then sources, oldest first.
    waiting: Vec<PacketView>,
    /// Symbol numbers and repairs, if the session uses FEC.
    repairs: Option<Box<Repairs>>,
    first: FrameId,
    spare: Vec<OutgoingFrame>,
    buffered_bytes: usize,
    deadline: Duration,
    /// Overhead of a packet on the wire beside the fragment.
    packet_overhead_bytes: u32,
    /// Fragment size of the next frame.
    fragment_bytes: u16,
    last_calls: LastCalls,
    groups: Groups,
    growth: Growth,
    acked_frame_count: u64,
    captured_at: Option<Instant>,
    frame_interval: Duration,
}

impl SendBuffer {
    pub(crate) fn new(
        fragment_bytes: u16,
        packet_overhead_bytes: u32,
        deadline: Duration,
        has_repairs: bool,
    ) -> Self {
        SendBuffer {
            frames: VecDeque::new(),
            first: FrameId(0),
            spare: Vec::new(),
            buffered_bytes: 0,
            waiting: Vec::new(),
            fragment_bytes,
            packet_overhead_bytes,
            deadline,
            repairs: has_repairs.then(Box::default),
            last_calls: LastCalls::default(),
            acked_frame_count: 0,
            captured_at: None,
            frame_interval: Duration::ZERO,
            groups: Groups::default(),
            growth: Growth::default(),
        }
    }

    /// Returns the time after their capture from which frames are worthless.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sets the time after their capture from which frames are worthless.
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Takes a frame in and queues its fragments.
    pub(crate) fn push(&mut self, frame: &Frame) -> Result<FrameId, SendFrameError> {
        self.take_in(frame, true)
    }

    /// Takes a frame in that is whole, or its first bytes.
    fn take_in(&mut self, frame: &Frame, is_whole: bool) -> Result<FrameId, SendFrameError> {
        let limit = MAX_FRAME_BYTES.min(usize::from(self.fragment_bytes) * usize::from(u16::MAX));
        match frame.bytes.len() {
            0 => return Err(SendFrameError::Empty),
            _ if self.is_open() => return Err(SendFrameError::Unfinished),
            bytes if bytes > limit => return Err(SendFrameError::TooLarge { bytes, limit }),
            _ if self.buffered_bytes > MAX_BUFFERED_BYTES => {
                return Err(SendFrameError::Backlogged {
                    bytes: self.buffered_bytes,
                });
            }
            bytes => self.buffered_bytes += bytes,
        }
        let id = FrameId(self.first.0 + self.frames.len() as u64);
        let mut outgoing = self.spare.pop().unwrap_or_default();
        outgoing.importance = frame.importance;
        outgoing.captured_at = frame.captured_at;
        outgoing.own_lifetime = frame.lifetime;
        outgoing.bytes = if is_whole {
            Content::Whole(frame.bytes.clone())
        } else {
            Content::Growing(frame.bytes.to_vec())
        };
        outgoing.fragment_bytes = self.fragment_bytes;
        (outgoing.unacked_count, outgoing.never_sent_count) = (0, 0);
        (outgoing.symbol_count, outgoing.cut_bytes) = (0, 0);
        outgoing.ends_from = None;
        self.groups.on_frame(id, frame);
        if let Some(before_at) = self.captured_at.replace(frame.captured_at) {
            self.frame_interval = frame.captured_at.saturating_since(before_at);
        }
        outgoing.is_given_up = false;
        outgoing.is_undecodable = self.is_chain_broken();
        outgoing.is_protected = false;
        outgoing.first_symbol = self.next_symbol();
        self.frames.push_back(outgoing);
        self.queue_cuts(id, if is_whole { Cut::End } else { Cut::Full });
        Ok(id)
    }

    /// Returns the time between the captures of the newest frame and the one before.
    pub(crate) fn frame_interval(&self) -> Duration {
        self.frame_interval
    }

    /// Returns the fragment as it goes on the wire; `None` if it need not be sent any more.
    pub(crate) fn fragment(&self, id: FrameId, fragment: u16) -> Option<OutgoingFragment<'_>> {
        let (frame, state) = self.wanted(id, fragment)?;
        Some(OutgoingFragment {
            symbol: if state.is_cut_again() {
                None
            } else {
                self.symbol(id, fragment)
            },
            ..frame.part(id, state.bytes())
        })
    }

    /// Returns a fragment and its frame if it still has to be sent.
    fn wanted(&self, id: FrameId, fragment: u16) -> Option<(&OutgoingFrame, &Fragment)> {
        let frame = self.frame(id).filter(|frame| !frame.is_given_up)?;
        let state = frame.fragments.get(usize::from(fragment))?;
        (state.state != State::Arrived).then_some((frame, state))
    }

    /// Records that a copy has left. One of several copies that the scheduler asked for does not
    /// settle the others, or a retransmission: these go on waiting.
    pub(crate) fn on_sent(&mut self, id: FrameId, fragment: u16, path: PathId, reason: SendReason) {
        let Some(frame) = self.frame_mut(id) else {
            return;
        };
        let state = &mut frame.fragments[usize::from(fragment)];
        if !core::mem::replace(&mut state.has_left, true) {
            frame.never_sent_count -= 1;
        }
        if state.state == State::Waiting && !reason.is_scheduled_copy() {
            state.state = State::Sent;
        }
        if state.twice_on.contains(path) {
            state.thrice_on.insert(path);
        }
        if state.in_flight_on.contains(path) {
            state.twice_on.insert(path);
        }
        state.in_flight_on.insert(path);
    }

    /// Records that a copy has arrived. Returns whether it is the first.
    pub(crate) fn on_acked(&mut self, id: FrameId, fragment: u16, path: PathId) -> bool {
        let id = FragmentId {
            frame: id,
            fragment,
        };
        self.on_arrived(id, PathSet::only(path))
    }

    /// Marks a fragment as arrived, whose copies on these paths are in flight no more. Returns
    /// whether that is new.
    fn on_arrived(&mut self, id: FragmentId, on: PathSet) -> bool {
        let Some(frame) = self.frame_mut(id.frame) else {
            return false;
        };
        let fragment = &mut frame.fragments[usize::from(id.fragment)];
        fragment.in_flight_on = fragment.in_flight_on.without(on);
        if core::mem::replace(&mut fragment.state, State::Arrived) == State::Arrived {
            return false;
        }
        frame.unacked_count -= 1;
        let is_whole = frame.unacked_count == 0 && !frame.bytes.is_growing();
        self.acked_frame_count += u64::from(is_whole);
        self.forget_settled();
        true
    }

    /// Returns the number of frames that have arrived whole.
    pub(crate) fn acked_frame_count(&self) -> u64 {
        self.acked_frame_count
    }

    /// Queues a fragment for retransmission.
    pub(crate) fn queue_retransmission(
        &mut self,
        id: FragmentId,
        avoid: PathSet,
        reason: SendReason,
    ) {
        debug_assert!(reason.is_retransmission(), "{reason} is no retransmission");
        if let Some(view) = self.view(id.frame, id.fragment, reason, avoid) {
            self.take_back(view);
            self.set_state(id, State::Waiting);
        }
    }

    /// Returns when a frame that is still wanted, a key frame too, is late.
    pub(crate) fn due_at(&self, id: FrameId) -> Option<Instant> {
        let frame = self.frame(id).filter(|frame| !frame.is_given_up)?;
        Some(self.deadline_of(frame))
    }

    /// Returns the time from a frame's capture until it is late.
    pub(crate) fn lifetime_of(&self, id: FrameId) -> Duration {
        self.frame(id)
            .map_or(self.deadline, |frame| self.lifetime_in(frame))
    }

    fn lifetime_in(&self, frame: &OutgoingFrame) -> Duration {
        frame
            .own_lifetime
            .map_or(self.deadline, |own| own.min(self.deadline))
    }

    fn deadline_of(&self, frame: &OutgoingFrame) -> Instant {
        frame.captured_at + self.lifetime_in(frame)
    }

    /// Stops sending a frame: it cannot be of use any more. Returns whether it was sent until now.
    pub(crate) fn give_up(&mut self, id: FrameId) -> bool {
        let Some(frame) = self.frame_mut(id) else {
            return false;
        };
        let is_new = !core::mem::replace(&mut frame.is_given_up, true);
        self.discard_waiting(id);
        is_new
    }

    /// Copies of the frames of which anything is missing at the peer, and that are not given up.
    /// Only the last may still grow: then the second value is true.
    pub(crate) fn unfinished(&self) -> Vec<(Frame, bool)> {
        let unfinished = self.frames.iter().filter(|frame| !frame.is_settled());
        unfinished
            .map(|frame| {
                let copy = Frame {
                    bytes: frame.bytes.to_bytes(),
                    importance: frame.importance,
                    captured_at: frame.captured_at,
                    lifetime: frame.own_lifetime,
                };
                (copy, frame.bytes.is_growing())
            })
            .collect()
    }

    /// Gives up frames that are worthless by now, and reports those that were not sent whole to
    /// `on_late`.
    pub(crate) fn expire(&mut self, now: Instant, mut on_late: impl FnMut(FrameId)) {
        for index in 0..self.frames.len() {
            let id = FrameId(self.first.0 + index as u64);
            let frame = &self.frames[index];
            if frame.is_settled() || self.expiry_of(id, frame) > now {
                continue;
            }
            let frame = &mut self.frames[index];
            frame.is_given_up = true;
            if frame.never_sent_count > 0 || frame.bytes.is_growing() {
                on_late(id);
                self.discard_waiting(id);
            }
        }
        self.forget_settled();
    }

    /// Returns when [`SendBuffer::expire`] is due; it may be too early.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        let oldest = self.frames.front()?;
        Some(self.expiry_of(self.first, oldest))
    }

    /// Returns whether no frame is kept any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns when a kept frame is given up.
    fn expiry_of(&self, id: FrameId, frame: &OutgoingFrame) -> Instant {
        let lifetime = if self.groups.outlives_deadline(id) {
            KEY_FRAME_LIFETIME
        } else {
            self.lifetime_in(frame)
        };
        frame.captured_at + lifetime
    }

    fn frame(&self, id: FrameId) -> Option<&OutgoingFrame> {
        self.frames
            .get(usize::try_from(id.0.checked_sub(self.first.0)?).ok()?)
    }

    fn frame_mut(&mut self, id: FrameId) -> Option<&mut OutgoingFrame> {
        self.frames
            .get_mut(usize::try_from(id.0.checked_sub(self.first.0)?).ok()?)
    }

    fn view(
        &self,
        id: FrameId,
        fragment: u16,
        reason: SendReason,
        avoid: PathSet,
    ) -> Option<PacketView> {
        let (frame, state) = self.wanted(id, fragment)?;
        Some(PacketView {
            frame: id,
            fragment,
            fragment_count: frame.symbol_count,
            reason,
            importance: frame.importance,
            bytes: u32::from(state.length) + self.packet_overhead_bytes,
            deadline: (!self.groups.outlives_deadline(id)).then(|| self.deadline_of(frame)),
            in_flight_on: state.in_flight_on,
            avoid,
        })
    }

    fn forget_settled(&mut self) {
        while self.frames.front().is_some_and(OutgoingFrame::is_settled) {
            self.forget_first();
        }
        debug_assert!(!self.frames.is_empty() || self.buffered_bytes == 0);
        self.skip_settled_calls();
    }

    #[cold]
    fn forget_first(&mut self) {
        let Some(mut frame) = self.frames.pop_front() else {
            return;
        };
        self.first.0 += 1;
        self.buffered_bytes -= frame.bytes.len();
        if self.spare.len() < MAX_SPARE_FRAMES {
            frame.bytes = Content::default();
            frame.fragments.clear();
            self.spare.push(frame);
        }
    }
}

#[cfg(test)]
mod tests;
