//! Limits of a receiver on public-key work by peer and in total.
//!
//! A handshake costs a receiver hundreds of microseconds, and anybody who knows its public key can
//! request one from any address. Therefore the number per second is limited. While handshakes are
//! in demand, an initiator first proves that it receives at its address (a cookie), and each
//! network has its own share. A receiver that allows hundreds of senders must do more handshakes,
//! as after a restart, when all come at once. This is WireGuard's scheme (Donenfeld, NDSS 2017,
//! §5.3), with a limit on the total as well.

use std::net::IpAddr;

use anabranch_units::{Bucket, Duration, Instant, Limiter, Limits, Rate};

/// Period of the cookies' secret. A cookie is valid for one to two periods (WireGuard has the
/// same).
const COOKIE_ROTATION: Duration = Duration::from_secs(120);
/// Handshakes of one host that proves its address: two a second, three at once (chosen: a sender
/// asks at most four times in its first two seconds).
const PER_HOST: Rate = Rate {
    burst: 3,
    interval: Duration::from_millis(500),
};
/// Handshakes while a session lives: at 250 to 770 µs each, at most 1.5 % of a processor, and 3 ms
/// in a burst. Known sources have as many.
const WITH_SESSION: Rate = Rate {
    burst: 4,
    interval: Duration::from_millis(50),
};
/// Handshakes while there is no session to disturb: at most 15 % of a processor.
const WITHOUT_SESSION: Rate = Rate {
    burst: 20,
    interval: Duration::from_millis(5),
};
/// Number of peers that `PER_HOST` and `WITH_SESSION` are meant for. Both grow with it …
const PEERS_OF_LIMIT: usize = 8;
/// … up to this factor: 15 % of a processor.
const MAX_SCALE: u32 = 10;
/// Answers that cost no public-key work, cookies and repeated responses: at about 5 µs each, at
/// most a quarter of a processor. Of 100,000 initiations in a second, every second one is answered.
const CHEAP_ANSWERS: Rate = Rate {
    burst: 1_000,
    interval: Duration::from_micros(20),
};

/// Decision on an initiation that bears the first mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Do the handshake.
    Admit,
    /// Answer by a cookie.
    AskForProof,
    /// Drop it: there were too many.
    Refuse,
}

/// Limits of handshakes and of cheap answers.
#[derive(Debug)]
pub struct HandshakeLimiter {
    handshakes: Limiter,
    cheap_answers: Bucket,
    rotate_at: Instant,
    /// Factor of the limits, 1 for few peers.
    scale: u32,
}

impl HandshakeLimiter {
    /// Creates the limiter of a receiver that allows `peer_count` peers.
    pub fn new(now: Instant, peer_count: usize) -> Self {
        let scale = scale(peer_count);
        HandshakeLimiter {
            scale,
            handshakes: Limiter::new(limits(false, scale)),
            cheap_answers: Bucket::default(),
            rotate_at: now + COOKIE_ROTATION,
        }
    }

    /// Sets the number of allowed peers.
    pub fn set_peer_count(&mut self, peer_count: usize) {
        self.scale = scale(peer_count);
    }

    /// Decides on an initiation from `source`. `is_proven` returns whether it bears the address's
    /// cookie, and is called only if that matters.
    pub fn judge(
        &mut self,
        now: Instant,
        source: IpAddr,
        has_session: bool,
        is_proven: impl FnOnce() -> bool,
    ) -> Verdict {
        self.handshakes.set_limits(limits(has_session, self.scale));
        // Half is reserved for initiators that prove their address: the others may all be the same.
        if self.handshakes.admit_unproven(now) {
            return Verdict::Admit;
        }
        if is_proven() {
            return if self.handshakes.admit(now, source) {
                Verdict::Admit
            } else {
                Verdict::Refuse
            };
        }
        if self.may_answer(now) {
            Verdict::AskForProof
        } else {
            Verdict::Refuse
        }
    }

    /// Records that a session of an allowed peer has begun from `source`, which then has a share of
    /// its own.
    pub fn trust(&mut self, now: Instant, source: IpAddr) {
        self.handshakes.trust(now, source);
    }

    /// Returns whether one more answer without public-key work may be sent.
    pub fn may_answer(&mut self, now: Instant) -> bool {
        self.cheap_answers.take_if(now, CHEAP_ANSWERS)
    }

    /// Returns whether the cookies' secret must change now.
    pub fn is_rotation_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.rotate_at;
        if is_due {
            self.rotate_at = now + COOKIE_ROTATION;
        }
        is_due
    }
}

fn limits(has_session: bool, scale: u32) -> Limits {
    let total = if has_session {
        WITH_SESSION.times(scale)
    } else {
        WITHOUT_SESSION
    };
    Limits {
        total,
        host: PER_HOST.times(scale),
    }
}

fn scale(peer_count: usize) -> u32 {
    let scale = peer_count.div_ceil(PEERS_OF_LIMIT).max(1);
    u32::try_from(scale).unwrap_or(MAX_SCALE).min(MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: bool = true;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// Returns the number of admitted initiations, out of `count` in a second from `count`
    /// networks.
    fn admitted(limiter: &mut HandshakeLimiter, second: u64, count: u64, is_proven: bool) -> u64 {
        let verdicts = (0..count).map(|at| {
            let now = Instant::from_secs(second) + Duration::from_nanos(1_000_000_000 / count * at);
            let source = IpAddr::from(((at as u128) << 64).to_be_bytes());
            limiter.judge(now, source, SESSION, || is_proven)
        });
        verdicts
            .filter(|verdict| *verdict == Verdict::Admit)
            .count() as u64
    }

    #[test]
    fn a_flood_from_everywhere_gets_the_sessions_limit_and_no_more() {
        for is_proven in [false, true] {
            let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
            admitted(&mut limiter, 1, 100_000, is_proven);
            let admitted = admitted(&mut limiter, 2, 100_000, is_proven);
            assert!((19..=21).contains(&admitted), "{admitted}");
        }
    }

    #[test]
    fn proven_address_is_admitted_in_a_flood() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        for millis in 0..=10_000 {
            let now = Instant::from_millis(millis);
            limiter.judge(now, address(1), SESSION, || false);
        }
        let now = Instant::from_secs(10);
        assert_eq!(
            limiter.judge(now, address(2), SESSION, || false),
            Verdict::AskForProof
        );
        assert_eq!(
            limiter.judge(now, address(2), SESSION, || true),
            Verdict::Admit
        );
    }

    #[test]
    fn one_network_that_proves_its_addresses_leaves_room_for_another() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        let mut admitted = 0;
        for millis in 0..10_000 {
            let now = Instant::from_millis(millis);
            let verdict = limiter.judge(now, address(1), SESSION, || true);
            admitted += u32::from(verdict == Verdict::Admit);
        }
        // Unused handshakes are free for all: half of the bucket asks for no proof.
        assert!(admitted <= 210, "{admitted}");
        let now = Instant::from_secs(10);
        for other in [2, 3] {
            let verdict = limiter.judge(now, address(other), SESSION, || true);
            assert_eq!(verdict, Verdict::Admit, "network {other}");
        }
    }

    #[test]
    fn without_a_flood_nobody_is_asked_for_anything() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        for second in 0..100 {
            let now = Instant::from_secs(second);
            assert_eq!(
                limiter.judge(now, address(1), SESSION, || unreachable!(
                    "no proof is needed"
                )),
                Verdict::Admit
            );
        }
    }

    #[test]
    fn hundreds_of_peers_of_one_network_come_in_within_seconds() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 500);
        let mut admitted = 0;
        for millis in 0..5_000 {
            let now = Instant::from_millis(millis);
            let verdict = limiter.judge(now, address(1), SESSION, || true);
            admitted += u32::from(verdict == Verdict::Admit);
        }
        assert!((500..=1_100).contains(&admitted), "{admitted}");
        limiter.set_peer_count(1);
        assert_eq!(limiter.scale, 1);
    }

    #[test]
    fn answers_are_bounded() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        for number in 0..20_000u128 {
            let source = IpAddr::from((number << 64).to_be_bytes());
            limiter.judge(Instant::ZERO, source, SESSION, || number % 2 == 0);
        }
        assert!(!limiter.may_answer(Instant::ZERO), "1,000 at once");
        assert!(limiter.may_answer(Instant::from_millis(1)));
    }

    #[test]
    fn trusted_address_is_admitted_beside_250_others() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        let known = IpAddr::from([203, 0, 113, 7]);
        limiter.trust(Instant::ZERO, known);
        for millis in 0..60_000_u64 {
            let now = Instant::from_millis(millis);
            let flood = IpAddr::from([10, (millis % 250) as u8, 0, 1]);
            limiter.judge(now, flood, SESSION, || true);
            if millis % 5_000 == 4_999 {
                let verdict = limiter.judge(now, known, SESSION, || true);
                assert_eq!(verdict, Verdict::Admit, "{millis}");
                // Others too, once each of the 250 has been admitted.
                let other = IpAddr::from([172, 16, (millis / 5_000) as u8, 1]);
                let verdict = limiter.judge(now, other, SESSION, || true);
                assert!(millis < 15_000 || verdict == Verdict::Admit, "{millis}");
            }
        }
    }

    #[test]
    fn the_cookies_secret_changes_every_two_minutes() {
        let mut limiter = HandshakeLimiter::new(Instant::ZERO, 1);
        assert!(!limiter.is_rotation_due(Instant::from_secs(119)));
        assert!(limiter.is_rotation_due(Instant::from_secs(120)));
        assert!(!limiter.is_rotation_due(Instant::from_secs(121)));
    }
}
