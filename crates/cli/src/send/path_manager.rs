//! A sender's paths while it runs: new ones, their replacement, and caps.
//!
//! A session has at most [`PathId::LIMIT`] paths, and SRTLA fewer. Each gets a new number while
//! there are any. After that it takes the number of the interface that has been gone for longest.
//! If none is gone, it takes that of the path that has been out for longest. Only interfaces of a
//! pattern are replaced.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::{PathCounters, PathId, PathState};
use anabranch_net::{ClientPath, Clock, PathSnapshot, Snapshot};
use anabranch_observe::service;
use anabranch_observe::{Observation, StreamEvent};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{ByteCount, Duration, Instant};

use super::STREAM;
use crate::paths::{LiveSender, NamedPath, PathArguments, ViaSet};
use crate::usage::{CapEvent, Caps};

/// Time between checks for new interfaces.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a path that is out may be replaced although its interface exists. Chosen:
/// longer than a train is in a tunnel.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Names of the paths, for other threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedNames(Arc<Mutex<Vec<String>>>);

impl SharedNames {
    /// Calls `act` while no path takes the number of another.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Vec<String>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A path, at the index of its number.
#[derive(Debug)]
struct PathEntry {
    named: NamedPath,
    /// Whether the user marked it as metered.
    is_metered: bool,
    /// Time of the check that found its interface gone.
    gone_since: Option<Instant>,
    /// Time of the check that found the path out.
    out_since: Option<Instant>,
}

/// All paths, by their numbers.
#[derive(Debug)]
pub(super) struct PathManager {
    /// Maximum number of paths.
    limit: usize,
    via_set: ViaSet,
    entries: Vec<PathEntry>,
    names: Vec<String>,
    shared_names: SharedNames,
    caps: Option<Caps>,
    look_at: Instant,
    has_failed: bool,
    /// Present interfaces that are not paths, about which the user was warned.
    left_out: Vec<String>,
    departed: Departed,
}

/// Replaced paths.
#[derive(Debug, Default)]
struct Departed {
    count: u64,
    counters: PathCounters,
}

impl PathManager {
    /// Opens the present paths, at least one and at most `limit`. Returns `None` if stopped before
    /// the first.
    ///
    /// # Errors
    /// An invalid path, or a cap whose volume cannot be counted.
    pub(super) fn open(
        arguments: &PathArguments,
        limit: usize,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<Option<PathManager>> {
        let via_set = arguments.via_set()?;
        let mut found = via_set.look()?;
        if found.is_empty() {
            print::warn(format_args!(
                "waiting for an interface {}",
                via_set.patterns()
            ));
            // Waiting is the configured behaviour, so the service manager need not wait.
            service::ready();
        }
        while found.is_empty() {
            let now = clock.now();
            service::turn(now, stop.is_stopped());
            if !stop.wait_until(clock, now + LOOK_INTERVAL) {
                return Ok(None);
            }
            found = via_set.look()?;
        }
        let may_count = via_set.has_caps();
        let mut manager = PathManager {
            limit,
            via_set,
            entries: Vec::new(),
            names: Vec::new(),
            shared_names: SharedNames::default(),
            caps: may_count
                .then(|| Caps::new(arguments.state()))
                .transpose()?,
            look_at: clock.now() + LOOK_INTERVAL,
            has_failed: false,
            left_out: Vec::new(),
            departed: Departed::default(),
        };
        // The next check warns about the others.
        for named in found {
            if manager.entries.len() < limit || !named.is_of_pattern {
                manager.push(named)?;
            }
        }
        Ok(Some(manager))
    }

    /// Adds a path with a new number. Returns it for the session.
    fn push(&mut self, mut named: NamedPath) -> anyhow::Result<ClientPath> {
        let index = self.entries.len();
        let entry = self.entry(index, &mut named)?;
        self.shared_names
            .with(|names| names.push(named.name.clone()));
        self.names.push(named.name);
        let path = entry.named.path.clone();
        self.entries.push(entry);
        Ok(path)
    }

    /// Creates the entry of the path with number `index`, and starts the count for its cap.
    fn entry(&mut self, index: usize, named: &mut NamedPath) -> anyhow::Result<PathEntry> {
        let is_metered = named.path.options.is_metered;
        if let (Some(caps), Some(cap)) = (&mut self.caps, named.cap)
            && caps.add(index, &named.name, cap)?
        {
            print::warn(format_args!(
                "path {index} ({}) has carried its cap: it stands by",
                named.name
            ));
            named.path.options.is_metered = true;
        }
        Ok(PathEntry {
            named: named.clone(),
            is_metered,
            gone_since: None,
            out_since: None,
        })
    }

    pub(super) fn paths(&self) -> Vec<ClientPath> {
        let paths = self.entries.iter().map(|entry| entry.named.path.clone());
        paths.collect()
    }

    pub(super) fn names(&self) -> SharedNames {
        self.shared_names.clone()
    }

    pub(super) fn shown_names(&self) -> &[String] {
        &self.names
    }

    /// Checks for new interfaces, and counts, if it is time. Returns the numbers that new paths
    /// have taken over.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        sender: &dyn LiveSender,
        observation: &Observation,
    ) -> impl Iterator<Item = usize> + use<> {
        let mut replaced = Vec::new();
        if self.caps.as_ref().is_some_and(|caps| caps.is_due(now)) {
            self.count(now, &sender.snapshot(), sender, observation);
        }
        if now >= self.look_at && self.via_set.may_grow() {
            self.look_at = now + LOOK_INTERVAL;
            // Interfaces may change while they are listed; the next check is soon.
            if let Ok(found) = self.via_set.look() {
                replaced = self.take_in(now, &found, sender);
            }
        }
        replaced.into_iter()
    }

    /// Adds new paths. Returns the numbers that they took over from others.
    fn take_in(
        &mut self,
        now: Instant,
        found: &[NamedPath],
        sender: &dyn LiveSender,
    ) -> Vec<usize> {
        record_gone(&mut self.entries, now, found);
        if self.entries.len() == self.limit {
            record_out(&mut self.entries, now, &sender.snapshot().paths);
        }
        let is_there = |name: &String| found.iter().any(|named| named.name == *name);
        self.left_out.retain(is_there);
        let mut replaced = Vec::new();
        for named in found {
            if self.entries.iter().any(|entry| entry.named.is_same(named)) {
                continue;
            }
            let taken = match self.entries.len() < self.limit {
                true => self.join(named.clone(), sender).map(|()| None),
                false => self.succeed(now, named.clone(), sender).map(Some),
            };
            match taken {
                Ok(index) => replaced.extend(index),
                Err(error) if !self.left_out.contains(&named.name) => {
                    print::warn(format_args!("{} is left out: {error:#}", named.name));
                    self.left_out.push(named.name.clone());
                }
                Err(_) => {}
            }
        }
        replaced
    }

    fn join(&mut self, named: NamedPath, sender: &dyn LiveSender) -> anyhow::Result<()> {
        let (name, index) = (named.name.clone(), self.entries.len());
        let path = self.push(named)?;
        let added = sender.add_path(path);
        if added.is_err() {
            self.forget_last();
        }
        added?;
        print::note(format_args!("path {index} ({name}) joins"));
        Ok(())
    }

    /// Removes the last path, so that the next one gets its number.
    fn forget_last(&mut self) {
        let index = self.entries.len() - 1;
        self.entries.pop();
        self.names.pop();
        self.shared_names.with(Vec::pop);
        self.caps.iter_mut().for_each(|caps| drop(caps.take(index)));
    }

    /// Gives a path the number of a replaceable one. Returns the number.
    fn succeed(
        &mut self,
        now: Instant,
        mut named: NamedPath,
        sender: &dyn LiveSender,
    ) -> anyhow::Result<usize> {
        let Some(index) = to_make_room(&self.entries, now) else {
            anyhow::bail!(
                "a session has {} paths at most, and all are in use",
                self.limit
            );
        };
        let old_cap = self.caps.as_mut().and_then(|caps| caps.take(index));
        let entry = self.entry(index, &mut named);
        let replaced = entry.and_then(|entry| {
            let path = entry.named.path.clone();
            let left = self.shared_names.with(|names| {
                let left = sender.replace_path(PathId(index as u8), path)?;
                names[index].clone_from(&named.name);
                Ok::<_, anyhow::Error>(left)
            });
            Ok((entry, left?))
        });
        let (entry, left) = match replaced {
            Ok(replaced) => replaced,
            Err(error) => {
                if let Some(caps) = &mut self.caps {
                    drop(caps.take(index));
                    old_cap.into_iter().for_each(|cap| caps.put_back(cap));
                }
                return Err(error);
            }
        };
        if let (Some(caps), Some(cap)) = (&mut self.caps, old_cap) {
            caps.retire(cap, &left);
        }
        self.departed.count += 1;
        self.departed.counters = self.departed.counters.plus(&left.counters);
        let old = core::mem::replace(&mut self.names[index], named.name);
        print::note(format_args!(
            "path {index} ({}) joins in place of {old}, which {}",
            self.names[index],
            match self.entries[index].gone_since {
                Some(_) => "is gone",
                None => "does not answer",
            }
        ));
        self.entries[index] = entry;
        Ok(index)
    }

    /// Describes the replaced paths, if there are any.
    pub(super) fn departed(&self) -> Option<String> {
        let Departed { count, counters } = &self.departed;
        let bytes = ByteCount(counters.sent_bytes + counters.control_bytes);
        (*count > 0).then(|| format!("{count} paths that are gone: {bytes}"))
    }

    /// Counts the bytes that the paths have carried.
    pub(super) fn count(
        &mut self,
        now: Instant,
        seen: &Snapshot,
        sender: &dyn LiveSender,
        observation: &Observation,
    ) {
        let Some(caps) = &mut self.caps else { return };
        let cap_events = match caps.update(now, seen) {
            Ok(cap_events) => cap_events,
            Err(error) => {
                if !core::mem::replace(&mut self.has_failed, true) {
                    print::warn(format_args!("{error:#}"));
                }
                return;
            }
        };
        self.has_failed = false;
        for (path, cap) in caps.volumes() {
            sender.set_cap(path, Some(cap));
        }
        for cap_events in cap_events {
            match cap_events {
                CapEvent::Near(_, said) => print::warn(said),
                CapEvent::Reached(path, said) => {
                    print::warn(format_args!("{said}: it stands by"));
                    sender.set_metered(PathId(path as u8), true);
                    let name = self.names[path].clone();
                    observation.on_stream_event(STREAM, StreamEvent::CapReached { path, name });
                }
                CapEvent::Free(path, said) => {
                    print::note(said);
                    sender.set_metered(PathId(path as u8), self.entries[path].is_metered);
                }
            }
        }
    }
}

/// Records the interfaces that are gone, and those that are back.
fn record_gone(entries: &mut [PathEntry], now: Instant, found: &[NamedPath]) {
    for entry in entries {
        match found.iter().any(|named| named.is_same(&entry.named)) {
            true => entry.gone_since = None,
            false => _ = entry.gone_since.get_or_insert(now),
        }
    }
}

/// Records the paths that are out.
fn record_out(entries: &mut [PathEntry], now: Instant, seen: &[PathSnapshot]) {
    for (entry, seen) in entries.iter_mut().zip(seen) {
        match seen.view.state {
            PathState::Out => _ = entry.out_since.get_or_insert(now),
            _ => entry.out_since = None,
        }
    }
}

/// Returns the number of the path to replace, if there is one.
fn to_make_room(entries: &[PathEntry], now: Instant) -> Option<usize> {
    let first = |since: fn(&PathEntry) -> Option<Instant>| {
        let known = entries
            .iter()
            .enumerate()
            .filter_map(move |(index, entry)| {
                let since = since(entry).filter(|_| entry.named.is_of_pattern)?;
                Some((since, index))
            });
        known.min()
    };
    let gone = first(|entry| entry.gone_since);
    let dead = || first(|entry| entry.out_since).filter(|(since, _)| now >= *since + DEAD_AFTER);
    gone.or_else(dead).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    fn named(name: &str, is_of_pattern: bool) -> NamedPath {
        NamedPath {
            name: name.to_owned(),
            path: ClientPath {
                via: name.parse().unwrap_or_default(),
                remote: "192.0.2.1:7000".parse().unwrap(),
                options: anabranch_core::PathOptions::default(),
            },
            cap: None,
            is_of_pattern,
        }
    }

    fn entries(names: &[(&str, bool)]) -> Vec<PathEntry> {
        let entry = |(name, is_of_pattern): &(&str, bool)| PathEntry {
            named: named(name, *is_of_pattern),
            is_metered: false,
            gone_since: None,
            out_since: None,
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn the_interface_that_has_been_gone_for_longest_makes_room() {
        let mut entries = entries(&[("eth0", false), ("enx1", true), ("enx2", true)]);
        let found = |names: &[&str]| -> Vec<NamedPath> {
            names.iter().map(|name| named(name, true)).collect()
        };
        record_gone(&mut entries, at(1), &found(&["enx1", "enx2"]));
        assert_eq!(to_make_room(&entries, at(1)), None, "eth0 was named alone");
        record_gone(&mut entries, at(2), &found(&["enx1"]));
        record_gone(&mut entries, at(3), &found(&[]));
        assert_eq!(to_make_room(&entries, at(3)), Some(2));
        // The interface is back before its number was needed, as the same path.
        record_gone(&mut entries, at(4), &found(&["enx2"]));
        assert_eq!(to_make_room(&entries, at(4)), Some(1));
    }

    #[test]
    fn a_path_that_is_out_for_a_minute_makes_room_if_none_is_gone() {
        let mut entries = entries(&[("eth0", false), ("wwan0", true), ("wwan1", true)]);
        let states = |states: [PathState; 3]| {
            states.map(|state| {
                let mut seen = PathSnapshot::default();
                seen.view.state = state;
                seen
            })
        };
        let out = PathState::Out;
        record_out(&mut entries, at(1), &states([out, PathState::Active, out]));
        record_out(&mut entries, at(30), &states([out; 3]));
        assert_eq!(to_make_room(&entries, at(60)), None);
        assert_eq!(to_make_room(&entries, at(61)), Some(2));
        record_out(&mut entries, at(62), &states([out, out, PathState::Active]));
        assert_eq!(to_make_room(&entries, at(62)), None);
        assert_eq!(to_make_room(&entries, at(90)), Some(1));
        entries[2].gone_since = Some(at(90));
        assert_eq!(to_make_room(&entries, at(90)), Some(2), "gone before dead");
    }
}
