//! Resets and their limits: a flood of datagrams of unknown sessions must not double itself.
//!
//! The token of a session index never changes (a responder that was restarted knows nothing else of
//! its sessions). All sources together therefore get 500 a second: in an hour, the tokens of one in
//! 2,386 of the 2³² indices. A peer without a reset asks again after a second of silence.

use anabranch_secure::RESET_BYTES;
use anabranch_units::{Duration, Ecn, Instant, Limiter, Limits, Rate};

use super::ServerRole;
use crate::port::Port;
use crate::socket::{Arrival, Batch};

/// 500 resets a second, of which a host has 100: senders behind one address ask together.
const RESETS: Limits = Limits {
    total: Rate {
        burst: 256,
        interval: Duration::from_millis(2),
    },
    host: Rate {
        burst: 1,
        interval: Duration::from_millis(10),
    },
};

/// Creates the limiter of resets.
pub(super) fn limiter() -> Limiter {
    Limiter::new(RESETS)
}

impl ServerRole {
    /// Notifies the peer with the session `index`, which this end does not have, that it is over.
    /// Its sender then asks for a new one at once.
    pub(super) fn reset(
        &mut self,
        now: Instant,
        index: Option<u32>,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let Some(index) = index else { return };
        let is_longer = datagram.len() > RESET_BYTES;
        if !is_longer || !self.resets.admit(now, arrival.from.ip()) {
            return;
        }
        let reset = self.responder.reset(index);
        let _ = ports[arrival.socket].send(&Batch {
            to: arrival.from,
            from: arrival.to,
            ecn: Ecn::NotEct,
            bytes: &reset,
            datagram_bytes: reset.len(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_millis(millis)
    }

    #[test]
    fn a_source_gets_a_reset_every_ten_milliseconds() {
        let mut resets = limiter();
        let source = IpAddr::from([192, 0, 2, 1]);
        let count = (0..1_000).filter(|millis| resets.admit(at(*millis), source));
        assert_eq!(count.count(), 100);
    }

    #[test]
    fn one_source_that_floods_does_not_use_up_the_others_resets() {
        let mut resets = limiter();
        let flooding = IpAddr::from([198, 51, 100, 1]);
        let mut answered = 0;
        for millis in 0..10_000 {
            resets.admit(at(millis), flooding);
            let other = IpAddr::from([192, 0, 2, 1]);
            answered += usize::from(millis % 10 == 9 && resets.admit(at(millis), other));
        }
        assert_eq!(answered, 1_000);
    }

    #[test]
    fn all_sources_together_collect_few_tokens() {
        let mut resets = limiter();
        let mut collected = 0;
        for millis in 0..10_000 {
            for number in 0..400_u32 {
                let source = IpAddr::from([10, (number % 250) as u8, (millis % 250) as u8, 1]);
                collected += u64::from(resets.admit(at(millis), source));
            }
        }
        assert!(collected <= 10 * 500 + 256, "{collected} in 10 s");
    }
}
