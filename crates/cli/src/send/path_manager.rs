//! A sender's paths while it runs: new ones, their replacement, and caps.
//!
//! A session has at most [`PathId::LIMIT`] paths, and SRTLA fewer. `anabranch_net::Roster` decides
//! which path gets which number.

mod changes;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::{PathCounters, PathId};
use anabranch_net::{ClientPath, Clock, PathPlace, Snapshot, Vacancy};
use anabranch_observe::service;
use anabranch_observe::{Observation, StreamEvent};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{ByteCount, Duration, Instant};

use super::STREAM;
use crate::paths::{LiveSender, NamedPath, PathArguments, ViaSet};
use crate::usage::{CapEvent, Caps};

/// Time between checks for new interfaces.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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
    path: ClientPath,
    /// Whether the user marked it as metered.
    is_metered: bool,
    /// Volume after which it stands by.
    cap: Option<ByteCount>,
    /// Whether the user has switched it off.
    is_off: bool,
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
    /// Folder of the counts.
    state: Option<PathBuf>,
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
        let via_set = arguments.via_set()?.limited_to(limit);
        let mut found = via_set.named_paths()?;
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
            if !stop.wait_until(clock, now + POLL_INTERVAL) {
                return Ok(None);
            }
            found = via_set.named_paths()?;
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
            state: arguments.state(),
            look_at: clock.now() + POLL_INTERVAL,
            has_failed: false,
            left_out: Vec::new(),
            departed: Departed::default(),
        };
        // The next check warns about the others.
        for named in found {
            if manager.entries.len() < limit || !named.present.is_of_pattern {
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
        let path = entry.path.clone();
        self.entries.push(entry);
        let place = PathPlace {
            index,
            vacancy: None,
        };
        self.via_set.roster().settle(place, named.present);
        Ok(path)
    }

    /// Creates the entry of the path with number `index`, and starts the count for its cap.
    fn entry(&mut self, index: usize, named: &mut NamedPath) -> anyhow::Result<PathEntry> {
        let is_metered = named.present.path.options.is_metered;
        if let (Some(caps), Some(cap)) = (&mut self.caps, named.cap)
            && caps.add(index, &named.name, cap)?
        {
            print::warn(format_args!(
                "path {index} ({}) has carried its cap: it stands by",
                named.name
            ));
            named.present.path.options.is_metered = true;
        }
        Ok(PathEntry {
            path: named.present.path.clone(),
            is_metered,
            cap: named.cap,
            is_off: false,
        })
    }

    pub(super) fn paths(&self) -> Vec<ClientPath> {
        let paths = self.entries.iter().map(|entry| entry.path.clone());
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
            self.look_at = now + POLL_INTERVAL;
            // Interfaces may change while they are listed; the next check is soon.
            if let Ok(found) = self.via_set.named_paths() {
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
        let present: Vec<_> = found.iter().map(|named| named.present.clone()).collect();
        let snapshots = if self.via_set.roster().is_full() {
            sender.snapshot().paths
        } else {
            Vec::new()
        };
        let states = snapshots.iter().map(|path| path.view.state);
        let newcomers = self.via_set.roster().update(now, &present, states);
        self.left_out
            .retain(|name| found.iter().any(|named| named.name == *name));
        let mut replaced = Vec::new();
        for newcomer in newcomers {
            let named = self.via_set.named(newcomer);
            let taken = if self.via_set.roster().is_full() {
                self.succeed(now, named.clone(), sender).map(Some)
            } else {
                self.join(named.clone(), sender).map(|()| None)
            };
            match taken {
                Ok(index) => replaced.extend(index),
                Err(error) if !self.left_out.contains(&named.name) => {
                    print::warn(format_args!("{} is left out: {error:#}", named.name));
                    self.left_out.push(named.name);
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
        self.via_set.roster().forget_last();
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
        let Some(place) = self.via_set.roster().place(now) else {
            anyhow::bail!(
                "a session has {} paths at most, and all are in use",
                self.limit
            );
        };
        let index = place.index;
        let old_cap = self.caps.as_mut().and_then(|caps| caps.take(index));
        let entry = self.entry(index, &mut named);
        let replaced = entry.and_then(|entry| {
            let path = entry.path.clone();
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
            match place.vacancy {
                Some(Vacancy::Gone) => "is gone",
                _ => "does not answer",
            }
        ));
        self.entries[index] = entry;
        self.via_set.roster().settle(place, named.present);
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
        snapshot: &Snapshot,
        sender: &dyn LiveSender,
        observation: &Observation,
    ) {
        let Some(caps) = &mut self.caps else { return };
        let cap_events = match caps.update(now, snapshot) {
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
