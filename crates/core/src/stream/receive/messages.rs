//! Messages that have arrived, and halves of messages.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use crate::fragment::Half;

/// Memory that messages which come one after the other share …
const SHARED_BYTES: usize = 16 << 10;
/// … unless they are shorter: one that its reader leaves keeps at most sixteen times its bytes.
const MIN_SHARED_BYTES: usize = SHARED_BYTES / 16;

/// Messages for their reader, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Messages {
    whole: VecDeque<Bytes>,
    /// Halves whose other half has not arrived, by their offsets. Each borders a gap, so that the
    /// window and the limit of pieces bound them.
    halves: BTreeMap<u64, (Half, Vec<u8>)>,
    /// Room for the next ones.
    room: BytesMut,
}

impl Messages {
    pub(super) fn has_whole(&self) -> bool {
        !self.whole.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.whole.pop_front()
    }

    /// Returns the number of bytes of the message between two offsets that have arrived as a half
    /// of it.
    pub(super) fn half_bytes(&self, from: u64, to: u64) -> u64 {
        let halves = self.halves.range(from..to);
        let own = halves.filter(|(offset, (half, bytes))| match half {
            Half::First => **offset == from,
            Half::Second => **offset + bytes.len() as u64 == to,
        });
        own.map(|(_, (_, bytes))| bytes.len() as u64).sum()
    }

    /// Returns the start of the first half that ends at `end`, if one does.
    pub(super) fn first_before(&self, end: u64) -> Option<u64> {
        let (offset, (half, bytes)) = self.halves.range(..end).next_back()?;
        let ends_here = *half == Half::First && offset + bytes.len() as u64 == end;
        ends_here.then_some(*offset)
    }

    /// Returns whether a second half begins here.
    pub(super) fn is_second_at(&self, offset: u64) -> bool {
        matches!(self.halves.get(&offset), Some((Half::Second, _)))
    }

    /// Takes a message of which no more than one half has arrived.
    pub(super) fn take(&mut self, offset: u64, payload: &[u8]) {
        let end = offset + payload.len() as u64;
        // The usual case is none.
        while let Some(half) = self.halves.range(offset..end).next() {
            let half = *half.0;
            self.halves.remove(&half);
        }
        let message = self.copy(payload);
        self.whole.push_back(message);
    }

    fn copy(&mut self, payload: &[u8]) -> Bytes {
        if payload.len() < MIN_SHARED_BYTES {
            return Bytes::copy_from_slice(payload);
        }
        if self.room.capacity() < payload.len() {
            self.room = BytesMut::with_capacity(SHARED_BYTES.max(payload.len()));
        }
        self.room.extend_from_slice(payload);
        self.room.split().freeze()
    }

    /// Takes one half, which has not arrived before and contradicts nothing.
    pub(super) fn take_half(&mut self, offset: u64, payload: &[u8], half: Half) {
        let end = offset + payload.len() as u64;
        let other = match half {
            Half::First => self.is_second_at(end).then_some(end),
            Half::Second => self.first_before(offset),
        };
        let Some((_, mut message)) = other.and_then(|other| self.halves.remove(&other)) else {
            self.halves.insert(offset, (half, payload.to_vec()));
            return;
        };
        match half {
            Half::First => message.splice(..0, payload.iter().copied()).for_each(drop),
            Half::Second => message.extend_from_slice(payload),
        }
        self.whole.push_back(message.into());
    }

    #[cfg(test)]
    pub(super) fn half_count(&self) -> usize {
        self.halves.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_follow_one_another_share_memory_unless_they_are_short() {
        let mut messages = Messages::default();
        let payloads =
            [1_024, 1_400, 1_023, 1_400, 20_000].map(|length| vec![length as u8; length]);
        for (payload, offset) in payloads.iter().zip([0, 1_024, 2_424, 3_447, 4_847]) {
            messages.take(offset, payload);
        }
        let taken: Vec<Bytes> = core::iter::from_fn(|| messages.pop()).collect();
        assert_eq!(taken, payloads);
        assert_eq!(taken[1].as_ptr(), taken[0].as_ptr_range().end);
        assert_eq!(taken[3].as_ptr(), taken[1].as_ptr_range().end);
        assert!(taken[2].is_unique() && !taken[3].is_unique());
    }
}
