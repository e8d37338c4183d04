//! The sending half of a stream: bytes that wait for their turn and for credit.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::message::{MAX_HEADER_BYTES, Message, StreamId};

/// Bytes that have been written and are unsent.
#[derive(Debug)]
pub(crate) struct SendHalf {
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    /// The offset of the first byte that waits.
    offset: u64,
    /// Offset up to which the peer accepts data.
    max_offset: u64,
    state: State,
    /// Whether a writer waits for room.
    is_refused: bool,
    /// Credit whose end was reported to the peer.
    reported_blocked_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The writer has finished.
    Ending,
    /// The end has left.
    Ended,
    /// This end has given the stream up.
    Reset,
    /// The peer wants no more of it.
    Stopped,
}

impl SendHalf {
    pub(crate) fn new(window_bytes: u64) -> Self {
        SendHalf {
            queue: VecDeque::new(),
            queued_bytes: 0,
            offset: 0,
            max_offset: window_bytes,
            state: State::Open,
            is_refused: false,
            reported_blocked_at: None,
        }
    }

    /// Takes a copy of as many bytes as fit; `None` if there is no room.
    pub(crate) fn write(&mut self, bytes: &[u8], capacity: usize) -> Option<usize> {
        let taken = self.admit(bytes.len(), capacity)?;
        self.push(Bytes::copy_from_slice(&bytes[..taken]));
        Some(taken)
    }

    /// Takes as many bytes off the front as fit; `None` if there is no room.
    pub(crate) fn write_shared(&mut self, bytes: &mut Bytes, capacity: usize) -> Option<usize> {
        let taken = self.admit(bytes.len(), capacity)?;
        self.push(bytes.split_to(taken));
        Some(taken)
    }

    /// Returns the number of bytes accepted now, out of `wanted`.
    fn admit(&mut self, wanted: usize, capacity: usize) -> Option<usize> {
        let taken = wanted.min(capacity.saturating_sub(self.queued_bytes));
        self.is_refused = taken < wanted;
        (taken > 0 || wanted == 0).then_some(taken)
    }

    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued_bytes += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    pub(crate) fn finish(&mut self) {
        if self.state == State::Open {
            self.state = State::Ending;
        }
    }

    /// Gives up unsent bytes. Returns whether the peer must be notified.
    pub(crate) fn reset(&mut self) -> bool {
        let is_new = matches!(self.state, State::Open | State::Ending);
        if is_new {
            self.give_up(State::Reset);
        }
        is_new
    }

    /// Records that the peer wants no more. Returns whether that is new.
    pub(crate) fn on_stop(&mut self) -> bool {
        let is_new = matches!(self.state, State::Open | State::Ending);
        if is_new {
            self.give_up(State::Stopped);
        }
        is_new
    }

    fn give_up(&mut self, state: State) {
        self.state = state;
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Records that the peer accepts everything below this offset; credit is never withdrawn.
    pub(crate) fn on_credit(&mut self, max_offset: u64) {
        self.max_offset = self.max_offset.max(max_offset);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state == State::Stopped
    }

    /// Returns whether no more messages will leave.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.state, State::Open | State::Ending)
    }

    /// Returns whether a message could leave now.
    pub(crate) fn is_ready(&self) -> bool {
        match self.queued_bytes {
            0 => self.state == State::Ending,
            _ => self.offset < self.max_offset,
        }
    }

    /// Returns the offset at which credit has ended with more to send, unless it was reported to
    /// the peer.
    pub(crate) fn take_blocked(&mut self) -> Option<u64> {
        let at = self.max_offset;
        let is_blocked = self.queued_bytes > 0 && self.offset >= at;
        let is_new = is_blocked && self.reported_blocked_at != Some(at);
        if is_new {
            self.reported_blocked_at = Some(at);
        }
        is_new.then_some(at)
    }

    /// Returns the number of bytes that may leave now.
    pub(crate) fn sendable_bytes(&self) -> u64 {
        let credit = self.max_offset.saturating_sub(self.offset);
        credit.min(self.queued_bytes as u64)
    }

    /// Returns whether a writer that was refused may try again: once half of the capacity is free.
    pub(crate) fn take_writable(&mut self, capacity: usize) -> bool {
        self.queued_bytes <= capacity / 2 && core::mem::take(&mut self.is_refused)
    }

    /// Returns the next message, of `max_bytes` at most and no more data than `session_credit`, in
    /// two parts.
    pub(crate) fn next(
        &mut self,
        id: StreamId,
        max_bytes: usize,
        session_credit: u64,
        head: &mut Vec<u8>,
    ) -> Option<Bytes> {
        if !self.is_ready() {
            return None;
        }
        let room = max_bytes.saturating_sub(MAX_HEADER_BYTES).max(1);
        let credit = self
            .max_offset
            .saturating_sub(self.offset)
            .min(session_credit);
        let length = self.queued_bytes.min(room).min(credit as usize);
        let is_last = self.state == State::Ending && length == self.queued_bytes;
        let header = Message::Data {
            id,
            offset: self.offset,
            is_last,
            bytes: Bytes::new(),
        };
        header.write(head);
        let bytes = self.take(length);
        if is_last {
            self.state = State::Ended;
        }
        Some(bytes)
    }

    /// Takes `count` of the waiting bytes.
    fn take(&mut self, count: usize) -> Bytes {
        self.queued_bytes -= count;
        self.offset += count as u64;
        match self.queue.front_mut() {
            Some(first) if count < first.len() => first.split_to(count),
            Some(first) if count == first.len() => self.queue.pop_front().unwrap_or_default(),
            _ => self.gather(count),
        }
    }

    /// Takes bytes from several pieces.
    fn gather(&mut self, count: usize) -> Bytes {
        let mut gathered = Vec::with_capacity(count);
        while gathered.len() < count
            && let Some(first) = self.queue.front_mut()
        {
            let taken = first.len().min(count - gathered.len());
            gathered.extend_from_slice(&first.split_to(taken));
            if first.is_empty() {
                self.queue.pop_front();
            }
        }
        gathered.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_credit_is_reported_once() {
        let mut half = SendHalf::new(0);
        assert_eq!(half.take_blocked(), None, "nothing to send");
        half.write(&[7; 10], 100);
        assert_eq!(half.take_blocked(), Some(0));
        assert_eq!(half.take_blocked(), None, "again");
        half.on_credit(5);
        assert_eq!(half.take_blocked(), None, "there is credit");
        assert!(half.is_ready());
    }

    #[test]
    fn a_refused_writer_is_asked_again_at_half_of_the_capacity() {
        let mut half = SendHalf::new(100);
        assert_eq!(half.write(&[7; 150], 100), Some(100));
        half.take(49);
        assert!(!half.take_writable(100), "51 bytes wait");
        half.take(1);
        assert!(half.take_writable(100), "50 bytes wait");
        assert!(!half.take_writable(100), "once");
    }

    #[test]
    fn credit_is_never_withdrawn() {
        let mut half = SendHalf::new(0);
        half.write(&[7; 10], 100);
        half.on_credit(8);
        half.on_credit(3);
        assert_eq!(half.sendable_bytes(), 8);
    }
}
