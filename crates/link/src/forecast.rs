//! Forecasts of a link's effect on new packets, as far as its present state determines it.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::queue::{Capacity, Load};
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;

/// A packet that is on a link, and when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its [`Packet::id`](crate::Packet::id).
    pub id: u64,
    /// Its bytes on the wire.
    pub size_bytes: u32,
    /// Departure from the link.
    pub at: Instant,
}

/// Prediction of departures from a link, made by [`Link::forecast`](crate::Link::forecast) from the
/// queue, the rate, the delay and their changes to come. It is exact for a drop-tail queue. For
/// other disciplines it includes the waiting packets, but not which of them will be dropped or
/// overtaken. Random losses, jitter and future outages are not included.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The transmitter; `None` without a limit on the rate.
    pub(crate) transmitter: Option<Transmitter>,
    /// Capacity of the queue; `None` if the queue's discipline decides.
    pub(crate) capacity: Option<Capacity>,
    /// The queue's packets, and the departures of their last bits.
    pub(crate) queued: VecDeque<(Instant, Load)>,
    /// Time at which the transmitter has sent all of them.
    pub(crate) free_at: Instant,
    pub(crate) delay: Schedule<Duration>,
    /// Whether a packet may leave before those that entered earlier.
    pub(crate) is_overtaking: bool,
    /// Departure of the last packet that entered.
    pub(crate) last_release_at: Instant,
}

impl Forecast {
    /// Passes a packet of `size_bytes` that enters at `entry`, which is not before the last one's.
    /// Returns the time at which it leaves; `None` if the queue has no room for it, or the link
    /// stands still.
    pub fn pass(&mut self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        while self.queued.front().is_some_and(|(at, _)| *at <= entry) {
            self.queued.pop_front();
        }
        let load = Load::of_bytes(size_bytes);
        if !self.has_room(entry, load) {
            return None;
        }
        let sent_at = match &mut self.transmitter {
            Some(transmitter) => sent_at(transmitter, self.free_at, entry, size_bytes),
            None => entry,
        };
        self.free_at = sent_at;
        self.queued.push_back((sent_at, load));
        self.last_release_at = self.release_at(sent_at);
        is_ever(self.last_release_at)
    }

    /// Returns the answer that [`Forecast::pass`] would give.
    pub fn exit_at(&self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        if !self.has_room(entry, Load::of_bytes(size_bytes)) {
            return None;
        }
        let sent_at = match &mut self.transmitter.clone() {
            Some(transmitter) => sent_at(transmitter, self.free_at, entry, size_bytes),
            None => entry,
        };
        is_ever(self.release_at(sent_at))
    }

    fn has_room(&self, entry: Instant, load: Load) -> bool {
        let Some(capacity) = self.capacity else {
            return true;
        };
        let waiting = self.queued.iter().filter(|(at, _)| *at > entry);
        capacity.holds(waiting.fold(load, |sum, (_, load)| sum.plus(*load)))
    }

    pub(crate) fn release_at(&self, sent_at: Instant) -> Instant {
        let release_at = sent_at + self.delay.value_at(sent_at);
        if self.is_overtaking {
            release_at
        } else {
            release_at.max(self.last_release_at)
        }
    }
}

fn sent_at(
    transmitter: &mut Transmitter,
    free_at: Instant,
    entry: Instant,
    size_bytes: u32,
) -> Instant {
    let is_idle = free_at <= entry;
    let start = transmitter.start_at(free_at.max(entry), is_idle);
    transmitter.end_at(start, size_bytes)
}

fn is_ever(at: Instant) -> Option<Instant> {
    (at < Instant::FAR_FUTURE).then_some(at)
}
