//! Changes of a link while packets are on it.

use anabranch_units::{DataRate, Duration, Instant};

use crate::config::LinkConfigError;
use crate::link::Link;
use crate::loss::LossModel;

/// A change of a running link. It replaces the changes that the configuration schedules for the
/// same property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// Another rate, also in place of a trace. It applies to packets in the queue and to the rest
    /// of the packet in service. The limit of the queue stays.
    Rate(DataRate),
    /// Another propagation delay, one way. It applies to packets that enter the link from now on.
    Delay(Duration),
    /// Another loss model, for packets that enter the link from now on.
    Loss(LossModel),
    /// An outage that begins now: it loses all packets inside, and all that come until [`Up`].
    ///
    /// [`Up`]: LinkChange::Up
    Down,
    /// The end of an outage.
    Up,
}

impl Link {
    /// Applies a change at `now`. The link must have been built by
    /// [`LinkConfig::build_changeable`](crate::LinkConfig::build_changeable).
    ///
    /// # Errors
    /// The change is not valid for this link; nothing has changed.
    pub fn change(&mut self, now: Instant, change: LinkChange) -> Result<(), LinkConfigError> {
        if let LinkChange::Loss(model) = change
            && let Some(probability) = model.invalid_probability()
        {
            return Err(LinkConfigError::Probability(probability));
        }
        if let LinkChange::Delay(delay) = change {
            let needed = self.delay_mut().max_advance();
            if delay < needed {
                return Err(LinkConfigError::JitterExceedsDelay { delay, needed });
            }
        }
        self.apply(now, change);
        Ok(())
    }
}

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
