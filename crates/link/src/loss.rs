//! Random loss.

use anabranch_units::{Duration, Instant, Rng, Seed};

use crate::element::{DropCause, Dropped, Element};
use crate::packet::Packet;

/// Model of random losses. All probabilities are in 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LossModel {
    /// No losses.
    #[default]
    None,
    /// Each packet is lost independently.
    Bernoulli {
        /// Probability that a packet is lost.
        probability: f64,
    },
    /// Losses form bursts: a good and a bad state, between which the link may change after each
    /// packet (Gilbert 1960, Elliott 1963). It starts in the good state. The average stay in the
    /// bad state is 1 / `bad_to_good` packets.
    GilbertElliott {
        /// Probability of the bad state after a packet in the good state.
        good_to_bad: f64,
        /// Probability of the good state after a packet in the bad state.
        bad_to_good: f64,
        /// Probability that a packet is lost in the good state.
        loss_in_good: f64,
        /// Probability that a packet is lost in the bad state.
        loss_in_bad: f64,
    },
}

impl LossModel {
    /// Returns the share of packets lost in the long run.
    pub fn mean_loss_ratio(&self) -> f64 {
        match *self {
            LossModel::None => 0.0,
            LossModel::Bernoulli { probability } => probability,
            LossModel::GilbertElliott {
                good_to_bad: 0.0,
                loss_in_good,
                ..
            } => loss_in_good,
            LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
            } => {
                let bad_share = good_to_bad / (good_to_bad + bad_to_good);
                bad_share * loss_in_bad + (1.0 - bad_share) * loss_in_good
            }
        }
    }

    /// Returns the first probability that is outside 0..=1.
    pub(crate) fn invalid_probability(&self) -> Option<f64> {
        let probabilities = match *self {
            LossModel::None => [0.0; 4],
            LossModel::Bernoulli { probability } => [probability, 0.0, 0.0, 0.0],
            LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
            } => [good_to_bad, bad_to_good, loss_in_good, loss_in_bad],
        };
        probabilities
            .into_iter()
            .find(|probability| !(0.0..=1.0).contains(probability))
    }
}

/// Loses packets at random before they enter the inner element.
#[derive(Clone, Debug)]
pub struct Loss<E> {
    model: LossModel,
    is_bad: bool,
    rng: Rng,
    inner: E,
}

impl<E: Element> Loss<E> {
    /// Creates an element that loses packets by `model` in front of `inner`.
    ///
    /// # Panics
    /// If a probability of `model` is outside 0..=1.
    pub fn new(model: LossModel, seed: Seed, inner: E) -> Self {
        let invalid = model.invalid_probability();
        assert!(invalid.is_none(), "{invalid:?} is no probability");
        Loss {
            model,
            is_bad: false,
            rng: seed.rng(),
            inner,
        }
    }

    /// Returns the element that surviving packets enter.
    pub(crate) fn inner(&self) -> &E {
        &self.inner
    }

    /// The element behind, to change it.
    pub(crate) fn inner_mut(&mut self) -> &mut E {
        &mut self.inner
    }

    /// Lets chance follow another model, in its good state.
    pub(crate) fn set_model(&mut self, model: LossModel) {
        self.model = model;
        self.is_bad = false;
    }

    fn is_next_lost(&mut self) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli { probability } => self.rng.chance(probability),
            LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
            } => {
                let (loss, change) = if self.is_bad {
                    (loss_in_bad, bad_to_good)
                } else {
                    (loss_in_good, good_to_bad)
                };
                let is_lost = self.rng.chance(loss);
                self.is_bad ^= self.rng.chance(change);
                is_lost
            }
        }
    }
}

impl<E: Element> Element for Loss<E> {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        if self.is_next_lost() {
            return Err(Dropped {
                cause: DropCause::RandomLoss,
                at: now,
                packet,
            });
        }
        self.inner.push(now, packet)
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.inner.pop(now)
    }

    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        self.inner.pop_before(now, before)
    }

    fn next_at(&self) -> Option<Instant> {
        self.inner.next_at()
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.inner.take_dropped()
    }

    fn advance(&mut self, now: Instant) {
        self.inner.advance(now);
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        self.inner.flush(now, lost);
    }

    fn held_packets(&self) -> usize {
        self.inner.held_packets()
    }

    fn min_delay(&self) -> Duration {
        self.inner.min_delay()
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        self.inner.earliest_exit(entry)
    }
}
