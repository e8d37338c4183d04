//! The receiving half of a stream, which puts its bytes in order.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::chunks::Chunks;
use crate::violation::Violation;

/// Bytes that have arrived and are unread.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    /// Bytes that can be read.
    ready: Chunks,
    /// Bytes that have arrived beyond a gap, by offset.
    ahead: BTreeMap<u64, Bytes>,
    held: Held,
    /// Offset below which all bytes have arrived.
    offset: u64,
    /// Offset below which all bytes have been read.
    read_offset: u64,
    /// The offset behind the last byte that has arrived.
    highest: u64,
    /// Offset up to which the peer may send.
    announced_max_offset: u64,
    /// Number of bytes by which the peer may be ahead of the reader.
    window_bytes: u64,
    /// The first credit given by the window's present size.
    grown_at: u64,
    final_offset: Option<u64>,
    state: State,
}

/// Memory of a stream's unread bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    /// Number of messages beyond a gap.
    pub(crate) ahead_count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The peer has given the stream up.
    Reset,
    /// The reader wants no more.
    Stopped,
}

impl ReceiveHalf {
    pub(crate) fn new(window_bytes: u64) -> Self {
        ReceiveHalf {
            ready: Chunks::default(),
            ahead: BTreeMap::new(),
            held: Held::default(),
            offset: 0,
            read_offset: 0,
            highest: 0,
            announced_max_offset: window_bytes,
            window_bytes,
            grown_at: 0,
            final_offset: None,
            state: State::Open,
        }
    }

    /// Takes bytes in. Returns whether there is more for the reader than before.
    pub(crate) fn insert(
        &mut self,
        offset: u64,
        bytes: Bytes,
        is_last: bool,
    ) -> Result<bool, Violation> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.announced_max_offset {
            return Err(Violation::WindowExceeded);
        }
        let contradicts = match self.final_offset {
            Some(known) => end > known || (is_last && end != known),
            None => is_last && end < self.highest,
        };
        let before = self.ahead.range(..end).next_back();
        let overlaps = before.is_some_and(|(start, before)| start + before.len() as u64 > offset);
        // Messages arrive only once, and so do bytes.
        if contradicts || (!bytes.is_empty() && (overlaps || offset < self.offset)) {
            return Err(Violation::Contradiction);
        }
        if is_last {
            self.final_offset = Some(end);
        }
        self.highest = self.highest.max(end);
        if self.state != State::Open {
            return Ok(false);
        }
        if !bytes.is_empty() {
            self.held.bytes += bytes.len() as u64;
            self.ahead.insert(offset, bytes);
        }
        let before = self.offset;
        while let Some(next) = self.ahead.first_entry()
            && *next.key() == self.offset
        {
            let bytes = next.remove();
            self.offset += bytes.len() as u64;
            self.ready.push(bytes);
        }
        self.held.ahead_count = self.ahead.len();
        Ok(before < self.offset || is_last)
    }

    /// Returns the bytes and messages in memory.
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    fn is_complete(&self) -> bool {
        self.final_offset == Some(self.offset)
    }

    /// Returns the next bytes.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let bytes = self.ready.pop()?;
        self.held.bytes -= bytes.len() as u64;
        self.read_offset += bytes.len() as u64;
        Some(bytes)
    }

    /// Returns whether the reader has reached the end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.final_offset == Some(self.read_offset)
    }

    pub(crate) fn is_reset(&self) -> bool {
        self.state == State::Reset
    }

    /// Records that the peer has given up the stream. Returns whether that is new.
    pub(crate) fn on_reset(&mut self) -> bool {
        let is_new = self.state == State::Open && !self.is_complete();
        if is_new {
            self.give_up(State::Reset);
        }
        is_new
    }

    /// Stops the half, as the reader wants no more. Returns whether the peer must be notified.
    pub(crate) fn stop(&mut self) -> bool {
        let is_new = self.state == State::Open && !self.is_complete();
        self.give_up(State::Stopped);
        is_new
    }

    fn give_up(&mut self, state: State) {
        self.state = state;
        self.ready.clear();
        self.ahead.clear();
        self.held = Held::default();
    }

    /// Returns the size of the window.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Returns the offset up to which the peer may send, if it is time to announce it: when half of
    /// the window has been read.
    pub(crate) fn credit(&mut self) -> Option<u64> {
        let announced_left = self.announced_max_offset.saturating_sub(self.read_offset);
        let is_due = self.takes_more() && announced_left <= self.window_bytes / 2;
        is_due.then(|| self.announce())
    }

    /// Handles the peer's notice that its credit ended at `offset` with more to send. If the reader
    /// keeps up, the window limits the stream, and is doubled if `may_grow` permits. Returns the
    /// new credit, if any.
    pub(crate) fn on_blocked(
        &mut self,
        offset: u64,
        may_grow: impl FnOnce(u64) -> bool,
    ) -> Option<u64> {
        let keeps_up = self.offset - self.read_offset <= self.window_bytes / 4;
        // A notice about a credit from before the window grew does not concern this window.
        let is_of_window = offset >= self.grown_at;
        if !is_of_window || !keeps_up || !self.takes_more() || !may_grow(self.window_bytes) {
            return None;
        }
        self.window_bytes *= 2;
        self.grown_at = self.read_offset + self.window_bytes;
        Some(self.announce())
    }

    fn takes_more(&self) -> bool {
        self.state == State::Open && self.final_offset.is_none()
    }

    fn announce(&mut self) -> u64 {
        self.announced_max_offset = self.read_offset + self.window_bytes;
        self.announced_max_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 100;

    /// Returns a half whose peer has sent `bytes` at once.
    fn arrived(bytes: usize) -> ReceiveHalf {
        let mut half = ReceiveHalf::new(WINDOW);
        half.insert(0, vec![7; bytes].into(), false).unwrap();
        half
    }

    #[test]
    fn credit_is_announced_when_half_of_the_window_has_been_read() {
        for (bytes, expected) in [(49, None), (50, Some(150))] {
            let mut half = arrived(bytes);
            assert_eq!(half.credit(), None, "nothing has been read");
            half.read();
            assert_eq!(half.credit(), expected, "{bytes}");
        }
    }

    #[test]
    fn a_window_grows_only_for_a_reader_that_keeps_up() {
        for (bytes, grows) in [(25, true), (26, false)] {
            let mut half = arrived(bytes);
            let credit = half.on_blocked(WINDOW, |_| true);
            assert_eq!(credit.is_some(), grows, "{bytes} are unread");
        }
    }

    #[test]
    fn a_notice_from_before_the_growth_does_not_grow_a_window_again() {
        let mut half = ReceiveHalf::new(WINDOW);
        assert_eq!(half.on_blocked(WINDOW, |_| true), Some(200));
        assert_eq!(half.on_blocked(WINDOW, |_| true), None, "a copy");
        assert_eq!(half.on_blocked(199, |_| true), None);
        assert_eq!(half.on_blocked(200, |_| true), Some(400));
    }

    #[test]
    fn a_stream_that_is_given_up_keeps_no_bytes() {
        let give_up: [fn(&mut ReceiveHalf) -> bool; 2] = [ReceiveHalf::on_reset, ReceiveHalf::stop];
        for give_up in give_up {
            let mut half = arrived(10);
            half.insert(20, vec![7; 10].into(), false).unwrap();
            assert!(give_up(&mut half), "it is new");
            assert_eq!(half.held(), Held::default());
            assert_eq!(half.read(), None);
            assert!(half.ahead.is_empty());
        }
    }

    #[test]
    fn no_end_lies_before_bytes_that_have_arrived() {
        let mut half = ReceiveHalf::new(WINDOW);
        assert_eq!(half.insert(20, vec![7; 10].into(), false), Ok(false));
        let early = half.insert(0, vec![7; 10].into(), true);
        assert_eq!(early, Err(Violation::Contradiction));
        assert_eq!(half.insert(30, Bytes::new(), true), Ok(true));
    }

    #[test]
    fn a_stream_whose_end_is_known_needs_no_credit() {
        let mut half = ReceiveHalf::new(WINDOW);
        half.insert(0, vec![7; 90].into(), true).unwrap();
        half.read();
        assert_eq!(
            (half.credit(), half.on_blocked(WINDOW, |_| true)),
            (None, None)
        );
    }
}
