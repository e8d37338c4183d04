//! The simulated world, and the loop that drives it.

mod stream;
mod turn;

use std::sync::Arc;

use anabranch_core::{
    Config, ConfigError, MediaSession, PathCounters, PathId, PathView, SessionCounters,
};
use anabranch_link::{LinkConfig, LinkConfigError, LinkStatistics};
use anabranch_units::{DataRate, Ecn, Instant, Seed};

use self::turn::{Buffers, Turn};
use crate::agenda::Agenda;
use crate::application::Application;
use crate::endpoint::Endpoint;
use crate::flow::{Direction, End, Flow, FlowConfig, FlowId, Flows, Side, Work};
use crate::generator::{Generator, GeneratorConfig, GeneratorConfigError};
use crate::inboxes::{Arrival, Inboxes};
use crate::network::{Datagram, Network, PacketCounts};
use crate::observer::{Observer, PacketEvent};
use crate::oracle::{self, SharedTruth};
use crate::parties::{Division, MAX_PARTIES, Party, Progress, Window};
use crate::topology::{LinkId, Route, RouteId};
use crate::trace_hash::TraceHash;

/// Links, routes over them, and flows that use these, in virtual time.
///
/// Each flow is two real endpoints of the core whose datagrams, bytes and all, pass the links.
/// Things happen at their exact instants, so nothing is rounded to a tick. What happens depends on
/// nothing but the calls made and the seed.
#[derive(Debug)]
pub struct World {
    seed: Seed,
    now: Instant,
    progress: Progress,
    /// By party: when flows have something to do.
    agendas: [Agenda; MAX_PARTIES],
    /// Whether something has been added, so that the parties may have to be other ones.
    is_changed: bool,
    /// Whether flows are moved on before what they hear of is there.
    looks_ahead: bool,
    network: Network,
    flows: Flows,
    inboxes: Inboxes,
    /// Flows that have something to do in a window.
    due: Vec<FlowId>,
    buffers: Buffers,
}

/// Why something cannot be added to a [`World`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The link cannot be.
    #[error(transparent)]
    Link(#[from] LinkConfigError),
    /// A direction of a route has no links, or more than 255.
    #[error("a route has {link_count} links in one direction: it needs 1 to 255")]
    RouteLength {
        /// How many it has.
        link_count: usize,
    },
    /// A flow has no path, or more than a session may have: a stream has one.
    #[error(
        "a flow has {path_count} paths: it needs 1, or of media up to {}",
        PathId::LIMIT
    )]
    PathCount {
        /// How many it has.
        path_count: usize,
    },
    /// An endpoint cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A generator cannot be.
    #[error(transparent)]
    Generator(#[from] GeneratorConfigError),
}

impl World {
    /// An empty world at instant zero. Every link and every endpoint draws its chance from a stream
    /// of its own, derived from `seed`.
    pub fn new(seed: Seed) -> World {
        World {
            seed,
            now: Instant::ZERO,
            progress: Progress::default(),
            agendas: Default::default(),
            is_changed: false,
            looks_ahead: true,
            network: Network::default(),
            flows: Flows::default(),
            inboxes: Inboxes::default(),
            due: Vec::new(),
            buffers: Buffers::default(),
        }
    }

    /// Adds one direction of a link. Its random stream depends on its name, not on its place.
    ///
    /// # Errors
    /// [`WorldError::Link`].
    pub fn add_link(&mut self, name: &str, config: &LinkConfig) -> Result<LinkId, WorldError> {
        let link = config.build(self.seed.derive(&format!("link/{name}")))?;
        Ok(self.network.add_link(link))
    }

    /// Adds a way for packets over `forward` to a receiver, and over `reverse` back to the sender.
    ///
    /// # Errors
    /// [`WorldError::RouteLength`].
    ///
    /// # Panics
    /// If a link is not of this world.
    pub fn add_route(
        &mut self,
        forward: Vec<LinkId>,
        reverse: Vec<LinkId>,
    ) -> Result<RouteId, WorldError> {
        for link_count in [forward.len(), reverse.len()] {
            if !(1..=usize::from(u8::MAX)).contains(&link_count) {
                return Err(WorldError::RouteLength { link_count });
            }
        }
        self.is_changed = true;
        Ok(self.network.add_route(Route { forward, reverse }))
    }

    /// Adds a flow. Its chance comes from its name, which no other flow has, so that it is the same
    /// whatever else is in the world.
    ///
    /// # Errors
    /// [`WorldError::PathCount`], [`WorldError::Config`].
    ///
    /// # Panics
    /// If a route is not of this world, or the flow starts in the past.
    pub fn add_flow(&mut self, name: &str, config: FlowConfig) -> Result<FlowId, WorldError> {
        let FlowConfig {
            mut sender,
            mut receiver,
            paths,
            start,
            stop,
            source,
        } = config;
        let [is_clairvoyant, _] = [&mut sender, &mut receiver].map(oracle::take_name);
        let configs = [sender.clone(), receiver.clone()];
        if !(1..=PathId::LIMIT).contains(&paths.len()) {
            return Err(WorldError::PathCount {
                path_count: paths.len(),
            });
        }
        assert!(
            paths.iter().all(|path| self.network.has_route(path.route)),
            "a route unknown here"
        );
        assert!(start >= self.now, "flows start now or later");
        let flow_id = self.flows.next_id();
        let flow_seed = self.seed.derive(&format!("flow/{name}"));
        let end = |config: Arc<Config>, role: &str| -> Result<End, WorldError> {
            let overhead_bytes = config.overhead_bytes;
            let seed = flow_seed.derive(role);
            let mut endpoint = match source {
                Application::Media(_) => Endpoint::of_media(config, seed, start),
                _ => Endpoint::of_stream(config, seed, start),
            }?;
            for path in &paths {
                let added = endpoint.add_path(start, path.options);
                let path_count = paths.len();
                added.ok_or(WorldError::PathCount { path_count })?;
            }
            Ok(End {
                deadline: None,
                overhead_bytes,
                start_at: Some(start),
                endpoint,
            })
        };
        let mut ends = [end(sender, "sender")?, end(receiver, "receiver")?];
        let sender = &mut ends[Side::Sender as usize].endpoint;
        let truth = sender.media_mut().filter(|_| is_clairvoyant).map(|sender| {
            let truth = SharedTruth::default();
            sender.set_scheduler(oracle::build(&truth));
            truth
        });
        self.is_changed = true;
        self.flows.push(Flow {
            paths,
            stop,
            source: Work::new(source, configs, flow_seed),
            frame_at: None,
            stop_at: None,
            ends,
            seed: flow_seed,
            session: 0,
            began_at: start,
            truth,
            open_frames: Default::default(),
        });
        Ok(flow_id)
    }

    /// Adds a flow of raw datagrams, which take their route's forward links and are not answered.
    /// Its chance comes from its name, as with [`World::add_flow`].
    ///
    /// # Errors
    /// [`WorldError::Generator`].
    ///
    /// # Panics
    /// If the route is not of this world, or the flow starts in the past.
    pub fn add_generator(
        &mut self,
        name: &str,
        config: GeneratorConfig,
    ) -> Result<FlowId, WorldError> {
        config.check()?;
        assert!(self.network.has_route(config.route), "a route unknown here");
        assert!(config.start >= self.now, "flows start now or later");
        let flow_id = self.flows.next_id();
        let seed = self.seed.derive(&format!("flow/{name}/generator"));
        self.is_changed = true;
        self.flows.push_generator(Generator::new(config, seed));
        Ok(flow_id)
    }

    /// Lets everything happen that is due by `until`, that instant included. The observer hears of
    /// what happens to one end of a flow in the order of time, and of ends and flows by turns, but
    /// never of an effect before its cause.
    pub fn run_until(&mut self, until: Instant, observer: &mut impl Observer) {
        if std::mem::take(&mut self.is_changed) {
            self.divide();
        }
        while let Some(next_at) = self.next_at().filter(|at| *at <= until) {
            self.progress.skip_to(next_at);
            for party in self.progress.division.parties() {
                let horizon = self.horizon(party);
                if let Some(window) = self.progress.advance(party, horizon, until) {
                    self.move_on(window, observer);
                }
            }
        }
        self.progress.set(until);
        self.now = until;
    }

    /// Before this instant a party hears of nothing that is still to be sent.
    fn horizon(&self, party: Party) -> Instant {
        let known_until = self.progress.known_until(party);
        match self.looks_ahead {
            true => self.network.horizon(party, known_until),
            false => known_until,
        }
    }

    /// Finds out who can be moved together.
    fn divide(&mut self) {
        // Who is clairvoyant looks at links as they are at the very instant.
        self.looks_ahead = !self.flows.has_clairvoyant();
        let is_divisible = self.network.is_divisible() && !self.flows.has_successions();
        self.set_division(match is_divisible && self.looks_ahead {
            true => Division::BySide,
            false => Division::Together,
        });
        let mut delays = (0..MAX_PARTIES).map(|party| self.network.min_delay(party));
        if delays.all(|delay| delay.is_zero()) {
            self.set_division(Division::Together);
        }
        self.inboxes = Inboxes::new(self.flows.count());
        self.flows
            .plan_all(self.progress.division, &mut self.agendas);
    }

    fn set_division(&mut self, division: Division) {
        self.network.divide(division);
        self.progress.division = division;
    }

    fn next_at(&self) -> Option<Instant> {
        let parties = self.progress.division.parties();
        let events = parties.flat_map(|party| {
            let events = [self.agendas[party].next_at(), self.network.next_at(party)];
            events.into_iter().flatten()
        });
        events.min()
    }

    /// Moves a party to the end of its window.
    fn move_on(&mut self, window: Window, observer: &mut impl Observer) {
        let party = window.party;
        let mut due = std::mem::take(&mut self.due);
        self.take_in(window, &mut due, observer);
        self.agendas[party].take_due(window.before, &mut due);
        // As they lie in memory.
        due.sort_unstable();
        due.dedup();
        self.inboxes.deal(&due);
        let sides = self.progress.division.sides_of(party);
        for flow in &due {
            self.give_turn(*flow, window, sides, observer);
        }
        due.clear();
        self.due = due;
        let peer_at = self.progress.reached(self.progress.division.peer_of(party));
        self.network.carry(window, peer_at, observer);
    }

    /// Takes in what arrives in a window, and notes who will read it.
    fn take_in(&mut self, window: Window, due: &mut Vec<FlowId>, observer: &mut impl Observer) {
        let network = &mut self.network;
        self.inboxes
            .fill(|arrivals| network.deliver(window, arrivals, observer));
        let bytes = &mut self.buffers.datagram;
        let is_for_end = |arrival: &Arrival| {
            let is_for_end = self.flows.is_session(arrival.flow);
            if !is_for_end {
                network.arrive(arrival, bytes, observer);
            }
            is_for_end
        };
        self.inboxes.keep(is_for_end, due);
    }

    /// Moves a flow to the end of the window.
    fn give_turn(
        &mut self,
        flow_id: FlowId,
        window: Window,
        sides: &'static [Side],
        observer: &mut impl Observer,
    ) {
        if !self.flows.is_session(flow_id) {
            return self.generate(flow_id, window, observer);
        }
        let flow = &mut self.flows[flow_id.index()];
        let turn = Turn {
            sides,
            window,
            now: Instant::ZERO,
            flow_id,
            flow,
            inboxes: &mut self.inboxes,
            network: &mut self.network,
            buffers: &mut self.buffers,
            observer,
        };
        turn.run();
        self.agendas[window.party].plan(flow_id, flow.wakes_at(sides));
    }

    /// Lets a generator send what it sends in the window.
    fn generate(&mut self, flow: FlowId, window: Window, observer: &mut impl Observer) {
        let Some(generator) = self.flows.generator(flow) else {
            return;
        };
        while let Some(at) = generator.next_at() {
            if at >= window.before {
                return self.agendas[window.party].plan(flow, Some(at));
            }
            let datagram = Datagram {
                event: PacketEvent {
                    flow,
                    path: PathId(0),
                    direction: Direction::Forward,
                    size_bytes: generator.config.size_bytes,
                    fragment: None,
                    reason: None,
                },
                session: 0,
                route: generator.config.route,
                ecn: Ecn::NotEct,
                // Nobody reads it: its length on the wire is all that counts.
                payload: &[],
            };
            self.network.send(at, datagram, observer);
            generator.advance();
        }
    }

    /// The instant up to which everything has happened.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Hash of all that has happened.
    pub fn trace_hash(&self) -> TraceHash {
        self.network.hash()
    }

    /// Datagrams of all flows and both directions.
    pub fn packet_counts(&self) -> PacketCounts {
        self.network.counts()
    }

    /// Datagrams delivered from senders to receivers: the unit of the simulator's speed.
    pub fn data_packets_delivered(&self) -> u64 {
        self.network.data_delivered_count()
    }

    /// What a link has counted up to now.
    ///
    /// # Panics
    /// If the link is not of this world.
    pub fn link_statistics(&mut self, link: LinkId) -> LinkStatistics {
        let now = self.now;
        self.network.link(link).statistics(now)
    }

    /// Whether a flow has two endpoints, which can be asked below; a generator has none.
    ///
    /// # Panics
    /// If the flow is not of this world.
    pub fn is_session(&self, flow: FlowId) -> bool {
        self.flows.is_session(flow)
    }

    /// What a flow's sender knows about its paths, by path number.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn sender_paths(&mut self, flow: FlowId) -> &[PathView] {
        let now = self.now;
        self.flows[flow.index()]
            .end(Side::Sender)
            .endpoint
            .paths(now)
    }

    /// What a flow's sender has counted on a path.
    ///
    /// # Panics
    /// If the flow or path is not of this world, or the flow no session.
    pub fn sender_path_counters(&self, flow: FlowId, path: PathId) -> PathCounters {
        let counters = self.sender(flow).path_counters(path);
        let counters = *counters.expect("flows keep their paths");
        match &self.flows[flow.index()].source {
            Work::Objects(objects) => objects.counted.plus(&counters),
            Work::Frames(_) | Work::Bytes(_) => counters,
        }
    }

    /// What a flow's sender has counted.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn sender_counters(&self, flow: FlowId) -> SessionCounters {
        *self.sender(flow).counters()
    }

    /// What a flow's receiver has counted.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn receiver_counters(&self, flow: FlowId) -> SessionCounters {
        let flow = &self.flows[flow.index()];
        *flow.ends[Side::Receiver as usize].endpoint.counters()
    }

    /// The phase that the controller of a flow's path is in, by its source's own name.
    ///
    /// # Panics
    /// If the flow or path is not of this world, or the flow no session.
    pub fn controller_state(&self, flow: FlowId, path: PathId) -> &'static str {
        self.sender(flow)
            .controller_state(path)
            .expect("flows keep their paths")
    }

    /// The bitrate that a flow's encoder is asked for; zero of a stream.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn target_bitrate(&self, flow: FlowId) -> DataRate {
        let sender = self.sender(flow).media();
        sender.map_or(DataRate::ZERO, MediaSession::target_bitrate)
    }

    fn sender(&self, flow: FlowId) -> &Endpoint {
        &self.flows[flow.index()].ends[Side::Sender as usize].endpoint
    }
}
