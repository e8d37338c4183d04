//! Order of datagrams in groups: a lost datagram delays its own group alone.
//!
//! ```text
//! byte 0     1 if it has a group, otherwise 0
//! bytes 1–6  if it has: u16 group; u16 distance, in frames, to the one before it in its group, or
//!            0 if there is none; u16 lifetime in milliseconds
//! then       the datagram
//! ```
//!
//! Integers are big-endian. The session hands frames out as they become whole. An ordered datagram
//! is handed out once the one before it was, or will not come: because the session has settled that
//! frame, or because its own lifetime is over. One that comes after a later one of its group is
//! dropped, as the session's own order would do.

use std::collections::BTreeMap;

use anabranch_core::FrameId;
use anabranch_units::{Duration, Instant};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{MAX_QUEUED_BYTES, OVERHEAD_BYTES};

/// Length of the header of a datagram that has a group.
pub(super) const MAX_HEADER_BYTES: u16 = 7;
/// Maximum memory of datagrams that are held back, as much as in a queue of the channel. Beyond it
/// the oldest goes ahead.
const MAX_HELD_BYTES: usize = MAX_QUEUED_BYTES;
/// Maximum number of groups that hold datagrams back, and number from which groups whose last frame
/// is long settled are forgotten: a little more than a tunnel has flows.
const MAX_GROUPS: usize = 2_048;

/// Transport of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Number of the datagrams among which this one keeps its place. Without a group, the receiver
    /// hands it out when it has arrived.
    pub group: Option<u16>,
    /// Time after which it is worthless, to the millisecond, if that is less than the session's
    /// [`deadline`](anabranch_core::MediaConfig::deadline).
    pub lifetime: Option<Duration>,
}

/// The sender's groups.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Number of the next frame.
    next: u64,
    /// The newest frame of each group.
    newest: BTreeMap<u16, u64>,
}

impl Numbering {
    /// Returns the frame of a datagram that will be the session's next.
    pub(super) fn write(
        &self,
        options: DatagramOptions,
        session_deadline: Duration,
        datagram: &[u8],
    ) -> Bytes {
        let mut bytes = BytesMut::with_capacity(usize::from(MAX_HEADER_BYTES) + datagram.len());
        bytes.put_u8(u8::from(options.group.is_some()));
        if let Some(group) = options.group {
            bytes.put_u16(group);
            let before = self.newest.get(&group).map(|newest| self.next - newest);
            // A receiver has settled a frame that is so far behind.
            let distance = before.and_then(|distance| u16::try_from(distance).ok());
            bytes.put_u16(distance.unwrap_or(0));
            let lifetime = options.lifetime.unwrap_or(session_deadline);
            bytes.put_u16(u16::try_from(lifetime.as_millis()).unwrap_or(u16::MAX));
        }
        bytes.put_slice(datagram);
        bytes.freeze()
    }

    /// Records that the datagram was sent as this frame.
    pub(super) fn on_sent(&mut self, options: DatagramOptions, frame: FrameId) {
        self.next = frame.0 + 1;
        if let Some(group) = options.group {
            self.newest.insert(group, frame.0);
            if self.newest.len() > MAX_GROUPS {
                let next = self.next;
                self.newest
                    .retain(|_, newest| next - *newest <= u64::from(u16::MAX));
            }
        }
    }
}

/// A frame that has arrived.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) frame: FrameId,
    /// Earliest time at which it could have arrived, by this end's clock.
    pub(super) sent_at: Instant,
    pub(super) bytes: Bytes,
}

/// A datagram of a group.
#[derive(Debug)]
struct Ordered {
    group: u16,
    /// Frame of the one before it in its group.
    before: Option<u64>,
    /// When it is handed out whatever is missing.
    due_at: Instant,
    datagram: Bytes,
}

impl Ordered {
    fn held_bytes(&self) -> usize {
        self.datagram.len() + OVERHEAD_BYTES
    }

    /// Returns whether nothing before it is missing. `newest` is the frame of its group that was
    /// handed out last.
    fn is_next(&self, settled: FrameId, newest: Option<&u64>) -> bool {
        self.before
            .is_none_or(|before| before < settled.0 || newest >= Some(&before))
    }

    /// Parses a frame: an ordered datagram, or one without a group. `None` if it is neither.
    fn parse(arrival: Arrival) -> Option<Result<Ordered, Bytes>> {
        let Arrival {
            frame,
            sent_at,
            mut bytes,
        } = arrival;
        match bytes.try_get_u8().ok()? {
            0 => return Some(Err(bytes)),
            1 => {}
            _ => return None,
        }
        let group = bytes.try_get_u16().ok()?;
        let distance = u64::from(bytes.try_get_u16().ok()?);
        let millis = u64::from(bytes.try_get_u16().ok()?);
        Some(Ok(Ordered {
            group,
            before: if distance > 0 {
                frame.0.checked_sub(distance)
            } else {
                None
            },
            due_at: sent_at + Duration::from_millis(millis),
            datagram: bytes,
        }))
    }
}

/// The receiver's groups.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The newest frame of each group that was handed out.
    newest: BTreeMap<u16, u64>,
    /// Datagrams that wait for an earlier one of their group, by frame.
    held: BTreeMap<u16, BTreeMap<u64, Ordered>>,
    held_bytes: usize,
    /// Number of groups from which the settled ones are forgotten.
    most_groups: usize,
}

impl Order {
    /// Takes a frame. Appends to `out` the datagrams that can be handed out. All frames before
    /// `settled` have been handed out or given up.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        settled: FrameId,
        arrival: Arrival,
        out: &mut Vec<Bytes>,
    ) {
        let frame = arrival.frame.0;
        let ordered = match Ordered::parse(arrival) {
            None => return,
            Some(Err(datagram)) => return out.push(datagram),
            Some(Ok(ordered)) => ordered,
        };
        let group = ordered.group;
        if self.newest.get(&group) >= Some(&frame) {
            return;
        }
        self.held_bytes += ordered.held_bytes();
        self.held.entry(group).or_default().insert(frame, ordered);
        self.release_group(now, settled, group, out);
        while self.held_bytes > MAX_HELD_BYTES || self.held.len() > MAX_GROUPS {
            self.release_oldest(out);
        }
        self.forget_settled(settled);
    }

    /// Appends the datagrams to `out` that need not be held back any more.
    pub(super) fn release(&mut self, now: Instant, settled: FrameId, out: &mut Vec<Bytes>) {
        let groups: Vec<u16> = self.held.keys().copied().collect();
        for group in groups {
            self.release_group(now, settled, group, out);
        }
    }

    /// Returns when a datagram is due that is held back.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let firsts = self.held.values().filter_map(|held| held.values().next());
        firsts.map(|first| first.due_at).min()
    }

    fn release_group(&mut self, now: Instant, settled: FrameId, group: u16, out: &mut Vec<Bytes>) {
        while let Some(first) = self.held.get(&group).and_then(|held| held.values().next())
            && (first.due_at <= now || first.is_next(settled, self.newest.get(&group)))
        {
            self.release_first(group, out);
        }
    }

    /// Forgets groups without a frame that may still hold up others. The limit doubles with the
    /// groups that stay, so that the walk costs little per frame.
    fn forget_settled(&mut self, settled: FrameId) {
        if self.newest.len() > self.most_groups.max(MAX_GROUPS) {
            self.newest.retain(|_, newest| *newest >= settled.0);
            self.most_groups = 2 * self.newest.len();
        }
    }

    fn release_oldest(&mut self, out: &mut Vec<Bytes>) {
        let oldest = self
            .held
            .iter()
            .filter_map(|(group, held)| held.keys().next().map(|frame| (*frame, *group)))
            .min();
        if let Some((_, group)) = oldest {
            self.release_first(group, out);
        }
    }

    /// Hands out the first datagram that a group holds.
    fn release_first(&mut self, group: u16, out: &mut Vec<Bytes>) {
        let Some(held) = self.held.get_mut(&group) else {
            return;
        };
        let first = held.pop_first();
        if held.is_empty() {
            self.held.remove(&group);
        }
        if let Some((frame, ordered)) = first {
            self.held_bytes -= ordered.held_bytes();
            self.newest.insert(group, frame);
            out.push(ordered.datagram);
        }
    }
}

#[cfg(test)]
mod tests;
