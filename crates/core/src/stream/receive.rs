//! The receiving half of a stream: puts segments together, whatever their order.

use std::collections::{BTreeMap, VecDeque};

use crate::config::StreamConfig;

/// What has arrived and has not been read.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    /// Bytes from `read_offset` on, with room where some are missing.
    bytes: VecDeque<u8>,
    read_offset: u64,
    /// All bytes below have arrived.
    offset: u64,
    /// What has arrived beyond: start and end of each range, apart from one another.
    beyond: BTreeMap<u64, u64>,
    window_bytes: u64,
    /// The sender has been told that it may send up to here.
    told_max_offset: u64,
    /// Where the stream ends.
    final_offset: Option<u64>,
}

/// What a segment was to the stream: decides how soon it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The next bytes, with none missing and none waiting behind them.
    InOrder,
    /// Bytes beyond a gap, bytes that fill one, bytes that are there already, or the last ones:
    /// the sender shall know at once (RFC 5681 §4.2).
    OutOfTurn,
    /// The sender has disregarded the window or the end of the stream. Nothing was taken.
    Forbidden,
}

impl ReceiveStream {
    pub(super) fn new(window_bytes: u64) -> Self {
        ReceiveStream {
            bytes: VecDeque::new(),
            read_offset: 0,
            offset: 0,
            beyond: BTreeMap::new(),
            window_bytes,
            told_max_offset: StreamConfig::INITIAL_WINDOW_BYTES,
            final_offset: None,
        }
    }

    /// All bytes below have arrived; one more than the length of a stream that is complete.
    pub(crate) fn acked_offset(&self) -> u64 {
        self.offset + u64::from(self.is_complete())
    }

    /// The offset expected next, for completing truncated ones.
    pub(crate) fn expected(&self) -> u64 {
        self.offset
    }

    /// Whether the peer's stream has arrived to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.final_offset == Some(self.offset)
    }

    /// How many bytes can be read.
    pub(crate) fn readable_bytes(&self) -> usize {
        (self.offset - self.read_offset) as usize
    }

    /// Takes a segment in.
    pub(crate) fn insert(&mut self, offset: u64, payload: &[u8], is_last: bool) -> Received {
        let end = offset.saturating_add(payload.len() as u64);
        let contradicts = match self.final_offset {
            Some(final_offset) => end > final_offset || (is_last && end != final_offset),
            None => is_last && end < self.highest(),
        };
        if contradicts || end > self.told_max_offset.max(self.max_offset()) {
            return Received::Forbidden;
        }
        let is_next = offset == self.offset && self.beyond.is_empty() && !is_last;
        if is_last {
            self.final_offset = Some(end);
        }
        self.copy(offset, payload);
        self.merge(offset, end);
        match is_next {
            true => Received::InOrder,
            false => Received::OutOfTurn,
        }
    }

    /// Moves all that can be read to the end of `out`. Returns how many bytes.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>) -> usize {
        let length = self.readable_bytes();
        self.read_offset = self.offset;
        if length == 0 {
            return 0;
        }
        if out.is_empty() && length == self.bytes.len() {
            // Handed over as it is: the next bytes find one that others have just let go.
            *out = core::mem::take(&mut self.bytes).into();
            return length;
        }
        let (first, second) = self.bytes.as_slices();
        let in_first = first.len().min(length);
        out.extend_from_slice(&first[..in_first]);
        out.extend_from_slice(&second[..length - in_first]);
        self.bytes.drain(..length);
        length
    }

    /// Bytes from the acknowledged offset on that the sender may send. Telling them is a promise.
    pub(crate) fn tell_window(&mut self) -> u64 {
        self.told_max_offset = self.told_max_offset.max(self.max_offset());
        self.told_max_offset.saturating_sub(self.acked_offset())
    }

    /// Whether reading has opened the window so far that the sender should know: by half.
    pub(crate) fn is_window_worth_telling(&self) -> bool {
        let is_under_way = self.offset > 0 && self.final_offset.is_none();
        is_under_way && self.max_offset() >= self.told_max_offset + self.window_bytes / 2
    }

    fn max_offset(&self) -> u64 {
        self.read_offset + self.window_bytes
    }

    fn highest(&self) -> u64 {
        self.beyond.values().last().copied().unwrap_or(self.offset)
    }

    /// Puts the bytes in their place; those that were there already are the same.
    fn copy(&mut self, offset: u64, payload: &[u8]) {
        let known = self.offset.saturating_sub(offset).min(payload.len() as u64);
        let payload = &payload[known as usize..];
        if payload.is_empty() {
            return;
        }
        let from = (offset + known - self.read_offset) as usize;
        let length = self.bytes.len();
        if from == length {
            self.bytes.extend(payload);
            return;
        }
        let to = from + payload.len();
        self.bytes.resize(length.max(to), 0);
        let (first, second) = self.bytes.as_mut_slices();
        let in_first = first.len().saturating_sub(from).min(payload.len());
        let (head, tail) = payload.split_at(in_first);
        if !head.is_empty() {
            first[from..from + in_first].copy_from_slice(head);
        }
        if !tail.is_empty() {
            let start = from + in_first - first.len();
            second[start..start + tail.len()].copy_from_slice(tail);
        }
    }

    fn merge(&mut self, offset: u64, end: u64) {
        if offset > self.offset {
            let (mut start, mut end) = (offset, end);
            if let Some((&low, &high)) = self.beyond.range(..=start).next_back()
                && high >= start
            {
                start = low;
                end = end.max(high);
            }
            while let Some((&low, &high)) = self.beyond.range(start..=end).next() {
                self.beyond.remove(&low);
                end = end.max(high);
            }
            if end > start {
                self.beyond.insert(start, end);
            }
            return;
        }
        self.offset = self.offset.max(end);
        while let Some(entry) = self.beyond.first_entry() {
            if *entry.key() > self.offset {
                break;
            }
            self.offset = self.offset.max(entry.remove());
        }
    }
}
