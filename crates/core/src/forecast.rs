//! "When will this packet arrive?": the one answer that all who decide are given.
//!
//! Schedulers, retransmission, the rescue of what is stuck, late drops, forward error correction,
//! the encoder's target and metered paths ask it and nothing else; only the published schedulers
//! have their sources' own estimates. [`crate::PathView::arrival`] is the question.

use anabranch_units::{DataRate, Duration, Instant};

use crate::path_view::PathView;

/// Which of the packets that wait on a path go before one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is sent for the first time: all that wait.
    First,
    /// It is sent again: those that are sent again too.
    Again,
}

/// When packets will arrive by a path, by what is known of it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// When it was made.
    pub made_at: Instant,
    /// When the pacer lets the next packet go; in the past if it might have gone already.
    pub ready_at: Instant,
    /// No packet takes less time to the receiver: half of the least round-trip time.
    pub least_transit: Duration,
    /// How long a packet takes that leaves now: what is in the network's queues goes before it.
    pub transit: Duration,
    /// By how much it may take longer: two mean deviations of the round-trip time.
    pub doubt: Duration,
    /// How fast packets come out of the path, in the long run of a queue: as its controller
    /// believes, or as they do come where that is less. Never zero.
    pub rate: DataRate,
    /// What waits here to be sent again, and leaves first.
    pub again_bytes: u64,
    /// What is in the network beyond what the path holds without a queue; zero unless more is sent
    /// than comes out.
    pub backed_up_bytes: u64,
}

impl Forecast {
    /// Of a path that is idle and always like this.
    pub fn constant(rtt: Duration, rate: DataRate) -> Self {
        Forecast {
            made_at: Instant::ZERO,
            ready_at: Instant::ZERO,
            least_transit: rtt / 2,
            transit: rtt / 2,
            doubt: Duration::ZERO,
            rate: rate.max(DataRate::from_bits_per_second(1)),
            again_bytes: 0,
            backed_up_bytes: 0,
        }
    }

    /// How long until the pacer lets a packet go.
    pub fn ready_in(&self) -> Duration {
        self.ready_at.saturating_since(self.made_at)
    }

    /// After how long the last of `bytes` bytes arrives that leave from now on.
    pub fn arrival(&self, bytes: u64) -> Duration {
        self.ready_in() + self.transit + self.rate.time_for(bytes)
    }

    /// Whether more is sent than comes out.
    pub fn is_congested(&self) -> bool {
        self.backed_up_bytes > 0
    }
}

impl Default for Forecast {
    /// Of a path of which nothing is known.
    fn default() -> Self {
        Self::constant(PathView::UNKNOWN_RTT, DataRate::ZERO)
    }
}
