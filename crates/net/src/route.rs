//! The destination of a path's datagrams, and its changes.
//!
//! A datagram that opens proves its author, not its origin: an observer can copy datagrams, send
//! the copies from another address, and be faster. Therefore an address is trusted after it has
//! answered a challenge that was sent there (RFC 9000 §8.2). The address before is challenged as
//! well (§9.3.3): while that one answers, nothing changes.
//!
//! ```text
//!   newer datagram from B         B's answer               a quarter of that time later
//! A ───────────────────▶ A, on trial ──▶ A, to be left ──▶ B, A may still answer ──▶ B
//!                             │ A's answer, or 3 s  │ A's answer      │ A's answer
//!                             ▼                     ▼                 ▼
//!                             A                     A                 A
//! ```
//!
//! If a peer's NAT gave it another address, it is followed one round-trip time and a quarter after
//! its first datagram from there.
//!
//! While no address has answered, at the beginning or after neither has in a trial, all addresses
//! that send authentic datagrams are challenged ([`search`]).

mod search;

use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};
use ring::hmac;

use crate::socket::Arrival;
use search::Search;

/// Limit for a new address to answer.
const TRIAL: Duration = Duration::from_secs(3);
/// Time after which a newer datagram repeats the challenges: one of them may be lost.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(250);
/// Pause before an address that failed is tried again, so that another one can be.
const REFUSAL: Duration = Duration::from_secs(1);
/// Least time for which the old address's answer is awaited beyond the new address's answer.
const MIN_GRACE: Duration = Duration::from_millis(10);
/// Number of bytes that may be sent to an unproven address for each byte received from it (RFC 9000
/// §8.1).
const AMPLIFICATION: u64 = 3;

/// Returns the size of IPv4 and UDP headers: 20 + 8 bytes (RFC 791, RFC 768); with IPv6 40 + 8 (RFC
/// 8200).
pub(crate) fn header_bytes(peer: SocketAddr) -> u32 {
    if peer.ip().to_canonical().is_ipv4() {
        28
    } else {
        48
    }
}

/// The two ends of a path, in this end's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Index of the socket.
    pub(crate) socket: usize,
    pub(crate) peer: SocketAddr,
    /// Local source address, if the socket has several.
    pub(crate) local: Option<IpAddr>,
}

impl Address {
    pub(crate) fn of(arrival: &Arrival) -> Self {
        Address {
            socket: arrival.socket,
            peer: arrival.from,
            local: arrival.to,
        }
    }
}

/// Properties of an authentic datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) from: Address,
    pub(crate) counter: u64,
    pub(crate) datagram_bytes: usize,
    /// Whether the datagram has arrived before, maybe from elsewhere.
    pub(crate) is_copy: bool,
}

impl Heard {
    fn allowance_bytes(&self) -> u64 {
        AMPLIFICATION * self.datagram_bytes as u64
    }
}

/// A number that only a recipient at an address can know.
pub(crate) type Token = u64;

/// A challenge to be sent to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) to: Address,
    pub(crate) token: Token,
    /// Limit of its datagram's length: an unproven address gets three times the bytes of the
    /// datagram that came from there.
    pub(crate) max_bytes: u64,
}

/// The addresses of one path.
#[derive(Debug)]
pub(crate) struct Route {
    address: Address,
    /// Number of bytes that may still be sent there; `None` once the address is proven.
    allowance_bytes: Option<u64>,
    /// Counter of the newest datagram, from any address.
    newest_counter: Option<u64>,
    trial: Option<Trial>,
    /// The search while no address has answered.
    search: Option<Search>,
    /// The key of the tokens of searches; none at an end that has chosen the address.
    search_key: Option<hmac::Key>,
    /// An address that failed, and the time until which it is not tried again.
    refused: Option<(Address, Instant)>,
}

/// The time in which addresses are challenged.
#[derive(Debug)]
struct Trial {
    /// Challenge of the present address or, once the route has moved, of the former one.
    old: Challenge,
    new: Challenge,
    began_at: Instant,
    challenged_at: Instant,
    /// Whether challenges wait for sending.
    is_due: bool,
    /// Time at which the route moves to the new address, which has answered.
    moves_at: Option<Instant>,
    has_moved: bool,
    /// Whether the former address was heard after the route had moved.
    is_old_heard: bool,
}

impl Trial {
    fn new(now: Instant, old: Challenge, new: Challenge) -> Self {
        Trial {
            old,
            new,
            began_at: now,
            challenged_at: now,
            is_due: true,
            moves_at: None,
            has_moved: false,
            is_old_heard: false,
        }
    }

    /// Records a datagram from one of both addresses, and repeats the challenges when it is time.
    fn hear(&mut self, now: Instant, heard: &Heard) {
        self.is_old_heard |= heard.from == self.old.to;
        let is_open = self.moves_at.is_none() || self.has_moved;
        if is_open && now >= self.challenged_at + CHALLENGE_INTERVAL {
            self.challenged_at = now;
            self.is_due = true;
            if heard.from == self.new.to {
                self.new.max_bytes = heard.allowance_bytes();
            }
        }
    }
}

impl Route {
    /// Creates a route to `peer` by a socket that has one address. It is this end's choice, and not
    /// questioned.
    pub(crate) fn to(socket: usize, peer: SocketAddr) -> Self {
        Route {
            address: Address {
                socket,
                peer,
                local: None,
            },
            allowance_bytes: None,
            newest_counter: None,
            trial: None,
            search: None,
            search_key: None,
            refused: None,
        }
    }

    /// Creates a route back to the source of an authentic datagram. `token` returns numbers that
    /// nobody can guess.
    pub(crate) fn back(now: Instant, heard: &Heard, mut token: impl FnMut() -> Token) -> Self {
        let secret = [token(), token()].map(Token::to_be_bytes);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_flattened());
        let mut search = Search::new(key.clone());
        search.hear(now, heard);
        Route {
            address: heard.from,
            allowance_bytes: Some(heard.allowance_bytes()),
            newest_counter: Some(heard.counter),
            trial: None,
            search: Some(search),
            search_key: Some(key),
            refused: None,
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.allowance_bytes.is_none()
    }

    /// Returns whether no address has answered, so that copies of datagrams are worth opening.
    pub(crate) fn is_sought(&self) -> bool {
        self.search.is_some()
    }

    /// Records an authentic datagram of this path. One from another address puts that address on
    /// trial, if the datagram is newer than all before, or a copy: one of the two sources is not
    /// the peer. An older one was only overtaken.
    pub(crate) fn hear(&mut self, now: Instant, heard: &Heard, mut token: impl FnMut() -> Token) {
        let from = heard.from;
        let newest = self.newest_counter.replace(heard.counter);
        let is_newer = newest.is_none_or(|newest| heard.counter > newest);
        self.newest_counter = self.newest_counter.max(newest);
        if from == self.address
            && let Some(allowance_bytes) = &mut self.allowance_bytes
        {
            *allowance_bytes += heard.allowance_bytes();
        }
        if let Some(search) = &mut self.search {
            return search.hear(now, heard);
        }
        let is_new = is_newer || heard.is_copy;
        if from == self.address
            || !is_new
            || self
                .refused
                .as_ref()
                .is_some_and(|(address, until)| *address == from && now < *until)
        {
            return;
        }
        match &mut self.trial {
            Some(trial) if [trial.new.to, trial.old.to].contains(&from) => trial.hear(now, heard),
            // One at a time, as a bystander that copies datagrams could otherwise make this end
            // challenge any number of addresses. A former address that is still heard has the
            // whole trial to answer, as a bystander may only be faster.
            Some(trial) if !trial.has_moved || trial.is_old_heard => {}
            trial => {
                let old = Challenge {
                    to: self.address,
                    token: token(),
                    max_bytes: u64::MAX,
                };
                let new = Challenge {
                    to: from,
                    token: token(),
                    max_bytes: heard.allowance_bytes(),
                };
                *trial = Some(Trial::new(now, old, new));
            }
        }
    }

    /// Returns the challenges to be sent now. A new address gets at most one for each datagram from
    /// there, of at most three times its length: the limit on amplification holds.
    pub(crate) fn challenges(&mut self) -> impl Iterator<Item = Challenge> + use<> {
        let due = self.trial.as_mut().filter(|trial| trial.is_due);
        let of_trial = due.map(|trial| {
            trial.is_due = false;
            [trial.old, trial.new]
        });
        let of_search = self.search.as_mut().map(Search::take_due);
        let all_of_trial = of_trial.into_iter().flatten();
        all_of_trial.chain(of_search.into_iter().flatten())
    }

    /// Takes the answer to a challenge, from any address: only the recipient of the challenge can
    /// know its token.
    pub(crate) fn take_answer(&mut self, now: Instant, from: Address, token: Token) {
        if let Some(search) = &self.search {
            if let Some(address) = search.answered(from, token) {
                self.address = address;
                self.allowance_bytes = None;
                self.search = None;
            }
            return;
        }
        let Some(trial) = &mut self.trial else { return };
        if trial.old.token == token {
            self.address = trial.old.to;
            self.refuse_new(now);
        } else if trial.new.token == token && trial.moves_at.is_none() {
            let waited = now.saturating_since(trial.challenged_at);
            trial.moves_at = Some(now + (waited / 4).max(MIN_GRACE));
        }
    }

    /// Performs due steps.
    pub(crate) fn advance(&mut self, now: Instant) {
        let Some(trial) = &mut self.trial else { return };
        if !trial.has_moved && trial.moves_at.is_some_and(|at| now >= at) {
            trial.has_moved = true;
            self.address = trial.new.to;
        }
        if now < trial.began_at + TRIAL {
            return;
        }
        if trial.has_moved {
            self.trial = None;
        } else {
            // Neither has answered: the peer may be at a third address.
            self.refuse_new(now);
            self.search = self.search_key.clone().map(Search::new);
        }
    }

    /// Returns the time for [`advance`](Self::advance).
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let trial = self.trial.as_ref()?;
        let moves_at = if !trial.has_moved {
            trial.moves_at
        } else {
            None
        };
        Some(moves_at.unwrap_or(trial.began_at + TRIAL))
    }

    /// Returns whether `bytes` may be sent; if so, counts them as sent.
    pub(crate) fn may_send(&mut self, bytes: usize) -> bool {
        let Some(allowance_bytes) = &mut self.allowance_bytes else {
            return true;
        };
        let left = allowance_bytes.checked_sub(bytes as u64);
        *allowance_bytes = left.unwrap_or(*allowance_bytes);
        left.is_some()
    }

    /// Ends the trial in favour of the address that the route has.
    fn refuse_new(&mut self, now: Instant) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        self.refused = Some((trial.new.to, now + REFUSAL));
    }
}

#[cfg(test)]
mod tests;
