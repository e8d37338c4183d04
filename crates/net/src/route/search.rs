//! The choice of the peer's address among the sources of a path's datagrams, while none has
//! answered.
//!
//! If a bystander copies every datagram from the first one on, and is faster, it is heard first:
//! the peer's own datagrams are then replays. So each source is challenged, even that of a replay,
//! and the first one to answer is the peer's.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_units::Instant;
use ring::hmac;

use super::{Address, CHALLENGE_INTERVAL, Challenge, Heard, Token};

/// Number of sources that are not challenged again at once. A bystander with more addresses
/// displaces them, and gets a challenge for each of its datagrams: no more than it sends.
const MAX_RECENT: usize = 16;
/// Maximum number of challenges that wait for sending, which follows each batch of datagrams.
const MAX_DUE: usize = 64;

/// Challenges to all sources.
#[derive(Debug)]
pub(super) struct Search {
    key: hmac::Key,
    recent: VecDeque<(Challenge, Instant)>,
    due: Vec<Challenge>,
}

impl Search {
    pub(super) fn new(key: hmac::Key) -> Self {
        Search {
            key,
            recent: VecDeque::new(),
            due: Vec::new(),
        }
    }

    /// Records an authentic datagram, new or not.
    pub(super) fn hear(&mut self, now: Instant, heard: &Heard) {
        let (from, max_bytes) = (heard.from, heard.allowance_bytes());
        let known = self.recent.iter_mut().find(|(known, _)| known.to == from);
        let challenge = match known {
            Some((_, at)) if now < *at + CHALLENGE_INTERVAL => return,
            Some((challenge, at)) => {
                *at = now;
                challenge.max_bytes = max_bytes;
                *challenge
            }
            None => {
                let token = token_of(&self.key, &from);
                let challenge = Challenge {
                    to: from,
                    token,
                    max_bytes,
                };
                self.recent.truncate(MAX_RECENT - 1);
                self.recent.push_front((challenge, now));
                challenge
            }
        };
        if self.due.len() < MAX_DUE {
            self.due.push(challenge);
        }
    }

    /// Returns the challenges to be sent now.
    pub(super) fn take_due(&mut self) -> Vec<Challenge> {
        core::mem::take(&mut self.due)
    }

    /// Returns the address that this token was sent to, if any. Tokens follow from addresses, so
    /// that no number of sources makes an answer worthless.
    pub(super) fn answered(&self, from: Address, token: Token) -> Option<Address> {
        if token_of(&self.key, &from) == token {
            return Some(from);
        }
        let challenges = self.recent.iter().map(|(challenge, _)| challenge);
        let mut answered = challenges.filter(|challenge| challenge.token == token);
        answered.next().map(|challenge| challenge.to)
    }
}

/// Adds an address and a number to the context of a token.
fn add(context: &mut hmac::Context, ip: IpAddr, number: u64) {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    context.update(&ip.octets());
    context.update(&number.to_be_bytes());
}

fn token_of(key: &hmac::Key, address: &Address) -> Token {
    let mut context = hmac::Context::with_key(key);
    add(&mut context, address.peer.ip(), address.peer.port().into());
    if let Some(local) = address.local {
        add(&mut context, local, 0);
    }
    context.update(&address.socket.to_be_bytes());
    let tag = context.sign();
    let first = tag.as_ref().first_chunk();
    first.map_or(0, |bytes| Token::from_be_bytes(*bytes))
}
