//! The simulated world, and the loop that drives it.

mod shard;
mod stream;
mod threads;
mod turn;

use std::sync::Arc;

use anabranch_core::{
    Config, ConfigError, MediaSession, PathCounters, PathId, PathView, SessionCounters,
};
use anabranch_link::{LinkChange, LinkConfig, LinkConfigError, LinkStatistics};
use anabranch_units::{DataRate, Duration, Instant, Seed};
use anabranch_video::adaptive_player::AdaptiveCounts;
use anabranch_video::stored_player::StoredPlayerCounts;

use self::shard::{ObservedShard, Shard, shard_of};
use self::threads::{Here, Mover, with_helpers};
use crate::application::Application;
use crate::endpoint::Endpoint;
use crate::flow::{End, Flow, FlowConfig, Flows, Work};
use crate::generator::{Generator, GeneratorConfig, GeneratorConfigError};
use crate::groups::{Division, Group, MAX_GROUPS, Progress};
use crate::ids::{FlowId, LinkId, RouteId, Side};
use crate::limits::{Limits, ReachedLimit};
use crate::network::{Network, PacketCounts, Traffic};
use crate::observer::Observer;
use crate::oracle;
use crate::topology::Route;
use crate::trace_hash::TraceHash;

/// Links, routes over them, and flows that use these, in virtual time.
///
/// Each flow is two real endpoints of the core. Their datagrams pass the links with all bytes.
/// Events happen at exact instants; nothing is rounded to a tick. A run depends only on the calls
/// made and the seed.
#[derive(Debug)]
pub struct World {
    seed: Seed,
    now: Instant,
    progress: Progress,
    /// Whether flows or links have been added, so that the groups may change.
    is_changed: bool,
    /// Whether flows advance before the packets that they receive have arrived.
    looks_ahead: bool,
    network: Network,
    /// Links that have been changed since the last event.
    changed_links: Vec<LinkId>,
    flow_count: u32,
    limits: Limits,
    /// The shards; flows are assigned to them in turn.
    shards: Vec<Shard>,
}

/// Reasons for which something cannot be added to a [`World`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The link's set-up is invalid.
    #[error(transparent)]
    Link(#[from] LinkConfigError),
    /// A direction of a route has no links, or more than 255.
    #[error("a route has {link_count} links in one direction: it needs 1 to 255")]
    RouteLength {
        /// Number of links in the world.
        link_count: usize,
    },
    /// A flow has no path, or more than a session may have. A stream whose losses show only in the
    /// order of its bytes may have one.
    #[error(
        "a flow has {path_count} paths: it needs 1, or up to {} unless it is a stream with \
         loss-detection = \"tcp-cumulative\"",
        PathId::LIMIT
    )]
    PathCount {
        /// Number of paths of the flow.
        path_count: usize,
    },
    /// An endpoint's set-up is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A generator's set-up is invalid.
    #[error(transparent)]
    Generator(#[from] GeneratorConfigError),
}

impl World {
    /// Creates an empty world at instant zero. Every link and every endpoint draws its random
    /// numbers from a stream of its own, derived from `seed`.
    pub fn new(seed: Seed) -> World {
        World {
            seed,
            now: Instant::ZERO,
            progress: Progress::default(),
            is_changed: false,
            looks_ahead: true,
            network: Network::default(),
            changed_links: Vec::new(),
            flow_count: 0,
            limits: Limits::NONE,
            shards: vec![Shard::default()],
        }
    }

    /// Sets the number of shards. [`World::run_shards_until`] advances each shard's share of the
    /// flows on a thread of its own. The number does not change the result. A shard pays off from
    /// about ten flows on.
    ///
    /// # Panics
    /// If flows have been added, or `shard_count` is zero.
    pub fn set_shards(&mut self, shard_count: usize) {
        assert!(self.flow_count == 0, "flows have their shards");
        assert!(shard_count > 0, "flows need a shard");
        self.shards.resize_with(shard_count, Shard::default);
    }

    /// Sets limits. The world stands still at one of them: [`World::reached_limit`].
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        for shard in &mut self.shards {
            shard.traffic.set_limits(limits);
        }
    }

    /// Returns the limit that has stopped the world, if any.
    pub fn reached_limit(&self) -> Option<ReachedLimit> {
        let traffics = self.shards.iter().map(|shard| &shard.traffic);
        reached_limit(self.limits, traffics)
    }

    /// Returns the number of a flow's shard, from zero.
    pub fn shard_of(&self, flow: FlowId) -> usize {
        shard_of(flow, self.shards.len())
    }

    /// Adds one direction of a link. Its random stream depends on its name, not on its number.
    ///
    /// # Errors
    /// [`WorldError::Link`].
    pub fn add_link(&mut self, name: &str, config: &LinkConfig) -> Result<LinkId, WorldError> {
        let link = config.build(self.seed.derive(&format!("link/{name}")))?;
        Ok(self.network.add_link(link))
    }

    /// Adds one direction of a link that [`World::change_link`] may change. Without changes it has
    /// the same effect as one of [`World::add_link`].
    ///
    /// # Errors
    /// [`WorldError::Link`].
    pub fn add_changeable_link(
        &mut self,
        name: &str,
        config: &LinkConfig,
    ) -> Result<LinkId, WorldError> {
        let link = config.build_changeable(self.seed.derive(&format!("link/{name}")))?;
        Ok(self.network.add_link(link))
    }

    /// Changes a link now, after all events of this instant.
    ///
    /// # Errors
    /// [`WorldError::Link`]: the link cannot have this value; nothing has changed.
    ///
    /// # Panics
    /// If the link is not of this world, or was not added by [`World::add_changeable_link`].
    pub fn change_link(&mut self, link: LinkId, change: LinkChange) -> Result<(), WorldError> {
        let now = self.now;
        self.network.link(link).change(now, change)?;
        self.changed_links.push(link);
        // The groups depend on the links' delays.
        self.is_changed = true;
        Ok(())
    }

    /// Adds a route over `forward` to a receiver, and over `reverse` back to the sender.
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

    /// Adds a flow. Its random numbers are derived from its unique name, so that they do not depend
    /// on other parts of the world.
    ///
    /// # Errors
    /// [`WorldError::PathCount`], [`WorldError::Config`].
    ///
    /// # Panics
    /// If a route is not of this world, or the flow starts in the past; if its scheduler is
    /// [`ORACLE`](crate::ORACLE) and there are several shards.
    pub fn add_flow(&mut self, name: &str, config: FlowConfig) -> Result<FlowId, WorldError> {
        let FlowConfig {
            mut sender,
            receiver,
            paths,
            start,
            stop,
            source,
        } = config;
        let truth = match source {
            Application::Media(_) => oracle::listen(&mut sender),
            _ => None,
        };
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
        let flow_id = self.next_flow_id();
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
        let ends = [end(sender, "sender")?, end(receiver, "receiver")?];
        let has_one_lane = self.shards.len() == 1;
        assert!(
            has_one_lane || truth.is_none(),
            "an oracle requires a single shard"
        );
        self.is_changed = true;
        self.lane_for(flow_id).flows.push(Flow {
            source: Work::new(source, configs, paths.len(), flow_seed),
            paths,
            stop,
            frame_at: None,
            stop_at: None,
            ends,
            seed: flow_seed,
            session: 0,
            began_at: start,
            truth,
            head_of_line: Default::default(),
            open_frames: Default::default(),
        });
        Ok(flow_id)
    }

    /// Adds a flow of raw datagrams, which take their route's forward links and are not answered.
    /// Its random numbers are derived from its name, as with [`World::add_flow`].
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
        let flow_id = self.next_flow_id();
        let seed = self.seed.derive(&format!("flow/{name}/generator"));
        self.is_changed = true;
        let shard = self.lane_for(flow_id);
        shard.flows.push_generator(Generator::new(config, seed));
        Ok(flow_id)
    }

    fn next_flow_id(&self) -> FlowId {
        FlowId(self.flow_count)
    }

    /// Returns the shard of the next flow, and marks the flow as absent in the others.
    fn lane_for(&mut self, flow: FlowId) -> &mut Shard {
        let index = self.shard_of(flow);
        self.flow_count = flow.0.checked_add(1).expect("fewer than 2^32 flows");
        for (other, shard) in self.shards.iter_mut().enumerate() {
            if other != index {
                shard.flows.push_elsewhere();
            }
        }
        &mut self.shards[index]
    }

    /// Runs all events that are due by `until`, that instant included. The observer receives the
    /// events of one end of a flow in the order of time. Events of different ends and flows
    /// alternate, but an effect is never reported before its cause.
    ///
    /// # Panics
    /// If there are several shards.
    pub fn run_until(&mut self, until: Instant, observer: &mut impl Observer) {
        let mut shards = std::mem::take(&mut self.shards);
        let [shard] = &mut shards[..] else {
            panic!("shards have an observer each");
        };
        self.run(until, vec![ObservedShard { shard, observer }], &mut Here);
        self.shards = shards;
    }

    /// Runs [`World::run_until`] with one thread per shard. Each observer receives only the events
    /// of its shard's flows, from one thread at a time.
    ///
    /// # Panics
    /// If there are not as many observers as shards, or one of them panics.
    pub fn run_shards_until<O: Observer + Send>(&mut self, until: Instant, observers: &mut [O]) {
        let shard_count = self.shards.len();
        assert!(
            observers.len() == shard_count,
            "shards have an observer each"
        );
        let mut shards = std::mem::take(&mut self.shards);
        let watched: Vec<ObservedShard<'_, O>> = shards
            .iter_mut()
            .zip(observers)
            .map(|(shard, observer)| ObservedShard { shard, observer })
            .collect();
        match shard_count {
            1 => self.run(until, watched, &mut Here),
            _ => with_helpers(shard_count, |helpers| self.run(until, watched, helpers)),
        }
        self.shards = shards;
    }

    fn run<'a, O: Observer>(
        &mut self,
        until: Instant,
        mut shards: Vec<ObservedShard<'a, O>>,
        mover: &mut impl Mover<'a, O>,
    ) {
        if std::mem::take(&mut self.is_changed) {
            self.divide(&mut shards);
            for link in std::mem::take(&mut self.changed_links) {
                self.network.settle(link, self.now, &mut shards);
            }
        }
        while let Some(next_at) = self.next_at(&shards).filter(|at| *at <= until) {
            let traffics = shards.iter().map(|watched| &watched.shard.traffic);
            if reached_limit(self.limits, traffics).is_some() {
                break;
            }
            self.progress.skip_to(next_at);
            for group in self.progress.division.groups() {
                let horizon = self.horizon(group);
                let Some(window) = self.progress.advance(group, horizon, until) else {
                    continue;
                };
                self.network.deliver(window, &mut shards);
                let sides = self.progress.division.sides_of(group);
                mover.move_all(window, sides, &mut self.network, &mut shards);
                let peer_at = self.progress.reached(self.progress.division.peer_of(group));
                self.network.carry(window, peer_at, &mut shards);
            }
        }
        self.progress.set(until);
        self.now = until;
    }

    /// Returns the instant before which no packet that is still to be sent can reach the group.
    fn horizon(&self, group: Group) -> Instant {
        let known_until = self.progress.known_until(group);
        if self.looks_ahead {
            self.network.horizon(group, known_until)
        } else {
            known_until
        }
    }

    /// Chooses the ends that advance together.
    fn divide<O>(&mut self, shards: &mut [ObservedShard<'_, O>]) {
        // Oracles look at links as they are at this very instant.
        let mut flows = shards.iter().map(|watched| &watched.shard.flows);
        self.looks_ahead = !flows.clone().any(Flows::has_clairvoyant);
        let is_divisible = self.network.is_divisible() && !flows.any(Flows::has_successions);
        self.set_division(if is_divisible && self.looks_ahead {
            Division::BySide
        } else {
            Division::Together
        });
        let mut delays = (0..MAX_GROUPS).map(|group| self.network.min_delay(group));
        if delays.all(|delay| delay.is_zero()) {
            self.set_division(Division::Together);
        }
        for ObservedShard { shard, .. } in shards {
            shard.divide(self.progress.division, &self.network);
        }
    }

    fn set_division(&mut self, division: Division) {
        self.network.divide(division);
        self.progress.division = division;
    }

    fn next_at<O>(&self, shards: &[ObservedShard<'_, O>]) -> Option<Instant> {
        let groups = self.progress.division.groups();
        let events = groups.flat_map(|group| {
            let wakes = shards
                .iter()
                .map(move |watched| watched.shard.next_at(group));
            wakes.chain([self.network.next_at(group)]).flatten()
        });
        events.min()
    }

    /// Returns the instant up to which everything has happened.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the hash of all events so far.
    pub fn trace_hash(&self) -> TraceHash {
        let hashes = self.shards.iter().map(|shard| shard.traffic.hash());
        hashes.fold(TraceHash::default(), TraceHash::plus)
    }

    /// Returns the numbers of datagrams of all flows and both directions.
    pub fn packet_counts(&self) -> PacketCounts {
        let counts = self.shards.iter().map(|shard| shard.traffic.counts());
        counts.fold(PacketCounts::default(), PacketCounts::plus)
    }

    /// Returns the number of datagrams delivered from senders to receivers: the unit of the
    /// simulator's speed.
    pub fn data_packets_delivered(&self) -> u64 {
        let shards = self.shards.iter();
        shards
            .map(|shard| shard.traffic.data_delivered_count())
            .sum()
    }

    /// Returns a link's counters up to now.
    ///
    /// # Panics
    /// If the link is not of this world.
    pub fn link_statistics(&mut self, link: LinkId) -> LinkStatistics {
        let now = self.now;
        self.network.link(link).statistics(now)
    }

    /// Returns the transit time of a packet of `size_bytes` that enters the link now; `None` if it
    /// would not leave.
    ///
    /// # Panics
    /// If the link is not of this world.
    pub fn one_way_delay(&mut self, link: LinkId, size_bytes: u32) -> Option<Duration> {
        let now = self.now;
        self.network.link(link).one_way_delay(now, size_bytes)
    }

    /// Returns whether a flow has two endpoints, for the calls below; a generator has none.
    ///
    /// # Panics
    /// If the flow is not of this world.
    pub fn is_session(&self, flow: FlowId) -> bool {
        self.shards[self.shard_of(flow)].flows.is_session(flow)
    }

    /// Returns the view of its paths that a flow's sender has, by path number.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn sender_paths(&mut self, flow: FlowId) -> Vec<PathView> {
        let now = self.now;
        let shard = self.shard_of(flow);
        self.shards[shard].flows[flow.index()]
            .end(Side::Sender)
            .endpoint
            .paths(now)
    }

    /// Returns the counters of a path at a flow's sender.
    ///
    /// # Panics
    /// If the flow or path is not of this world, or the flow no session.
    pub fn sender_path_counters(&self, flow: FlowId, path: PathId) -> PathCounters {
        let counters = self.sender(flow).path_counters(path);
        let counters = *counters.expect("flows keep their paths");
        match &self.flow(flow).source {
            Work::Objects(objects) => objects.counted[path.index()].plus(&counters),
            Work::Frames(_) | Work::Bytes(_) | Work::Download(_) | Work::Adaptive(_) => counters,
        }
    }

    /// Returns the counters of a film's viewer; `None` if the flow downloads no film.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn viewer_counts(&self, flow: FlowId) -> Option<StoredPlayerCounts> {
        match &self.flow(flow).source {
            Work::Download(download) => Some(download.counts(self.now)),
            _ => None,
        }
    }

    /// Returns the counters of a viewer that chooses bitrates; `None` if the flow has no such
    /// viewer.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn adaptive_counts(&self, flow: FlowId) -> Option<AdaptiveCounts> {
        match &self.flow(flow).source {
            Work::Adaptive(adaptive) => Some(adaptive.counts(self.now)),
            _ => None,
        }
    }

    /// Returns the counters of a flow's sender.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn sender_counters(&self, flow: FlowId) -> SessionCounters {
        *self.sender(flow).counters()
    }

    /// Returns the counters of a flow's receiver.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn receiver_counters(&self, flow: FlowId) -> SessionCounters {
        let flow = self.flow(flow);
        *flow.ends[Side::Receiver as usize].endpoint.counters()
    }

    /// Returns the phase of the controller of a flow's path, by its source's own name.
    ///
    /// # Panics
    /// If the flow or path is not of this world, or the flow no session.
    pub fn controller_state(&self, flow: FlowId, path: PathId) -> &'static str {
        self.sender(flow)
            .controller_state(path)
            .expect("flows keep their paths")
    }

    /// Returns the bitrate requested of a flow's encoder; zero for a stream.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn target_bitrate(&self, flow: FlowId) -> DataRate {
        let sender = self.sender(flow).media();
        sender.map_or(DataRate::ZERO, MediaSession::target_bitrate)
    }

    fn flow(&self, flow: FlowId) -> &Flow {
        &self.shards[self.shard_of(flow)].flows[flow.index()]
    }

    fn sender(&self, flow: FlowId) -> &Endpoint {
        &self.flow(flow).ends[Side::Sender as usize].endpoint
    }
}

fn reached_limit<'a>(
    limits: Limits,
    traffics: impl Iterator<Item = &'a Traffic>,
) -> Option<ReachedLimit> {
    let numbers = traffics.map(|traffic| (traffic.steps(), traffic.counts().in_flight()));
    let (steps, in_flight) = numbers.fold((0, 0), |sum, its| (sum.0 + its.0, sum.1 + its.1));
    limits.reached(steps, in_flight)
}
