//! The place in time of a packet whose service has begun, when the rate changes.

use anabranch_units::Instant;

/// A packet in a queue whose service moves, since the rate has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) entered_at: Instant,
    pub(crate) size_bytes: u32,
    /// End of its service at the old and at the new rate.
    pub(crate) before: Instant,
    pub(crate) after: Instant,
    is_found: bool,
}

impl Moved {
    pub(crate) fn new(
        entered_at: Instant,
        size_bytes: u32,
        before: Instant,
        after: Instant,
    ) -> Self {
        Moved {
            entered_at,
            size_bytes,
            before,
            after,
            is_found: false,
        }
    }
}

/// Returns the move of the packet of this size that entered the queue at `entered_at`, once for
/// each: the last first, since others of that instant may have left the queue. `moves` are in the
/// order of entry.
pub(crate) fn take_move(
    moves: &mut [Moved],
    entered_at: Instant,
    size_bytes: u32,
) -> Option<&Moved> {
    let first = moves.partition_point(|moved| moved.entered_at < entered_at);
    let alike = moves[first..]
        .iter_mut()
        .take_while(|moved| moved.entered_at == entered_at);
    let unfound = alike.filter(|moved| !moved.is_found && moved.size_bytes == size_bytes);
    let found = unfound.last()?;
    found.is_found = true;
    Some(found)
}

/// Returns the bytes of a packet that have not been sent at `now`, if its service lasts from
/// `starts_at` to `ends_at`.
pub(crate) fn unsent_bytes(
    now: Instant,
    starts_at: Instant,
    ends_at: Instant,
    size_bytes: u32,
) -> u32 {
    if now <= starts_at {
        return size_bytes;
    }
    let total = u128::from(ends_at.saturating_since(starts_at).as_nanos());
    let left = u128::from(ends_at.saturating_since(now).as_nanos());
    if total == 0 {
        return 0;
    }
    let unsent = (u128::from(size_bytes) * left).div_ceil(total);
    u32::try_from(unsent).unwrap_or(size_bytes).min(size_bytes)
}
