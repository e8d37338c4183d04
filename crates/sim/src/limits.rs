//! Limits on the work and the memory of a world, whose network a stranger may have described.

/// Limits of a world, for all its flows together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most steps: packets that leave, arrivals, frames and timers of flows.
    pub steps: u64,
    /// Most packets in flight at a time, those in queues included.
    pub packets_in_flight: u64,
}

/// The limit that a world has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    /// [`Limits::steps`].
    Steps(u64),
    /// [`Limits::packets_in_flight`].
    PacketsInFlight(u64),
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        steps: u64::MAX,
        packets_in_flight: u64::MAX,
    };

    /// Returns the limit that these numbers exceed, if any.
    pub fn reached(self, steps: u64, packets_in_flight: u64) -> Option<ReachedLimit> {
        if steps > self.steps {
            Some(ReachedLimit::Steps(self.steps))
        } else if packets_in_flight > self.packets_in_flight {
            Some(ReachedLimit::PacketsInFlight(self.packets_in_flight))
        } else {
            None
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::NONE
    }
}
