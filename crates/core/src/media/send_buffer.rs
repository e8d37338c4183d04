//! The sender's frames, from their capture until they are acknowledged or worthless.

use std::collections::VecDeque;

use anabranch_units::{Duration, Importance, Instant};

use super::{FragmentHeader, Frame, FrameId, MAX_FRAME_BYTES, SendFrameError};
use crate::path_view::{PathId, PathSet};
use crate::scheduler::{PacketKind, PacketView};

/// The most bytes kept; a source that fills this is refused.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// How often a fragment is sent at most: once, and three times again. With one try less, one
/// fragment in 8,000 is lost for good at 5 % loss, and so more than one frame in a thousand. Key
/// frames are worth more tries.
const MAX_SENDS: u8 = 4;
const MAX_SENDS_OF_KEY: u8 = 20;

/// When a key frame is given up though no other has followed.
const KEY_FRAME_LIFETIME: Duration = Duration::from_secs(5);

/// How many used-up frames' buffers are kept for the next.
const MAX_SPARE_FRAMES: usize = 8;

#[derive(Debug, Default)]
struct OutgoingFrame {
    importance: Importance,
    captured_at: Instant,
    bytes: Vec<u8>,
    fragments: Vec<Fragment>,
    unacked_count: u16,
    never_sent_count: u16,
    is_given_up: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fragment {
    is_acked: bool,
    /// Waits to be bound, or is bound and waits to be sent.
    is_queued: bool,
    send_count: u8,
    in_flight_on: PathSet,
}

/// What is to become of a fragment whose copy is lost or stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it has arrived, waits already, or another copy is on its way.
    Settled,
    /// It is sent again.
    SendAgain,
    /// It would come too late, or has been sent often enough: its frame is given up.
    GiveUp,
}

#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// Frames `first..`, in order.
    frames: VecDeque<OutgoingFrame>,
    first: FrameId,
    spare: Vec<OutgoingFrame>,
    buffered_bytes: usize,
    /// Packets that wait for the scheduler: retransmissions first, then sources, oldest first.
    waiting: Vec<PacketView>,
    fragment_bytes: usize,
    /// What a packet has on the wire beside the fragment.
    packet_overhead_bytes: u32,
    deadline: Duration,
}

impl SendBuffer {
    pub(crate) fn new(fragment_bytes: u16, packet_overhead_bytes: u32, deadline: Duration) -> Self {
        SendBuffer {
            frames: VecDeque::new(),
            first: FrameId(0),
            spare: Vec::new(),
            buffered_bytes: 0,
            waiting: Vec::new(),
            fragment_bytes: usize::from(fragment_bytes),
            packet_overhead_bytes,
            deadline,
        }
    }

    /// Takes a frame in and queues its fragments.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) -> Result<FrameId, SendFrameError> {
        let limit = MAX_FRAME_BYTES.min(self.fragment_bytes * usize::from(u16::MAX));
        match frame.bytes.len() {
            0 => return Err(SendFrameError::Empty),
            bytes if bytes > limit => return Err(SendFrameError::TooLarge { bytes, limit }),
            _ if self.buffered_bytes > MAX_BUFFERED_BYTES => {
                return Err(SendFrameError::Backlogged {
                    bytes: self.buffered_bytes,
                });
            }
            bytes => self.buffered_bytes += bytes,
        }
        let id = FrameId(self.first.0 + self.frames.len() as u64);
        let fragment_count = frame.bytes.len().div_ceil(self.fragment_bytes) as u16;
        let mut outgoing = self.spare.pop().unwrap_or_default();
        outgoing.importance = frame.importance;
        outgoing.captured_at = frame.captured_at;
        outgoing.bytes.extend_from_slice(frame.bytes);
        outgoing.unacked_count = fragment_count;
        outgoing.never_sent_count = fragment_count;
        outgoing.is_given_up = false;
        let queued = Fragment {
            is_queued: true,
            ..Fragment::default()
        };
        outgoing
            .fragments
            .resize(usize::from(fragment_count), queued);
        self.frames.push_back(outgoing);
        for fragment in 0..fragment_count {
            let view = self.view(id, fragment, PacketKind::Source, PathSet::EMPTY);
            self.waiting.extend(view);
        }
        Ok(id)
    }

    /// The packets that wait for the scheduler.
    pub(crate) fn waiting(&self) -> &[PacketView] {
        &self.waiting
    }

    /// Takes out of the waiting packets those that `is_bound` names by index.
    pub(crate) fn retain_waiting(&mut self, mut is_bound: impl FnMut(usize) -> bool) {
        let mut index = 0;
        self.waiting.retain(|_| {
            index += 1;
            !is_bound(index - 1)
        });
    }

    /// A packet that was bound to `path` comes back: the path has died or is in doubt. Nothing
    /// comes back of which another copy has left.
    pub(crate) fn unbind(&mut self, packet: PacketView, path: PathId) {
        if packet.kind != PacketKind::Source {
            return self.take_back(packet);
        }
        let frame = self.frame(packet.frame);
        let state = frame.map(|frame| frame.fragments[usize::from(packet.fragment)]);
        let Some(state) = state.filter(|state| !state.is_acked) else {
            return;
        };
        let mut in_flight_elsewhere = state.in_flight_on;
        in_flight_elsewhere.remove(path);
        if in_flight_elsewhere.is_empty() {
            self.take_back(packet);
        }
    }

    /// Puts a packet to those that wait.
    fn take_back(&mut self, packet: PacketView) {
        let place = self
            .waiting
            .partition_point(|other| queue_order(other) <= queue_order(&packet));
        self.waiting.insert(place, packet);
    }

    /// The fragment as it goes on the wire; `None` if it need not be sent any more.
    pub(crate) fn fragment(
        &self,
        id: FrameId,
        fragment: u16,
    ) -> Option<(FragmentHeader, Instant, &[u8])> {
        let frame = self.frame(id).filter(|frame| !frame.is_given_up)?;
        let state = frame.fragments.get(usize::from(fragment))?;
        let start = usize::from(fragment) * self.fragment_bytes;
        let end = (start + self.fragment_bytes).min(frame.bytes.len());
        let header = FragmentHeader {
            frame: id,
            fragment,
            fragment_count: frame.fragments.len() as u16,
            importance: frame.importance,
        };
        (!state.is_acked).then(|| (header, frame.captured_at, &frame.bytes[start..end]))
    }

    pub(crate) fn on_sent(&mut self, id: FrameId, fragment: u16, path: PathId) {
        let Some(frame) = self.frame_mut(id) else {
            return;
        };
        let state = &mut frame.fragments[usize::from(fragment)];
        if state.send_count == 0 {
            frame.never_sent_count -= 1;
        }
        state.send_count = state.send_count.saturating_add(1);
        state.is_queued = false;
        state.in_flight_on.insert(path);
    }

    /// A copy has arrived. Returns whether it is the first.
    pub(crate) fn on_acked(&mut self, id: FrameId, fragment: u16, path: PathId) -> bool {
        let Some(frame) = self.frame_mut(id) else {
            return false;
        };
        let state = &mut frame.fragments[usize::from(fragment)];
        state.in_flight_on.remove(path);
        if core::mem::replace(&mut state.is_acked, true) {
            return false;
        }
        frame.unacked_count -= 1;
        self.forget_settled();
        true
    }

    /// A copy sent on `path` is lost, or stuck there while `is_stuck`. `arrives_at` is when another
    /// one could be there, the doubt included (`docs/algorithms.md`). Queues the
    /// fragment if it is to be sent again.
    pub(crate) fn on_lost(
        &mut self,
        id: FrameId,
        fragment: u16,
        path: PathId,
        is_stuck: bool,
        arrives_at: Instant,
    ) -> Verdict {
        let deadline = self.deadline;
        let Some(frame) = self.frame_mut(id) else {
            return Verdict::Settled;
        };
        let state = &mut frame.fragments[usize::from(fragment)];
        let mut elsewhere = state.in_flight_on;
        elsewhere.remove(path);
        if !is_stuck {
            state.in_flight_on = elsewhere;
        }
        if state.is_acked || state.is_queued || frame.is_given_up || !elsewhere.is_empty() {
            return Verdict::Settled;
        }
        let max_sends = if frame.importance.is_key() {
            MAX_SENDS_OF_KEY
        } else {
            MAX_SENDS
        };
        let is_late = !frame.importance.is_key() && arrives_at > frame.captured_at + deadline;
        if is_late || state.send_count >= max_sends {
            return if is_stuck {
                Verdict::Settled
            } else {
                Verdict::GiveUp
            };
        }
        state.is_queued = true;
        let view = self.view(
            id,
            fragment,
            PacketKind::Retransmission,
            PathSet::only(path),
        );
        if let Some(view) = view {
            self.take_back(view);
        }
        Verdict::SendAgain
    }

    /// Stops sending a frame: it cannot be of use any more.
    pub(crate) fn give_up(&mut self, id: FrameId) {
        if let Some(frame) = self.frame_mut(id) {
            frame.is_given_up = true;
            self.waiting.retain(|packet| packet.frame != id);
        }
    }

    /// Forgets frames that are worthless by now, and tells which of them were not sent whole.
    pub(crate) fn expire(&mut self, now: Instant, mut on_late: impl FnMut(FrameId)) {
        let last_key = self
            .frames
            .iter()
            .rposition(|frame| frame.importance.is_key());
        for index in 0..self.frames.len() {
            let lifetime = self.lifetime(index, last_key);
            let id = FrameId(self.first.0 + index as u64);
            let frame = &mut self.frames[index];
            if frame.is_given_up || frame.unacked_count == 0 || frame.captured_at + lifetime > now {
                continue;
            }
            frame.is_given_up = true;
            if frame.never_sent_count > 0 {
                on_late(id);
                self.waiting.retain(|packet| packet.frame != id);
            }
        }
        self.forget_settled();
    }

    /// When [`SendBuffer::expire`] has something to do: no later than this.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        let oldest = self.frames.front()?;
        let lifetime = if oldest.importance.is_key()
            && self
                .frames
                .iter()
                .skip(1)
                .all(|frame| !frame.importance.is_key())
        {
            KEY_FRAME_LIFETIME
        } else {
            self.deadline
        };
        Some(oldest.captured_at + lifetime)
    }

    /// Whether nothing is kept any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// A key frame lives until another has followed, since all frames up to that need it.
    fn lifetime(&self, index: usize, last_key: Option<usize>) -> Duration {
        let is_last_key = last_key == Some(index);
        if is_last_key {
            KEY_FRAME_LIFETIME
        } else {
            self.deadline
        }
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
        kind: PacketKind,
        avoid: PathSet,
    ) -> Option<PacketView> {
        let (header, captured_at, payload) = self.fragment(id, fragment)?;
        let state = self.frame(id)?.fragments[usize::from(fragment)];
        Some(PacketView {
            frame: id,
            fragment,
            fragment_count: header.fragment_count,
            kind,
            importance: header.importance,
            bytes: payload.len() as u32 + self.packet_overhead_bytes,
            deadline: (!header.importance.is_key()).then(|| captured_at + self.deadline),
            in_flight_on: state.in_flight_on,
            avoid,
        })
    }

    fn forget_settled(&mut self) {
        while let Some(frame) = self.frames.front()
            && (frame.unacked_count == 0 || frame.is_given_up)
        {
            let mut frame = self.frames.pop_front().expect("there is a front");
            self.first.0 += 1;
            self.buffered_bytes -= frame.bytes.len();
            if self.spare.len() < MAX_SPARE_FRAMES {
                frame.bytes.clear();
                frame.fragments.clear();
                self.spare.push(frame);
            }
        }
    }
}

/// Retransmissions before sources, then as captured.
/// Retransmissions first; of a frame, sources before repairs.
fn queue_order(packet: &PacketView) -> (bool, FrameId, bool, u16) {
    (
        packet.kind != PacketKind::Retransmission,
        packet.frame,
        packet.kind != PacketKind::Source,
        packet.fragment,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER_LATE: Instant = Instant::ZERO;
    const A: PathId = PathId(0);
    const B: PathId = PathId(1);

    fn buffer_with(frames: &[(u64, bool)]) -> SendBuffer {
        let mut buffer = SendBuffer::new(1000, 60, Duration::from_millis(500));
        for &(captured_millis, is_key) in frames {
            let captured_at = Instant::from_millis(captured_millis);
            buffer
                .push(&Frame {
                    bytes: &[7; 2500],
                    importance: Importance::key_if(is_key),
                    captured_at,
                })
                .unwrap();
        }
        buffer
    }

    fn send_all(buffer: &mut SendBuffer) {
        for packet in buffer.waiting().to_vec() {
            buffer.on_sent(packet.frame, packet.fragment, A);
        }
        buffer.retain_waiting(|_| true);
    }

    #[test]
    fn a_frame_is_cut_into_fragments() {
        let buffer = buffer_with(&[(0, false)]);
        let sizes: Vec<u32> = buffer.waiting().iter().map(|packet| packet.bytes).collect();
        assert_eq!(sizes, [1060, 1060, 560]);
        let (header, _, payload) = buffer.fragment(FrameId(0), 2).unwrap();
        assert_eq!((header.fragment_count, payload.len()), (3, 500));
    }

    #[test]
    fn a_lost_fragment_is_sent_again_before_sources_and_avoids_its_path() {
        let mut buffer = buffer_with(&[(0, false)]);
        send_all(&mut buffer);
        buffer
            .push(&Frame {
                bytes: &[1],
                importance: Importance::Reference,
                captured_at: Instant::ZERO,
            })
            .unwrap();
        let verdict = buffer.on_lost(FrameId(0), 1, A, false, NEVER_LATE);
        assert_eq!(verdict, Verdict::SendAgain);
        let first = buffer.waiting()[0];
        assert_eq!(
            (first.fragment, first.kind),
            (1, PacketKind::Retransmission)
        );
        assert!(first.avoid.contains(A) && first.in_flight_on.is_empty());
        let again = buffer.on_lost(FrameId(0), 1, A, false, NEVER_LATE);
        assert_eq!(again, Verdict::Settled, "it waits already");
    }

    #[test]
    fn arq_what_would_come_late_is_given_up_but_not_a_key_frame() {
        let mut buffer = buffer_with(&[(0, false), (0, true)]);
        send_all(&mut buffer);
        let late = Instant::from_millis(501);
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, A, false, late),
            Verdict::GiveUp
        );
        assert_eq!(
            buffer.on_lost(FrameId(1), 0, A, false, late),
            Verdict::SendAgain
        );
    }

    #[test]
    fn arq_a_fragment_is_sent_again_three_times_at_most() {
        let mut buffer = buffer_with(&[(0, false)]);
        send_all(&mut buffer);
        for _ in 0..3 {
            assert_eq!(
                buffer.on_lost(FrameId(0), 0, A, false, NEVER_LATE),
                Verdict::SendAgain
            );
            send_all(&mut buffer);
        }
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, A, false, NEVER_LATE),
            Verdict::GiveUp
        );
    }

    #[test]
    fn a_stuck_copy_is_doubled_once_and_its_loss_then_changes_nothing() {
        let mut buffer = buffer_with(&[(0, false)]);
        send_all(&mut buffer);
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, A, true, NEVER_LATE),
            Verdict::SendAgain
        );
        buffer.on_sent(FrameId(0), 0, B);
        buffer.retain_waiting(|_| true);
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, A, true, NEVER_LATE),
            Verdict::Settled
        );
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, A, false, NEVER_LATE),
            Verdict::Settled
        );
        assert_eq!(
            buffer.on_lost(FrameId(0), 0, B, false, NEVER_LATE),
            Verdict::SendAgain
        );
    }

    #[test]
    fn an_acknowledged_frame_is_forgotten_and_its_late_copies_are_ignored() {
        let mut buffer = buffer_with(&[(0, false)]);
        send_all(&mut buffer);
        for fragment in 0..3 {
            assert!(buffer.on_acked(FrameId(0), fragment, A));
        }
        assert!(buffer.is_empty() && !buffer.on_acked(FrameId(0), 0, B));
        assert_eq!(buffer.buffered_bytes, 0);
    }

    #[test]
    fn arq_nothing_older_than_the_deadline_is_kept_but_the_last_key_frame() {
        let mut buffer = buffer_with(&[(0, true), (40, false), (80, true), (120, false)]);
        let mut late = Vec::new();
        buffer.expire(Instant::from_millis(700), |id| late.push(id.0));
        assert_eq!(late, [0, 1, 3]);
        assert!(
            buffer
                .waiting()
                .iter()
                .all(|packet| packet.frame == FrameId(2))
        );
        buffer.expire(Instant::from_secs(6), |id| late.push(id.0));
        assert!(buffer.is_empty() && late.len() == 4);
    }

    #[test]
    fn a_callers_mistake_is_told() {
        let mut buffer = buffer_with(&[]);
        let frame = |bytes| Frame {
            bytes,
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
        };
        assert_eq!(buffer.push(&frame(&[])), Err(SendFrameError::Empty));
        let huge = vec![0; MAX_FRAME_BYTES + 1];
        assert!(matches!(
            buffer.push(&frame(&huge)),
            Err(SendFrameError::TooLarge { .. })
        ));
    }
}
