//! An allowed peer that is no honest program: it shakes hands, and seals anything.

use std::net::SocketAddr;

use anabranch_controllers::default_controller;
use anabranch_core::{Config, DatagramMeta, Frame, MediaSession, PathId, PathOptions};
use anabranch_net::testing::{Stranger, World};
use anabranch_net::{SessionKind, SessionParameters};
use anabranch_schedulers::default_scheduler;
use anabranch_secure::{Initiator, Kind, PublicKey, Reply, SecretKey, Session, classify};
use anabranch_units::{Ecn, Importance, Instant, Rng, Seed};

/// Port of its address.
const PORT: u16 = 9_999;
/// Name of its key.
const NAME: &str = "intruder";
/// Longest datagram of random bytes.
const MAX_BYTES: u64 = 1_400;
/// Largest number of datagrams of a tick.
const MAX_COUNT: u64 = 30;
/// Ratio of the studio's bytes to the intruder's before its address is proven.
const MAX_RATIO: u64 = 3;

/// A session with the studio, and an honest transport whose datagrams are altered.
struct Sealed {
    session: Session,
    transport: MediaSession,
}

pub struct Intruder {
    stranger: Stranger,
    studio: SocketAddr,
    key: SecretKey,
    studio_key: PublicKey,
    rng: Rng,
    next_index: u32,
    asking: Option<Initiator>,
    sealed: Option<Sealed>,
    /// Bytes to and from the studio until the first session.
    bytes: [u64; 2],
    session_count: u64,
}

impl Intruder {
    pub fn new(world: &World, studio: SocketAddr, studio_name: &str) -> Intruder {
        Intruder {
            stranger: world.stranger(PORT),
            studio,
            key: world.key(NAME),
            studio_key: world.key(studio_name).public_key(),
            rng: world.seed(NAME).rng(),
            next_index: 1,
            asking: None,
            sealed: None,
            bytes: [0; 2],
            session_count: 0,
        }
    }

    pub fn key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// Takes the studio's answers, and sends media, altered media and random bytes.
    pub fn act(&mut self, now: Instant) {
        for mut datagram in self.stranger.take() {
            self.bytes[1] += datagram.len() as u64;
            self.take(now, &mut datagram);
        }
        if self.session_count == 0 {
            assert!(
                self.bytes[1] <= MAX_RATIO * self.bytes[0],
                "{:?}",
                self.bytes
            );
        }
        if self.sealed.is_none() || self.rng.chance(0.01) {
            self.ask();
        }
        self.send_media(now);
        for _ in 0..self.rng.below(MAX_COUNT) {
            let bytes = self.any_bytes();
            self.seal(&bytes);
        }
    }

    /// Checks that it had sessions: the studio lets it in.
    pub fn check_sessions(&self) {
        assert!(self.session_count > 0, "the intruder had no session");
    }

    /// Requests another session, mostly with the message of before.
    fn ask(&mut self) {
        if self.asking.is_none() || self.rng.chance(0.1) {
            let kind = SessionKind::ALL[self.rng.below(3) as usize];
            let parameters = SessionParameters::of(kind).to_block();
            let index = self.next_index;
            self.next_index += 1;
            let asking = Initiator::new(&self.key, &self.studio_key, index, parameters);
            self.asking = Some(asking);
        }
        if let Some(asking) = &self.asking
            && self.rng.chance(0.2)
        {
            let message = asking.message().to_vec();
            self.send(&message);
        }
    }

    fn take(&mut self, now: Instant, datagram: &mut [u8]) {
        match classify(datagram) {
            Some(Kind::Response) => {
                let asking = self.asking.as_mut();
                let reply = asking.and_then(|asking| asking.handle_response(datagram).ok());
                if let Some(Reply::Agreed(agreed)) = reply {
                    self.asking = None;
                    self.session_count += 1;
                    let seed = Seed(self.rng.next_u64());
                    self.sealed = Some(Sealed {
                        session: agreed.session,
                        transport: transport(seed, now),
                    });
                }
            }
            Some(Kind::CookieReply) => {
                let asking = self.asking.as_ref();
                let cookie = asking.and_then(|asking| {
                    let cookie = asking.handle_cookie_reply(datagram).ok()?;
                    Some(asking.message_with(&cookie))
                });
                if let Some(message) = cookie {
                    self.send(&message);
                }
            }
            Some(Kind::Data) => {
                let Some(Sealed { session, transport }) = &mut self.sealed else {
                    return;
                };
                if let Ok(opened) = session.open(datagram) {
                    let meta = DatagramMeta {
                        path: PathId(0),
                        received_at: now,
                        ecn: Ecn::NotEct,
                    };
                    transport.handle_datagram(now, meta, opened.plaintext);
                }
            }
            _ => {}
        }
    }

    /// Sends the datagrams of the honest transport, some of them altered.
    fn send_media(&mut self, now: Instant) {
        let size = self.rng.below(60_000) as usize;
        let mut altered = Vec::new();
        {
            let Some(Sealed { transport, .. }) = &mut self.sealed else {
                return;
            };
            let _ = transport.send_frame(now, &Frame::new(vec![7; size], Importance::Key, now));
            transport.handle_timeout(now);
            let mut datagram = Vec::new();
            while transport.poll_transmit(now, &mut datagram).is_some() {
                altered.push(core::mem::take(&mut datagram));
            }
            while transport.poll_event().is_some() {}
        }
        for mut datagram in altered {
            self.alter(&mut datagram);
            self.seal(&datagram);
        }
    }

    fn alter(&mut self, datagram: &mut Vec<u8>) {
        let length = datagram.len() as u64;
        match self.rng.below(6) {
            0 if length > 0 => {
                // The headers' fields are at the beginning.
                let at = self.rng.below(length.min(24)) as usize;
                datagram[at] = self.rng.next_u64() as u8;
            }
            1 => datagram.truncate(self.rng.below(length + 1) as usize),
            2 => datagram.extend(self.any_bytes()),
            _ => {}
        }
    }

    fn any_bytes(&mut self) -> Vec<u8> {
        let length = 1 + self.rng.below(MAX_BYTES);
        let mut bytes: Vec<u8> = (0..length).map(|_| self.rng.next_u64() as u8).collect();
        // Kinds of packets have small numbers.
        bytes[0] = self.rng.below(16) as u8;
        bytes
    }

    /// Sends a plaintext, sealed for any path, and sometimes twice.
    fn seal(&mut self, plaintext: &[u8]) {
        let path = if self.rng.chance(0.8) {
            0
        } else {
            self.rng.below(9) as u8
        };
        let Some(Sealed { session, .. }) = &mut self.sealed else {
            return;
        };
        let mut datagram = Vec::new();
        // There may be fewer paths.
        if session.seal_append(path, plaintext, &mut datagram).is_ok() {
            self.send(&datagram);
            if self.rng.chance(0.02) {
                self.send(&datagram);
            }
        }
    }

    fn send(&mut self, datagram: &[u8]) {
        self.bytes[0] += datagram.len() as u64;
        self.stranger.send(self.studio, datagram);
    }
}

fn transport(seed: Seed, now: Instant) -> MediaSession {
    let config = Config::new(default_controller(), default_scheduler());
    let mut session = MediaSession::new(config, seed, now).expect("the usual set-up");
    session.add_path(now, PathOptions::default());
    session
}
