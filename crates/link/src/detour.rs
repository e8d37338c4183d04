//! Packets on a longer route, as over routes that share load packet by packet, or after a
//! repetition on the radio.

use anabranch_units::{Duration, Rng, Seed};

/// Random packets arrive later than the others and are overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetourModel {
    /// Share of packets that take it, 0 to 1.
    pub share: f64,
    /// Additional delay of such packets.
    pub delay: Duration,
}

/// A model with its random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Detour {
    model: DetourModel,
    rng: Rng,
}

impl Detour {
    pub(crate) fn new(model: DetourModel, seed: Seed) -> Self {
        Detour {
            model,
            rng: seed.rng(),
        }
    }

    /// Returns the additional delay of the next packet.
    pub(crate) fn next_delay(&mut self) -> Duration {
        if self.rng.chance(self.model.share) {
            self.model.delay
        } else {
            Duration::ZERO
        }
    }
}
