//! A receiver that has registered at the relay.

use std::net::{IpAddr, SocketAddr};

use anabranch_secure::{Screen, Session};
use anabranch_units::{DataRate, Duration, Instant};

use crate::random;

/// Silence of a receiver after which it is forgotten: it pings every ten seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// Least time between two challenges of a receiver's new address.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(250);
/// Time of a rate that may come at once.
const BURST: Duration = Duration::from_millis(500);

/// Ends of datagrams between a receiver and the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) receiver: SocketAddr,
    /// Local address of the relay.
    pub(super) local: Option<IpAddr>,
}

/// An address that a receiver may have got from its NAT, and the challenge that was sent there.
#[derive(Clone, Copy, Debug)]
struct Trial {
    ends: Ends,
    number: u64,
    began_at: Instant,
}

/// A receiver's registration.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) session: Session,
    pub(super) ends: Ends,
    /// Checks of initiations for the receiver.
    pub(super) screen: Screen,
    trial: Option<Trial>,
    heard_at: Instant,
    /// Time at which all carried bytes are within the rate.
    carried_until: Instant,
    /// Bytes of datagrams that were carried to the receiver and from it.
    pub(super) carried_bytes: u64,
    /// Datagrams that were dropped, as the rate or an allowance was used up.
    pub(super) dropped_count: u64,
}

impl Registration {
    pub(super) fn new(now: Instant, session: Session, ends: Ends, screen: Screen) -> Self {
        Registration {
            session,
            ends,
            screen,
            trial: None,
            heard_at: now,
            carried_until: Instant::ZERO,
            carried_bytes: 0,
            dropped_count: 0,
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.heard_at + SILENCE
    }

    /// Records an authentic datagram. Returns the number of a challenge to be sent to its source,
    /// if that is a new address.
    pub(super) fn hear(&mut self, now: Instant, ends: Ends) -> Option<u64> {
        self.heard_at = now;
        if ends == self.ends
            || self
                .trial
                .as_ref()
                .is_some_and(|trial| now < trial.began_at + CHALLENGE_INTERVAL)
        {
            return None;
        }
        let number = random::token();
        self.trial = Some(Trial {
            ends,
            number,
            began_at: now,
        });
        Some(number)
    }

    /// Takes the answer to a challenge, which only its recipient can know.
    pub(super) fn take_answer(&mut self, ends: Ends, number: u64) {
        if let Some(trial) = self
            .trial
            .take_if(|trial| trial.ends == ends && trial.number == number)
        {
            self.ends = trial.ends;
        }
    }

    /// Returns whether `bytes` are within the rate; if so, counts them as carried.
    pub(super) fn may_carry(&mut self, now: Instant, bytes: usize, rate: DataRate) -> bool {
        let until = self.carried_until.max(now) + rate.time_for(bytes as u64);
        let is_within = until <= now + BURST;
        if is_within {
            self.carried_until = until;
            self.carried_bytes += bytes as u64;
        } else {
            self.dropped_count += 1;
        }
        is_within
    }
}
