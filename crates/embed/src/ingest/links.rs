//! The links of a connection, each with a number that it keeps.

use std::net::SocketAddr;

use anabranch_core::PathState;
use anabranch_units::{Duration, Instant};

use super::caller_socket::LinkSample;
use crate::event::Event;
use crate::statistics::{PathStatistics, state_name};

/// Silence after which a link counts as dead. Idle links send a keepalive each second.
const OUT_AFTER: Duration = Duration::from_secs(3);

/// All links so far. The number of one that has gone is given to the next.
#[derive(Debug, Default)]
pub(super) struct LinkBook(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    link: LinkSample,
    state: PathState,
}

impl LinkBook {
    /// Takes the present links. Returns the changes as events.
    pub(super) fn update(&mut self, now: Instant, present: &[LinkSample]) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, entry) in self.0.iter_mut().enumerate() {
            let mut its = present
                .iter()
                .filter(|link| link.address == entry.link.address);
            let state = match its.next() {
                Some(link) => {
                    entry.link = *link;
                    state_of(link, now)
                }
                None => PathState::Removed,
            };
            if entry.state != state {
                entry.state = state;
                events.push(path_state(number, entry.link.address, state));
            }
        }
        for link in present {
            if !self.has(link.address) {
                let entry = Entry {
                    link: *link,
                    state: state_of(link, now),
                };
                let state = entry.state;
                events.push(path_state(self.add(entry), link.address, state));
            }
        }
        events
    }

    fn has(&self, address: SocketAddr) -> bool {
        let mut present = self
            .0
            .iter()
            .filter(|entry| entry.state != PathState::Removed);
        present.any(|entry| entry.link.address == address)
    }

    /// Adds a link, and returns its number.
    fn add(&mut self, entry: Entry) -> usize {
        let mut entries = self.0.iter();
        match entries.position(|entry| entry.state == PathState::Removed) {
            Some(free) => {
                self.0[free] = entry;
                free
            }
            None => {
                self.0.push(entry);
                self.0.len() - 1
            }
        }
    }

    pub(super) fn statistics(&self) -> Vec<PathStatistics> {
        let entries = self.0.iter().enumerate();
        entries
            .map(|(path, Entry { link, state })| PathStatistics {
                path,
                name: link.address.to_string(),
                peer: Some(link.address.to_string()),
                state: state_name(*state),
                rtt_s: link.rtt.map(|rtt| rtt.as_secs_f64()),
                received_bytes: link.bytes,
                ..PathStatistics::default()
            })
            .collect()
    }
}

fn state_of(link: &LinkSample, now: Instant) -> PathState {
    if now.saturating_since(link.heard_at) < OUT_AFTER {
        PathState::Active
    } else {
        PathState::Out
    }
}

fn path_state(path: usize, address: SocketAddr, state: PathState) -> Event {
    Event::PathState {
        path,
        name: address.to_string(),
        state: state_name(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(last: u8, heard_at: u64) -> LinkSample {
        LinkSample {
            address: ([192, 0, 2, last], 9).into(),
            bytes: 1_000,
            heard_at: Instant::from_secs(heard_at),
            rtt: None,
        }
    }

    fn changes(
        book: &mut LinkBook,
        now: u64,
        present: &[LinkSample],
    ) -> Vec<(usize, &'static str)> {
        let events = book.update(Instant::from_secs(now), present);
        let shown = events.into_iter().map(|event| match event {
            Event::PathState { path, state, .. } => (path, state),
            other => panic!("{other:?}"),
        });
        shown.collect()
    }

    #[test]
    fn links_come_die_return_and_go() {
        let mut book = LinkBook::default();
        let both = [link(1, 10), link(2, 10)];
        assert_eq!(
            changes(&mut book, 10, &both),
            [(0, "active"), (1, "active")]
        );
        assert_eq!(changes(&mut book, 12, &both), []);
        let one = [link(1, 13), link(2, 10)];
        assert_eq!(changes(&mut book, 13, &one), [(1, "out")]);
        assert_eq!(
            changes(&mut book, 20, &[link(2, 20)]),
            [(0, "removed"), (1, "active")]
        );
        // The number is given to the next.
        let next = [link(2, 21), link(3, 21)];
        assert_eq!(changes(&mut book, 21, &next), [(0, "active")]);
        let names: Vec<_> = book
            .statistics()
            .into_iter()
            .map(|path| path.name)
            .collect();
        assert_eq!(names, ["192.0.2.3:9", "192.0.2.2:9"]);
    }
}
