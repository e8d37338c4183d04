//! A client's paths: their ports, the addresses that they call, those that join, and those that
//! replace another under its number.
//!
//! Paths that are named by address always call it. Those of a name call one of its addresses, and
//! another only while that one does not answer: a working session is never moved.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_core::{Config, PathId, PathOptions};
use anabranch_secure::PROTECTION_OVERHEAD_BYTES;
use anabranch_units::{Duration, Instant};

use super::ClientRole;
use super::fresh_ports::FreshPort;
use crate::carrier::Carrier;
use crate::driver::LocalLink;
use crate::event::Event;
use crate::io::Network;
use crate::link::LinkCap;
use crate::load::Load;
use crate::names::{Answer, Names, Resolve};
use crate::port::Port;
use crate::remote::{HostName, Remote};
use crate::route::{Route, header_bytes};
use crate::search::Search;
use crate::snapshot::PathSnapshot;
use crate::socket::Arrival;
use crate::start_error::StartError;
use crate::via::Via;
use crate::waker::Waker;

/// Longest pause between two questions to the resolver while no receiver answers.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The same pause for a path that does not answer in a session that other paths carry.
const LONGEST_PAUSE_IN_SESSION: Duration = Duration::from_secs(60);
/// Interval at which such a path is checked. After one check without an answer it calls another
/// address, after three if it was heard before.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// One path of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientPath {
    /// Local side: an interface, an address, or neither.
    pub via: Via,
    /// Location of the receiver on this path.
    pub remote: Remote,
    /// The user's preferences, for the scheduler.
    pub options: PathOptions,
}

impl ClientPath {
    /// Returns a path without preferences.
    pub fn new(via: Via, remote: Remote) -> Self {
        ClientPath {
            via,
            remote,
            options: PathOptions::default(),
        }
    }

    /// Opens the path's socket, unless its address is not known yet.
    pub(crate) fn open_port(&self, network: &Network) -> Result<Port, StartError> {
        match &self.remote {
            Remote::Address(address) => Port::open(network, &self.via, *address),
            Remote::Name(_) => {
                self.via.check()?;
                Ok(Port::nowhere(network))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct PathManager {
    paths: Vec<ManagedPath>,
    network: Network,
    names: Names,
    /// Pending changes of ports, which the thread makes when it takes them, in this order.
    changes: Vec<Change>,
    /// Number of batches of changes.
    pub(super) version: u64,
    /// Time of the next check of paths that do not answer, in a session.
    look_at: Instant,
}

/// One path.
#[derive(Debug)]
pub(super) struct ManagedPath {
    pub(super) path: ClientPath,
    search: Search,
    /// Number of paths that had its number before.
    pub(super) succession: u64,
    /// Whether it is unusable for now.
    pub(super) is_absent: bool,
    pub(super) fresh_port: FreshPort,
    /// Volume that the path may carry.
    pub(super) cap: Option<LinkCap>,
}

#[derive(Debug)]
pub(super) enum Change {
    Join(ClientPath, Port),
    Replace(usize, Port),
    Redirect(usize, SocketAddr),
    /// Another local port.
    Freshen(usize),
    /// A path that its owner switches on or off.
    Switch(usize, bool),
}

impl ManagedPath {
    fn new(path: ClientPath, names: &mut Names) -> Self {
        let search = match &path.remote {
            Remote::Address(address) => Search::fixed(*address),
            Remote::Name(name) => {
                let mut search = Search::default();
                search.set_candidates(names.add(name));
                search
            }
        };
        ManagedPath {
            is_absent: search.current().is_none(),
            succession: 0,
            fresh_port: FreshPort::default(),
            cap: None,
            search,
            path,
        }
    }

    fn name(&self) -> Option<&HostName> {
        match &self.path.remote {
            Remote::Address(_) => None,
            Remote::Name(name) => Some(name),
        }
    }

    /// Returns the route of the path as number `index`, once its address is known.
    pub(super) fn route(&self, index: usize) -> Option<Route> {
        let address = self.search.current()?;
        Some(Route::to(index, address))
    }

    /// Returns the user's part of reports of the path.
    pub(super) fn local_link(&self) -> LocalLink {
        LocalLink::new(self.path.via.to_string(), &self.path.options, self.cap)
    }

    /// Returns the size of the longest headers that its packets may have.
    fn header_bytes(&self) -> u32 {
        let candidates = self.search.candidates().iter();
        let longest = candidates.map(|address| header_bytes(*address)).max();
        longest.unwrap_or(HEADER_BYTES_OF_A_NAME)
    }
}

/// Headers for an unresolved name, which may lead to IPv6: 40 + 8 bytes.
const HEADER_BYTES_OF_A_NAME: u32 = 48;

impl PathManager {
    pub(super) fn new(
        paths: Vec<ClientPath>,
        network: Network,
        resolver: Arc<dyn Resolve>,
        waker: Arc<Waker>,
    ) -> Self {
        let mut names = Names::new(resolver, waker);
        let paths = paths
            .into_iter()
            .map(|path| ManagedPath::new(path, &mut names));
        PathManager {
            paths: paths.collect(),
            network,
            names,
            changes: Vec::new(),
            version: 0,
            look_at: Instant::ZERO,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ManagedPath> {
        self.paths.iter()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut ManagedPath> {
        self.paths.get_mut(index)
    }

    /// Returns the number of paths, those that join included.
    fn len(&self) -> usize {
        self.paths.len()
            + self
                .changes
                .iter()
                .filter(|change| matches!(change, Change::Join(..)))
                .count()
    }

    /// Returns the size of the longest headers of all paths' packets; `None` without a path.
    pub(super) fn header_bytes(&self) -> Option<u32> {
        self.paths.iter().map(ManagedPath::header_bytes).max()
    }

    pub(super) fn has_names(&self) -> bool {
        self.paths.iter().any(|managed| managed.name().is_some())
    }

    /// Returns the destination of a path, if it is known.
    pub(super) fn address(&self, index: usize) -> Option<SocketAddr> {
        self.paths.get(index)?.search.current()
    }

    /// Returns the destinations of initiations, by path.
    pub(super) fn targets(&self) -> Vec<Option<SocketAddr>> {
        self.paths
            .iter()
            .map(|managed| managed.search.current())
            .collect()
    }

    /// Returns all addresses that have been or may be called, each once.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for managed in &self.paths {
            for address in managed
                .search
                .current()
                .iter()
                .chain(managed.search.candidates())
            {
                if !addresses.contains(address) {
                    addresses.push(*address);
                }
            }
        }
        addresses
    }

    pub(super) fn push_change(&mut self, change: Change) {
        self.changes.push(change);
        self.version += 1;
    }

    /// Gives a path another local port.
    pub(super) fn freshen(&mut self, index: usize) {
        self.push_change(Change::Freshen(index));
    }

    /// Returns the number of paths that are in use.
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether ports must change before anything is sent. The version then differs from the
    /// one that the thread has seen, so it takes the ports at once.
    pub(super) fn are_ports_due(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Counts initiations that have left on all paths.
    pub(super) fn on_initiation(&mut self) {
        for managed in &mut self.paths {
            managed.search.on_attempt();
        }
    }

    /// Records an answer from the address that a path calls, though there is no session yet.
    pub(super) fn on_sign(&mut self, index: usize) {
        if let Some(managed) = self.paths.get_mut(index) {
            managed.search.on_sign();
        }
    }

    /// Returns the time of the next question to the resolver.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.names.next_at()
    }

    /// Returns the time at which [`ClientRole::tend_paths`] has something to do.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.has_names().then_some(self.look_at)
    }

    /// Resolves all names, and takes in the resolver's answers. Returns news for the user, and
    /// whether a path calls no address of its name.
    fn follow_all(&mut self, now: Instant) -> (Vec<Event>, bool) {
        let PathManager { paths, names, .. } = self;
        for name in paths.iter().filter_map(ManagedPath::name) {
            names.ask(now, name, LONGEST_PAUSE);
        }
        self.take_answers(now)
    }

    fn take_answers(&mut self, now: Instant) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        let mut is_lost = false;
        for answer in self.names.take(now) {
            if let Ok(addresses) = &answer.outcome {
                let its = self
                    .paths
                    .iter_mut()
                    .filter(|managed| managed.name() == Some(&answer.name));
                for managed in its {
                    let has_new = managed.search.set_candidates(addresses);
                    let current = managed.search.current();
                    is_lost |= has_new && !current.is_some_and(|at| addresses.contains(&at));
                }
            }
            events.extend(answer.is_new.then(|| event_of(answer)));
        }
        (events, is_lost)
    }

    /// Makes paths of names call another address if theirs does not answer. Returns whether any
    /// does: then its port must be changed first.
    fn aim(&mut self, now: Instant) -> bool {
        for index in 0..self.paths.len() {
            self.aim_one(now, index);
        }
        !self.changes.is_empty()
    }

    fn aim_one(&mut self, now: Instant, index: usize) {
        let managed = &mut self.paths[index];
        let (network, via) = (&self.network, &managed.path.via);
        let next = managed
            .search
            .next(now, |address| network.has_route(via, address));
        if let Some(address) = next {
            self.push_change(Change::Redirect(index, address));
        }
    }

    /// Handles a receiver's consent to a session at an address: the paths of the same name call it
    /// too, if they can. Returns whether any path moves.
    pub(super) fn on_session(&mut self, now: Instant, answered: Option<(usize, SocketAddr)>) {
        self.names.restart();
        self.look_at = now + POLL_INTERVAL;
        let Some((by, address)) = answered else {
            return;
        };
        if let Some(managed) = self.paths.get_mut(by) {
            managed.search.prove(now, address);
        }
        for index in 0..self.paths.len() {
            let managed = &mut self.paths[index];
            let is_elsewhere = managed.search.current() != Some(address);
            let may_move = index == by || self.network.has_route(&managed.path.via, address);
            if is_elsewhere && managed.search.knows(address) && may_move {
                managed.search.choose(address);
                self.push_change(Change::Redirect(index, address));
            }
        }
    }

    /// Keeps the addresses of the paths that were heard, in case that they answer again.
    pub(super) fn on_silence(&mut self, now: Instant, is_heard: impl Fn(usize) -> bool) {
        for (index, managed) in self.paths.iter_mut().enumerate() {
            if is_heard(index)
                && let Some(address) = managed.search.current()
            {
                managed.search.prove(now, address);
            }
        }
    }

    /// Returns the address of a path from which a datagram arrived, if the path may call it. TCP
    /// may have another port of the same host.
    pub(super) fn address_of(&self, arrival: &Arrival) -> Option<SocketAddr> {
        let managed = self.paths.get(arrival.socket)?;
        match arrival.carrier {
            Carrier::Udp => Some(arrival.from).filter(|from| managed.search.knows(*from)),
            Carrier::Tcp => managed.search.known_at(arrival.from.ip()),
        }
    }
}

/// Adapts the transport's set-up to the headers of the paths.
pub(super) fn prepare<L: Load>(transport: &mut Config, headers: u32) {
    transport.overhead_bytes = headers + PROTECTION_OVERHEAD_BYTES as u32;
    L::prepare(transport, headers);
}

fn event_of(answer: Answer) -> Event {
    let name = answer.name.to_string();
    match answer.outcome {
        Ok(addresses) => Event::NameResolved { name, addresses },
        Err(error) => Event::NameUnresolved {
            name,
            reason: error.to_string(),
        },
    }
}

impl<L: Load> ClientRole<L> {
    /// Takes in another path.
    pub(crate) fn add_path(&mut self, path: ClientPath, port: Port) -> Result<(), StartError> {
        let count = self.paths.len() + 1;
        if count > PathId::LIMIT {
            return Err(StartError::TooManyPaths { count });
        }
        self.check_family(&path)?;
        self.paths.push_change(Change::Join(path, port));
        Ok(())
    }

    /// Gives the number of a path to another one. Returns the counts of the old one.
    pub(crate) fn replace_path(
        &mut self,
        now: Instant,
        index: usize,
        path: ClientPath,
        port: Port,
    ) -> Result<PathSnapshot, StartError> {
        self.check_family(&path)?;
        if index >= self.paths.paths.len() {
            return Err(StartError::NoSuchPath { index });
        }
        let mut seen = self.snapshot(now).paths.into_iter();
        let old = seen.nth(index).unwrap_or_default();
        let options = path.options;
        let mut managed = ManagedPath::new(path, &mut self.paths.names);
        managed.succession = self.paths.paths[index].succession + 1;
        if let Some(driver) = &mut self.driver {
            driver.replace_path(now, index, managed.route(index), options);
            driver.set_local_link(index, managed.local_link());
            if managed.is_absent {
                driver.suspend_path(now, index);
            }
        }
        if let Some(past) = &mut self.past
            && let Some(path) = past.paths.get_mut(index)
        {
            *path = PathSnapshot::default();
        }
        self.paths.replace(index, managed, port);
        Ok(old)
    }

    /// Checks that a path that joins does not need longer headers than the present ones.
    fn check_family(&self, path: &ClientPath) -> Result<(), StartError> {
        let Remote::Address(remote) = path.remote else {
            return Ok(());
        };
        let headers = header_bytes(remote) + PROTECTION_OVERHEAD_BYTES as u32;
        if headers > self.config.transport.overhead_bytes {
            Err(StartError::Family { remote })
        } else {
            Ok(())
        }
    }

    /// Resolves the names while no receiver answers, and makes paths call other addresses when an
    /// initiation is due. Returns whether it must wait until ports are changed.
    pub(super) fn follow_names(&mut self, now: Instant) -> bool {
        let (events, is_lost) = self.paths.follow_all(now);
        for event in events {
            self.events.emit(event);
        }
        let Some(handshake) = &mut self.handshake else {
            return false;
        };
        if is_lost {
            handshake.on_new_address(now);
        }
        handshake.next_at() <= now && !handshake.has_agreed() && self.paths.aim(now)
    }

    /// Sends initiations to the paths' present addresses, if they are due.
    pub(super) fn initiate(&mut self, now: Instant, ports: &[Port]) {
        if let Some(handshake) = &mut self.handshake
            && handshake.advance(now, &self.paths.targets(), ports)
        {
            self.paths.on_initiation();
        }
    }

    /// Makes paths that do not answer call other addresses, while others carry the session.
    pub(super) fn tend_paths(&mut self, now: Instant) {
        let (Some(driver), true) = (&mut self.driver, self.paths.has_names()) else {
            return;
        };
        let (events, _) = self.paths.take_answers(now);
        for event in events {
            self.events.emit(event);
        }
        if now < self.paths.look_at {
            return;
        }
        self.paths.look_at = now + POLL_INTERVAL;
        for index in 0..self.paths.paths.len() {
            let managed = &mut self.paths.paths[index];
            let Some(name) = managed.name().cloned() else {
                continue;
            };
            if !driver.is_path_lost(index) {
                if let Some(address) = managed.search.current() {
                    managed.search.prove(now, address);
                }
                continue;
            }
            managed.search.on_attempt();
            self.paths.names.ask(now, &name, LONGEST_PAUSE_IN_SESSION);
            self.paths.aim_one(now, index);
        }
    }

    /// Makes the pending changes of ports.
    pub(super) fn change_ports(&mut self, now: Instant, ports: &mut Vec<Port>) {
        for change in core::mem::take(&mut self.paths.changes) {
            match change {
                Change::Join(path, port) => self.join(now, path, port, ports),
                Change::Replace(index, port) => {
                    ports[index] = port;
                    self.fallback.replace_path(index);
                }
                Change::Freshen(index) => ports[index].freshen(),
                Change::Switch(index, is_on) => ports[index].switch(is_on),
                Change::Redirect(index, address) => {
                    let managed = &mut self.paths.paths[index];
                    ports[index].redirect(&managed.path.via, address);
                    managed.is_absent = !ports[index].has_socket();
                    if let Some(driver) = &mut self.driver {
                        driver.redirect(index, address);
                    }
                }
            }
        }
    }

    fn join(&mut self, now: Instant, path: ClientPath, port: Port, ports: &mut Vec<Port>) {
        let options = path.options;
        let managed = ManagedPath::new(path, &mut self.paths.names);
        if let Some(driver) = &mut self.driver {
            driver.add_path(now, managed.route(ports.len()), options);
            driver.set_local_link(ports.len(), managed.local_link());
            if managed.is_absent {
                driver.suspend_path(now, ports.len());
            }
        }
        // A path of a name looks for an address at once.
        self.paths.look_at = self.paths.look_at.min(now);
        ports.push(port);
        self.paths.paths.push(managed);
    }
}

impl PathManager {
    fn replace(&mut self, index: usize, managed: ManagedPath, port: Port) {
        // It was meant for the old path.
        self.changes
            .retain(|change| !matches!(change, Change::Redirect(at, _) if *at == index));
        self.paths[index] = managed;
        let PathManager { paths, names, .. } = self;
        names.retain(|name| paths.iter().any(|managed| managed.name() == Some(name)));
        self.look_at = Instant::ZERO;
        self.push_change(Change::Replace(index, port));
    }
}

#[cfg(test)]
mod tests;
