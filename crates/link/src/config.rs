//! What a link is made from.

use core::fmt;

use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::link::Link;
use crate::loss::LossModel;
use crate::queue::QueueLimit;

/// One direction of a link. The default is a perfect one: no limit, no delay, no loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Rate of the bottleneck; `None` has no limit.
    pub rate: Option<DataRate>,
    /// Rates that hold from an instant on, in any order. At rate zero nothing is sent and nothing
    /// lost.
    pub rate_schedule: Vec<(Instant, DataRate)>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Propagation delays that hold from an instant on, in any order.
    pub delay_schedule: Vec<(Instant, Duration)>,
    /// How much the drop-tail queue before the bottleneck holds.
    pub queue: QueueLimit,
    /// Losses behind the bottleneck.
    pub loss: LossModel,
    /// When the link goes down, and for how long; see [`Outage`](crate::Outage).
    pub outages: Vec<(Instant, Duration)>,
}

impl LinkConfig {
    /// An idle link. Its chance comes from `seed` alone.
    ///
    /// # Errors
    /// A probability outside 0..=1.
    pub fn build(&self, seed: Seed) -> Result<Link, LinkConfigError> {
        match self.loss.invalid_probability() {
            Some(probability) => Err(LinkConfigError::Probability(probability)),
            None => Ok(Link::new(self, seed)),
        }
    }
}

/// Why a link cannot be built.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// A probability of the loss model is outside 0..=1.
    Probability(f64),
}

impl fmt::Display for LinkConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkConfigError::Probability(value) => {
                write!(
                    f,
                    "a loss model's probability is {value}: it must lie between 0 and 1"
                )
            }
        }
    }
}

impl core::error::Error for LinkConfigError {}
