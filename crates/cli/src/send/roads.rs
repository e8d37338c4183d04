//! A sender's paths while it runs: those that join, and what each may carry.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::PathId;
use anabranch_net::{ClientPath, Clock, Sender, Snapshot, StartError};
use anabranch_units::{Duration, Instant};

use super::STREAM;
use crate::observe::Observation;
use crate::paths::{NamedPath, PathArguments, Ways};
use crate::stop::Stop;
use crate::usage::{Caps, News};
use crate::{print, service};

/// How often new interfaces are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What the paths are called, for whoever looks.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedNames(Arc<Mutex<Vec<String>>>);

impl SharedNames {
    pub(super) fn get(&self) -> Vec<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.clone()
    }

    fn pop(&self) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.pop();
    }

    fn push(&self, name: String) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(name);
    }
}

/// All paths, by their numbers.
#[derive(Debug)]
pub(super) struct Roads {
    ways: Ways,
    paths: Vec<ClientPath>,
    names: Vec<String>,
    shared_names: SharedNames,
    /// Of each path, whether the user said so himself.
    are_metered: Vec<bool>,
    caps: Option<Caps>,
    look_at: Instant,
    has_failed: bool,
}

impl Roads {
    /// The paths that there are, at least one; `None`: stopped before there was one.
    ///
    /// # Errors
    /// A path that cannot be, or a cap that cannot be counted.
    pub(super) fn open(
        arguments: &PathArguments,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<Option<Roads>> {
        let mut ways = arguments.ways()?;
        let mut found = ways.look()?;
        if found.is_empty() {
            print::warn(format_args!("waiting for an interface {}", ways.patterns()));
            // It waits as it was asked to: a service manager need not.
            service::ready();
        }
        while found.is_empty() {
            let now = clock.now();
            service::turn(now, stop.is_stopped());
            if !stop.wait_until(clock, now + LOOK_INTERVAL) {
                return Ok(None);
            }
            found = ways.look()?;
        }
        let may_count = ways.has_caps();
        let mut roads = Roads {
            ways,
            paths: Vec::new(),
            names: Vec::new(),
            shared_names: SharedNames::default(),
            are_metered: Vec::new(),
            caps: may_count
                .then(|| Caps::new(arguments.state()))
                .transpose()?,
            look_at: clock.now() + LOOK_INTERVAL,
            has_failed: false,
        };
        for named in found {
            roads.push(named)?;
        }
        Ok(Some(roads))
    }

    /// Takes in a path. Returns it as the session is to have it.
    fn push(&mut self, named: NamedPath) -> anyhow::Result<ClientPath> {
        let NamedPath {
            name,
            mut path,
            cap,
        } = named;
        let index = self.paths.len();
        let is_metered = path.options.is_metered;
        if let (Some(caps), Some(cap)) = (&mut self.caps, cap)
            && caps.add(index, &name, cap)?
        {
            print::warn(format_args!(
                "path {index} ({name}) has carried its cap: it stands by"
            ));
            path.options.is_metered = true;
        }
        self.are_metered.push(is_metered);
        self.shared_names.push(name.clone());
        self.names.push(name);
        self.paths.push(path.clone());
        Ok(path)
    }

    pub(super) fn paths(&self) -> Vec<ClientPath> {
        self.paths.clone()
    }

    pub(super) fn names(&self) -> SharedNames {
        self.shared_names.clone()
    }

    pub(super) fn told_names(&self) -> &[String] {
        &self.names
    }

    /// Looks for new interfaces, and counts, when it is time.
    pub(super) fn tend(&mut self, now: Instant, sender: &Sender, observation: &Observation) {
        if self.caps.as_ref().is_some_and(|caps| caps.is_due(now)) {
            self.count(now, &sender.snapshot(), sender, observation);
        }
        if now < self.look_at || !self.ways.may_grow() {
            return;
        }
        self.look_at = now + LOOK_INTERVAL;
        // Interfaces come and go while they are listed: the next look is soon.
        for named in self.ways.look().unwrap_or_default() {
            let name = named.name.clone();
            if self.paths.len() == PathId::LIMIT {
                print::warn(format_args!(
                    "{name} is left out: a session has {} paths at most",
                    PathId::LIMIT
                ));
                continue;
            }
            if let Err(error) = self.join(named, sender) {
                print::warn(format_args!("{name} is left out: {error:#}"));
            }
        }
    }

    fn join(&mut self, named: NamedPath, sender: &Sender) -> anyhow::Result<()> {
        let (name, index) = (named.name.clone(), self.paths.len());
        let path = self.push(named)?;
        let added: Result<(), StartError> = sender.add_path(path);
        if added.is_err() {
            self.forget_last();
        }
        added?;
        print::note(format_args!("path {index} ({name}) joins"));
        Ok(())
    }

    /// The number is the next path's.
    fn forget_last(&mut self) {
        let index = self.paths.len() - 1;
        self.paths.pop();
        self.names.pop();
        self.are_metered.pop();
        self.shared_names.pop();
        self.caps.iter_mut().for_each(|caps| caps.remove(index));
    }

    /// Counts what the paths have carried.
    pub(super) fn count(
        &mut self,
        now: Instant,
        seen: &Snapshot,
        sender: &Sender,
        observation: &Observation,
    ) {
        let Some(caps) = &mut self.caps else { return };
        let news = match caps.update(now, seen) {
            Ok(news) => news,
            Err(error) => {
                if !core::mem::replace(&mut self.has_failed, true) {
                    print::warn(format_args!("{error:#}"));
                }
                return;
            }
        };
        self.has_failed = false;
        for news in news {
            match news {
                News::Near(_, said) => print::warn(said),
                News::Reached(path, said) => {
                    print::warn(format_args!("{said}: it stands by"));
                    sender.set_metered(PathId(path as u8), true);
                    observation.on_cap_reached(STREAM, path, &self.names[path]);
                }
                News::Free(path, said) => {
                    print::note(said);
                    sender.set_metered(PathId(path as u8), self.are_metered[path]);
                }
            }
        }
    }
}
