//! A record of connections and refusals: events of `--stats`, and log lines about refusals. Peers
//! cause them, so each peer has a limit for both.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_observe::Transport;
use anabranch_observe::{Observation, Outcome, Tunnelled};
use anabranch_secure::PublicKey;
use tokio::time::Instant;

use super::peer::Peer;

/// Time between two lines about the refusals of a peer.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum burst of a peer's events: a browser opens some hundred connections for a page (chosen).
const MAX_EVENTS: u32 = 200;
/// Time after which one more event is allowed.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);
/// Number of targets whose failure is remembered, since peers choose some of them.
const MAX_FAILING: usize = 256;

pub struct Journal {
    observation: Arc<Observation>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names of the allowed peers.
    names: BTreeMap<PublicKey, String>,
    books: BTreeMap<PublicKey, Book>,
    /// Targets that cannot be connected to, each with the printed reason.
    failing: BTreeSet<(String, &'static str)>,
}

/// Limits of a peer.
#[derive(Debug)]
struct Book {
    line_at: Option<Instant>,
    /// Refusals since the last line.
    unprinted_count: u64,
    /// Events that are allowed now.
    room: u32,
    filled_at: Instant,
    /// Suppressed events since the last one.
    left_out_count: u64,
}

impl Book {
    fn new(now: Instant) -> Self {
        Book {
            line_at: None,
            unprinted_count: 0,
            room: MAX_EVENTS,
            filled_at: now,
            left_out_count: 0,
        }
    }

    /// Counts a refusal. Returns the count since the last line, if a line is due.
    fn line(&mut self, now: Instant) -> Option<u64> {
        self.unprinted_count += 1;
        if self.line_at.is_some_and(|at| now < at + LINE_INTERVAL) {
            return None;
        }
        self.line_at = Some(now);
        Some(core::mem::take(&mut self.unprinted_count))
    }

    /// Takes room for an event. Returns the number of suppressed ones before it, if there is room.
    fn event(&mut self, now: Instant) -> Option<u64> {
        let since = now.saturating_duration_since(self.filled_at).as_millis();
        let more = since / EVENT_INTERVAL.as_millis();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(MAX_EVENTS);
            self.room = self.room.saturating_add(more).min(MAX_EVENTS);
            self.filled_at = now;
        }
        let Some(room) = self.room.checked_sub(1) else {
            self.left_out_count += 1;
            return None;
        };
        self.room = room;
        Some(core::mem::take(&mut self.left_out_count))
    }
}

impl Journal {
    pub fn new(observation: Arc<Observation>) -> Self {
        Journal {
            observation,
            state: Mutex::default(),
        }
    }

    /// Sets the allowed peers and their names.
    pub fn set_allowed(&self, allowed: &[Peer]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let names = allowed.iter().map(|peer| (peer.key, peer.name.clone()));
        let State {
            names: known,
            books,
            ..
        } = &mut *state;
        *known = names.collect();
        books.retain(|peer, _| known.contains_key(peer));
    }

    pub fn connected(
        &self,
        peer: &PublicKey,
        transport: Transport,
        target: &str,
        address: SocketAddr,
    ) {
        self.forget_failures(target);
        let event = self.book(peer, |book, now| book.event(now));
        self.observation.on_tunnelled(&Tunnelled {
            peer,
            transport,
            target,
            outcome: Outcome::Connected(address),
            left_out: event,
        });
    }

    pub fn refused(
        &self,
        peer: &PublicKey,
        transport: Transport,
        target: &str,
        reason: &'static str,
    ) {
        let (line, event) = self.book(peer, |book, now| (book.line(now), book.event(now)));
        if let Some(count) = line {
            let name = self.name_of(peer);
            log::warn!("{}", refusal(&name, transport, target, reason, count));
        }
        self.observation.on_tunnelled(&Tunnelled {
            peer,
            transport,
            target,
            outcome: Outcome::Refused(reason),
            left_out: event,
        });
    }

    /// Records that a permitted target could not be connected to. Each reason is printed once per
    /// target, until a connection succeeds. Beyond [`MAX_FAILING`] targets nothing is printed.
    pub fn failed(
        &self,
        peer: &PublicKey,
        transport: Transport,
        target: &str,
        reason: &'static str,
    ) {
        let is_new = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.failing.len() < MAX_FAILING && state.failing.insert((target.to_owned(), reason))
        };
        if is_new {
            let target = target.escape_debug();
            log::warn!("no connection to {target}: {reason}");
        }
        let event = self.book(peer, |book, now| book.event(now));
        self.observation.on_tunnelled(&Tunnelled {
            peer,
            transport,
            target,
            outcome: Outcome::Failed(reason),
            left_out: event,
        });
    }

    /// Returns the name of a peer, or its key.
    fn name_of(&self, peer: &PublicKey) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.names.get(peer).cloned();
        known.unwrap_or_else(|| peer.to_string())
    }

    fn forget_failures(&self, target: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failing.retain(|(failing, _)| failing != target);
    }

    fn book<T>(&self, peer: &PublicKey, act: impl FnOnce(&mut Book, Instant) -> T) -> T {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let book = state.books.entry(*peer);
        act(book.or_insert_with(|| Book::new(now)), now)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

/// Returns the line about a refusal. The peer chooses the target's text, so line ends are escaped.
fn refusal(name: &str, transport: Transport, target: &str, reason: &str, count: u64) -> String {
    let transport = transport.name();
    let target = target.escape_debug();
    let others = match count {
        1 => String::new(),
        count => format!("; {count} refusals since the last line about it"),
    };
    format!("{name} is refused {target} ({transport}): {reason}{others}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_of_refusals_is_a_line_every_ten_seconds_and_ten_events_a_second() {
        let began_at = Instant::now();
        let mut book = Book::new(began_at);
        let (mut lines, mut events) = (Vec::new(), Vec::new());
        for millis in 0..30_000_u64 {
            let now = began_at + Duration::from_millis(millis);
            lines.extend(book.line(now));
            events.extend(book.event(now));
        }
        assert_eq!(lines, [1, 10_000, 10_000]);
        let count = events.len();
        assert!((480..=500).contains(&count), "{count}");
        let left_out: u64 = events.iter().sum::<u64>() + book.left_out_count;
        assert_eq!(left_out + count as u64, 30_000);
    }

    #[test]
    fn a_line_names_the_peer_the_target_and_the_reason_on_one_line() {
        let line = refusal("front", Transport::Tcp, "a\nb:80", "no rule", 3);
        let expected = "front is refused a\\nb:80 (tcp): no rule; 3 refusals since the last line";
        assert!(line.starts_with(expected), "{line}");
    }
}
