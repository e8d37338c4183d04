//! The paths of a sender whose interfaces come and go.
//!
//! A session has a limited number of paths. Each gets a new number while there are any. After that
//! it takes the number of the interface that has been gone for longest. If none is gone, it takes
//! that of the path that has been out for longest. Only interfaces of a pattern are replaced.

use std::io;

use anabranch_core::{PathId, PathState};
use anabranch_units::{Duration, Instant};

use crate::client::ClientPath;
use crate::io::Network;
use crate::sender::Sender;
use crate::via::Via;

/// Time after which a path that is out may be replaced although its interface exists. Chosen:
/// longer than a train is in a tunnel.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// A path whose interface is present, or that is named singly.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PresentPath {
    /// Index of the wanted path that it belongs to.
    pub wanted: usize,
    /// The path.
    pub path: ClientPath,
    /// Whether it is one of the interfaces that match a pattern.
    pub is_of_pattern: bool,
}

impl PresentPath {
    /// Returns whether both are the same path. An interface that returns is its earlier path.
    pub fn is_same(&self, other: &PresentPath) -> bool {
        self.path.via == other.path.via && self.path.remote == other.path.remote
    }
}

/// Reason for which the number of a path is free for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vacancy {
    /// Its interface is gone.
    Gone,
    /// It has been out for a minute.
    Silent,
}

/// Number for a path that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPlace {
    /// The number.
    pub index: usize,
    /// Reason for which the path before has lost it; `None`: nobody had it.
    pub vacancy: Option<Vacancy>,
}

/// A path, at the index of its number.
#[derive(Debug)]
struct Entry {
    present: PresentPath,
    /// Time of the check that found its interface gone.
    gone_since: Option<Instant>,
    /// Time of the check that found the path out.
    out_since: Option<Instant>,
}

/// The paths that a sender wants, and those that it has.
///
/// The way of a wanted path may be a pattern, as `wwan*`: it stands for every interface of such a
/// name, also for later ones.
///
/// ```
/// use anabranch_net::{ClientPath, Network, Roster, Via};
///
/// let wanted = ["wlan0", "wwan*"].map(|via| {
///     let remote = "192.0.2.1:7000".parse().expect("an address");
///     ClientPath::new(Via::from(via), remote)
/// });
/// let mut roster = Roster::new(Network::default(), wanted.into(), 32);
/// assert!(roster.may_grow());
/// for present in roster.present()? {
///     let place = roster.next_place().expect("there is room");
///     roster.settle(place, present);
/// }
/// // A sender begins with these; `roster.tend(now, &sender)` adds others, once a second.
/// assert!(roster.paths().count() >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Roster {
    network: Network,
    wanted: Vec<ClientPath>,
    limit: usize,
    entries: Vec<Entry>,
}

impl Roster {
    /// Creates the roster of a sender with at most `limit` paths, which has none yet.
    pub fn new(network: Network, wanted: Vec<ClientPath>, limit: usize) -> Self {
        Roster {
            network,
            wanted,
            limit,
            entries: Vec::new(),
        }
    }

    /// Limits the number of paths. Present ones stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns whether more paths may appear.
    pub fn may_grow(&self) -> bool {
        self.patterns().next().is_some()
    }

    /// Returns the patterns of interfaces.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().filter_map(|path| path.via.pattern())
    }

    /// Returns the sender's paths by their numbers.
    pub fn paths(&self) -> impl Iterator<Item = &ClientPath> {
        self.entries.iter().map(|entry| &entry.present.path)
    }

    /// Returns whether all numbers are taken.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    /// Lists the paths that are named singly and those of present interfaces, each once.
    ///
    /// # Errors
    /// The operating system does not list its interfaces.
    pub fn present(&self) -> io::Result<Vec<PresentPath>> {
        let mut found: Vec<PresentPath> = Vec::new();
        for (wanted, path) in self.wanted.iter().enumerate() {
            let vias = match path.via.pattern() {
                None => vec![path.via.clone()],
                Some(pattern) => {
                    let names = self
                        .network
                        .interfaces(&path.remote)?
                        .into_iter()
                        .filter(|name| matches(pattern, name));
                    names.map(Via::Interface).collect()
                }
            };
            for via in vias {
                let present = PresentPath {
                    wanted,
                    is_of_pattern: path.via.pattern().is_some(),
                    path: ClientPath {
                        via,
                        ..path.clone()
                    },
                };
                if !found.iter().any(|other| other.is_same(&present)) {
                    found.push(present);
                }
            }
        }
        Ok(found)
    }

    /// Records the interfaces that are gone or back, and the paths that are out. Returns the paths
    /// that the sender does not have.
    pub fn update(
        &mut self,
        now: Instant,
        present: &[PresentPath],
        states: impl IntoIterator<Item = PathState>,
    ) -> Vec<PresentPath> {
        for entry in &mut self.entries {
            if present.iter().any(|other| other.is_same(&entry.present)) {
                entry.gone_since = None;
            } else {
                entry.gone_since.get_or_insert(now);
            }
        }
        for (entry, state) in self.entries.iter_mut().zip(states) {
            if state == PathState::Out {
                entry.out_since.get_or_insert(now);
            } else {
                entry.out_since = None;
            }
        }
        let is_known =
            |path: &&PresentPath| self.entries.iter().any(|entry| entry.present.is_same(path));
        let newcomers = present.iter().filter(|path| !is_known(path));
        newcomers.cloned().collect()
    }

    /// Returns the next number that nobody had; `None` if all are taken.
    pub fn next_place(&self) -> Option<PathPlace> {
        let place = PathPlace {
            index: self.entries.len(),
            vacancy: None,
        };
        (!self.is_full()).then_some(place)
    }

    /// Returns the number for a path that joins now; `None` if all paths are in use.
    pub fn place(&self, now: Instant) -> Option<PathPlace> {
        if let Some(place) = self.next_place() {
            return Some(place);
        }
        if let Some((_, index)) = self.longest(|entry| entry.gone_since) {
            let vacancy = Some(Vacancy::Gone);
            return Some(PathPlace { index, vacancy });
        }
        let (out_since, index) = self.longest(|entry| entry.out_since)?;
        let vacancy = Some(Vacancy::Silent);
        (now >= out_since + DEAD_AFTER).then_some(PathPlace { index, vacancy })
    }

    /// Returns the path of a pattern with the earliest of these times, and its number.
    fn longest(&self, since: fn(&Entry) -> Option<Instant>) -> Option<(Instant, usize)> {
        let replaceable = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.present.is_of_pattern);
        let known = replaceable.filter_map(|(index, entry)| Some((since(entry)?, index)));
        known.min()
    }

    /// Records that a path has joined with this number.
    pub fn settle(&mut self, place: PathPlace, present: PresentPath) {
        let entry = Entry {
            present,
            gone_since: None,
            out_since: None,
        };
        match self.entries.get_mut(place.index) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes the last path, which the sender has refused: the next one gets its number.
    pub fn forget_last(&mut self) {
        self.entries.pop();
    }

    /// Adds the paths of interfaces that have appeared to a sender. Returns their numbers.
    ///
    /// # Errors
    /// As [`present`](Self::present). A path that the sender refuses is tried at the next call.
    pub fn tend(&mut self, now: Instant, sender: &Sender) -> io::Result<Vec<PathPlace>> {
        let present = self.present()?;
        let paths = sender.snapshot().paths.into_iter();
        let newcomers = self.update(now, &present, paths.map(|path| path.view.state));
        let mut joined = Vec::new();
        for newcomer in newcomers {
            let Some(place) = self.place(now) else {
                continue;
            };
            let path = newcomer.path.clone();
            let taken = if place.vacancy.is_some() {
                let number = PathId(place.index as u8);
                sender.replace_path(number, path).map(drop)
            } else {
                sender.add_path(path)
            };
            if taken.is_ok() {
                self.settle(place, newcomer);
                joined.push(place);
            }
        }
        Ok(joined)
    }
}

/// Returns whether a name matches a pattern: `*` stands for any characters, `?` for one.
fn matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return name.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    let mut chars = name.chars();
    match first {
        '*' => {
            let starts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            starts.into_iter().any(|at| matches(rest, &name[at..]))
        }
        '?' => chars.next().is_some() && matches(rest, chars.as_str()),
        first => chars.next() == Some(first) && matches(rest, chars.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    fn present(name: &str, is_of_pattern: bool) -> PresentPath {
        PresentPath {
            wanted: 0,
            path: ClientPath::new(Via::from(name), "192.0.2.1:7000".parse().unwrap()),
            is_of_pattern,
        }
    }

    /// Returns a full roster with these interfaces.
    fn roster(names: &[(&str, bool)]) -> Roster {
        let mut roster = Roster::new(Network::default(), Vec::new(), names.len());
        for (name, is_of_pattern) in names {
            let place = roster.next_place().unwrap();
            roster.settle(place, present(name, *is_of_pattern));
        }
        roster
    }

    fn free(roster: &Roster, seconds: u64) -> Option<(usize, Option<Vacancy>)> {
        let place = roster.place(at(seconds))?;
        Some((place.index, place.vacancy))
    }

    /// Returns the free place while these interfaces of a pattern are present.
    fn free_beside(
        roster: &mut Roster,
        seconds: u64,
        names: &[&str],
    ) -> Option<(usize, Option<Vacancy>)> {
        let present: Vec<_> = names.iter().map(|name| present(name, true)).collect();
        roster.update(at(seconds), &present, []);
        free(roster, seconds)
    }

    #[test]
    fn the_interface_that_has_been_gone_for_longest_makes_room() {
        let mut roster = roster(&[("eth0", false), ("enx1", true), ("enx2", true)]);
        assert_eq!(
            free_beside(&mut roster, 1, &["enx1", "enx2"]),
            None,
            "eth0 was named alone"
        );
        free_beside(&mut roster, 2, &["enx1"]);
        let gone = Some(Vacancy::Gone);
        assert_eq!(free_beside(&mut roster, 3, &[]), Some((2, gone)));
        // The interface is back before its number was needed, as the same path.
        assert_eq!(free_beside(&mut roster, 4, &["enx2"]), Some((1, gone)));
    }

    #[test]
    fn a_path_that_is_out_for_a_minute_makes_room_if_none_is_gone() {
        let names = [("eth0", false), ("wwan0", true), ("wwan1", true)];
        let mut roster = roster(&names);
        let (out, active) = (PathState::Out, PathState::Active);
        let all = names.map(|(name, is_of_pattern)| present(name, is_of_pattern));
        roster.update(at(1), &all, [out, active, out]);
        roster.update(at(30), &all, [out; 3]);
        assert_eq!(free(&roster, 60), None);
        assert_eq!(free(&roster, 61), Some((2, Some(Vacancy::Silent))));
        roster.update(at(62), &all, [out, out, active]);
        assert_eq!(free(&roster, 62), None);
        assert_eq!(free(&roster, 90), Some((1, Some(Vacancy::Silent))));
        roster.update(at(90), &all[..2], [out, out, active]);
        assert_eq!(free(&roster, 90), Some((2, Some(Vacancy::Gone))));
    }

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name, expected) in [
            ("wwan*", "wwan0", true),
            ("wwan*", "wwan", true),
            ("wwan*", "wlan0", false),
            ("*", "eth0", true),
            ("w*n?", "wlan0", true),
            ("w*n?", "wlan", false),
            ("e*0*", "enp0s31f6", true),
            ("eth?", "eth10", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
