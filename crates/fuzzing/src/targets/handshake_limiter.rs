//! Initiations from any addresses with any cookies: public-key work and answers stay within their
//! limits, a cookie only proves its own address, and memory does not grow.

use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard};

use anabranch_net::fuzzing::{HandshakeLimiter, Verdict};
use anabranch_secure::{Cookie, Initiator, ParameterBlock, Responder, SecretKey};
use anabranch_units::{Duration, Instant};

use crate::{Bound, Meter, Reader, Target, Writer};

/// Memory of the networks that were admitted within two minutes, 200 a second.
const BOUND: Bound = Bound {
    fixed_bytes: 8 << 20,
    bytes_per_byte: 8,
};
const MAX_ADMITTED_AT_ONCE: u64 = 40;
const MAX_ADMITTED_PER_SECOND: u64 = 200;
const MAX_CHEAP_AT_ONCE: u64 = 1_000;
const MAX_CHEAP_PER_SECOND: u64 = 50_000;

/// A stranger that knows the receiver's public key, and the receiver's answers. Making their keys
/// takes longer than judging an input.
struct Stranger {
    responder: Mutex<Responder>,
    initiator: Initiator,
}

static STRANGER: LazyLock<Stranger> = LazyLock::new(|| {
    let (receiver, sender) = (SecretKey::generate(), SecretKey::generate());
    let parameters = ParameterBlock::default();
    Stranger {
        initiator: Initiator::new(&sender, &receiver.public_key(), 1, parameters),
        responder: Mutex::new(Responder::new(receiver, [])),
    }
});

struct Bed {
    limiter: HandshakeLimiter,
    responder: MutexGuard<'static, Responder>,
    now: Instant,
    has_session: bool,
    /// A cookie, the address that it was given to, and the number of changes of the secret until
    /// then.
    cookies: Vec<(Cookie, SocketAddr, u64)>,
    rotation_count: u64,
    admitted: u64,
    answered: u64,
}

impl Bed {
    fn new() -> Self {
        Bed {
            limiter: HandshakeLimiter::new(Instant::ZERO, 1),
            responder: STRANGER.responder.lock().expect("the first panic ends all"),
            now: Instant::ZERO,
            has_session: false,
            cookies: Vec::new(),
            rotation_count: 0,
            admitted: 0,
            answered: 0,
        }
    }

    fn count(&mut self, verdict: Verdict) {
        self.admitted += u64::from(verdict == Verdict::Admit);
        self.answered += u64::from(verdict == Verdict::AskForProof);
    }

    /// Takes one step; `None` at the end.
    fn step(&mut self, input: &mut Reader<'_>) -> Option<()> {
        match input.u8()? % 6 {
            0 => self.now += Duration::from_millis(input.u16()?.into()),
            1 => self.has_session = input.u8()? % 2 == 1,
            2 => self.limiter.set_peer_count(input.u16()?.into()),
            3 => self.initiation(source(input)?, input.u8()?),
            4 => self.anything(source(input)?, input.bytes()?),
            _ => self.flood(input.u8()?, input.u16()?, input.u16()?),
        }
        if self.limiter.is_rotation_due(self.now) {
            self.responder.rotate_cookies();
            self.rotation_count += 1;
        }
        Some(())
    }

    /// Handles an initiation with one of the cookies, or none.
    fn initiation(&mut self, source: SocketAddr, which: u8) {
        let initiator = &STRANGER.initiator;
        let cookie = self.cookies.get(usize::from(which));
        let message = cookie.map_or_else(
            || initiator.message().to_vec(),
            |it| initiator.message_with(&it.0),
        );
        assert_eq!(self.responder.screen(&message), Ok(()));
        let is_good = cookie
            .is_some_and(|(_, to, rotation)| *to == source && self.rotation_count <= rotation + 1);
        assert_eq!(self.responder.proves_address(source, &message), is_good);
        let verdict = self
            .limiter
            .judge(self.now, source.ip(), self.has_session, || is_good);
        self.count(verdict);
        if verdict == Verdict::AskForProof {
            let reply = self
                .responder
                .cookie_reply(source, &message)
                .expect("it has the mark");
            assert!(reply.len() < message.len());
            let cookie = initiator
                .handle_cookie_reply(&reply)
                .expect("its own reply");
            self.cookies.truncate(7);
            self.cookies.push((cookie, source, self.rotation_count));
        }
    }

    /// Handles a datagram that this target did not make.
    fn anything(&mut self, source: SocketAddr, datagram: &[u8]) {
        if self.responder.screen(datagram).is_ok() {
            assert_eq!(datagram, STRANGER.initiator.message());
        }
        assert!(!self.responder.proves_address(source, datagram));
        if let Some(notice) = self.responder.version_notice(datagram) {
            assert!(notice.len() < datagram.len());
        }
    }

    /// Sends initiations of many networks, all or none of which prove their address.
    fn flood(&mut self, kind: u8, count: u16, micros: u16) {
        for number in 0..count % 1_024 {
            self.now += Duration::from_micros(micros.into());
            let host = u128::from(number) << (64 * u32::from(kind % 2));
            let source = host.to_be_bytes().into();
            let verdict = self
                .limiter
                .judge(self.now, source, self.has_session, || kind & 2 != 0);
            self.count(verdict);
            self.answered += u64::from(kind & 4 != 0 && self.limiter.may_answer(self.now));
        }
    }

    fn check(&self) {
        fn of(at_once: u64, per_second: u64, millis: u64) -> u64 {
            at_once + 1 + per_second * millis / 1_000
        }

        let millis = self.now.as_nanos() / 1_000_000 + 1;
        let max = of(MAX_ADMITTED_AT_ONCE, MAX_ADMITTED_PER_SECOND, millis);
        assert!(
            self.admitted <= max,
            "{} of {max} in {millis} ms",
            self.admitted
        );
        let max = of(MAX_CHEAP_AT_ONCE, MAX_CHEAP_PER_SECOND, millis);
        assert!(
            self.answered <= max,
            "{} of {max} in {millis} ms",
            self.answered
        );
    }
}

fn source(input: &mut Reader<'_>) -> Option<SocketAddr> {
    let [host, port] = [input.u8()?, input.u8()?];
    Some(([192, 0, 2, host], u16::from(port)).into())
}

fn seeds() -> Vec<Vec<u8>> {
    let none = 255;
    let session = Writer::default().raw([1, 1]);
    let asked = (0..4).fold(session, |seed, _| seed.raw([3, 1, 1, none]));
    let proven = asked
        .raw([3, 1, 1, 0])
        .raw([3, 2, 1, 0])
        .raw([0])
        .u16(60_000)
        .raw([0])
        .u16(60_000);
    let later = proven.raw([3, 1, 1, 0]).raw([4, 1, 1]).bytes([1; 166]);
    let flood = Writer::default()
        .raw([2])
        .u16(500)
        .raw([5, 7])
        .u16(2_000)
        .u16(10);
    vec![
        later.done(),
        flood.raw([1, 1, 5, 1]).u16(4_000).u16(0).done(),
    ]
}

/// The target.
pub const TARGET: Target = Target {
    name: "handshake_limiter",
    bound: BOUND,
    prepare: prepare_shared,
    seeds,
    run,
};

fn prepare_shared() {
    LazyLock::force(&STRANGER);
}

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let (mut bed, mut input) = (Bed::new(), Reader::new(bytes));
    while bed.step(&mut input).is_some() {}
    bed.check();
    meter.check(bytes.len() + (bed.now.as_nanos() / 1_000_000_000) as usize);
}
