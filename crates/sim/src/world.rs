//! The simulated world, and the loop that drives it.

mod stream;

use std::collections::VecDeque;

use anabranch_core::media::DropReason;
use anabranch_core::{
    ConfigError, DatagramMeta, Endpoint, Event as EndpointEvent, Frame, PathCounters, PathId,
    PathView, ReceivedFrame, SessionCounters,
};
use anabranch_link::{LinkConfig, LinkConfigError, LinkStatistics};
use anabranch_units::{DataRate, Ecn, Instant, Seed};

use crate::event_queue::{Alarm, Event, EventQueue};
use crate::flow::{Direction, End, Flow, FlowConfig, FlowId, Flows, Side, Work};
use crate::generator::{Generator, GeneratorConfig, GeneratorConfigError};
use crate::network::{Arrival, Datagram, Network, PacketCounts};
use crate::observer::{FragmentId, FrameEvent, FrameOutcome, Observer, PacketEvent};
use crate::oracle::{self, SharedTruth};
use crate::topology::{LinkId, Route, RouteId};
use crate::trace_hash::TraceHash;

/// Links, routes over them, and flows that use these, in virtual time.
///
/// Each flow is two real endpoints of the core whose datagrams, bytes and all, pass the links. Time
/// moves from event to event, so nothing is rounded to a tick. What happens depends on nothing but
/// the calls made and the seed.
#[derive(Debug)]
pub struct World {
    seed: Seed,
    now: Instant,
    events: EventQueue,
    network: Network,
    flows: Flows,
    /// The datagram being sent or received.
    datagram: Vec<u8>,
    /// Zeros: the contents of frames and streams.
    zeros: Vec<u8>,
    /// What a stream's receiver reads.
    read: Vec<u8>,
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
            events: EventQueue::default(),
            network: Network::default(),
            flows: Flows::default(),
            datagram: Vec::new(),
            zeros: Vec::new(),
            read: Vec::new(),
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
        Ok(self.network.add_route(Route { forward, reverse }))
    }

    /// Adds a flow.
    ///
    /// # Errors
    /// [`WorldError::PathCount`], [`WorldError::Config`].
    ///
    /// # Panics
    /// If a route is not of this world, or the flow starts in the past.
    pub fn add_flow(&mut self, config: FlowConfig) -> Result<FlowId, WorldError> {
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
        let flow_seed = self.seed.derive(&format!("flow/{}", flow_id.0));
        let end = |config: anabranch_core::Config, role: &str| -> Result<End, WorldError> {
            let overhead_bytes = config.overhead_bytes;
            let seed = self.seed.derive(&format!("flow/{}/{role}", flow_id.0));
            let mut endpoint = Endpoint::new(config, seed, start)?;
            for path in &paths {
                let added = endpoint.add_path(start, path.options);
                let path_count = paths.len();
                added.ok_or(WorldError::PathCount { path_count })?;
            }
            Ok(End {
                endpoint,
                alarm: Alarm::UNSET,
                deadline: None,
                overhead_bytes,
            })
        };
        let mut ends = [end(sender, "sender")?, end(receiver, "receiver")?];
        let truth = is_clairvoyant.then(SharedTruth::default);
        if let Some(truth) = &truth {
            let scheduler = oracle::build(truth);
            ends[Side::Sender as usize]
                .endpoint
                .set_scheduler(scheduler);
        }
        self.events.plan(start, Event::Start(flow_id));
        self.flows.push(Flow {
            paths,
            stop,
            source: Work::new(source, configs, flow_seed),
            ends,
            session: 0,
            began_at: start,
            truth,
            open_frames: VecDeque::new(),
        });
        Ok(flow_id)
    }

    /// Adds a flow of raw datagrams, which take their route's forward links and are not answered.
    ///
    /// # Errors
    /// [`WorldError::Generator`].
    ///
    /// # Panics
    /// If the route is not of this world, or the flow starts in the past.
    pub fn add_generator(&mut self, config: GeneratorConfig) -> Result<FlowId, WorldError> {
        config.check()?;
        assert!(self.network.has_route(config.route), "a route unknown here");
        assert!(config.start >= self.now, "flows start now or later");
        let flow_id = self.flows.next_id();
        let seed = self.seed.derive(&format!("flow/{}/generator", flow_id.0));
        let generator = Generator::new(config, seed);
        if let Some(at) = generator.next_at() {
            self.events.plan(at, Event::Generate(flow_id));
        }
        self.flows.push_generator(generator);
        Ok(flow_id)
    }

    /// Lets everything happen that is due by `until`, that instant included.
    pub fn run_until(&mut self, until: Instant, observer: &mut impl Observer) {
        while let Some((at, event)) = self.events.pop_until(until) {
            debug_assert!(at >= self.now, "time does not go back");
            self.now = at;
            match event {
                Event::Link(link) => self.on_link(link, observer),
                Event::Endpoint(flow, side) => self.on_alarm(flow, side, observer),
                Event::Frame(flow) => self.on_frame_due(flow, observer),
                Event::Generate(flow) => self.on_generate(flow, observer),
                Event::Start(flow) => self.on_start(flow, observer),
                Event::Stop(flow) => {
                    self.flows[flow.index()]
                        .end(Side::Sender)
                        .endpoint
                        .close(at);
                    self.serve(flow, Side::Sender, observer);
                }
            }
        }
        self.now = self.now.max(until);
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

    /// The bitrate that a flow's encoder is asked for.
    ///
    /// # Panics
    /// If the flow is not of this world, or no session.
    pub fn target_bitrate(&self, flow: FlowId) -> DataRate {
        self.sender(flow).target_bitrate()
    }

    fn sender(&self, flow: FlowId) -> &Endpoint {
        &self.flows[flow.index()].ends[Side::Sender as usize].endpoint
    }

    fn on_start(&mut self, flow_id: FlowId, observer: &mut impl Observer) {
        let flow = &mut self.flows[flow_id.index()];
        let next_at = match &mut flow.source {
            Work::Frames(source) => source.next_at(),
            Work::Objects(objects) => Some(objects.first_at(self.now)),
            Work::Bytes(_) => None,
        };
        if let Some(at) = next_at {
            self.events.plan(at.max(self.now), Event::Frame(flow_id));
        }
        self.write_stream(flow_id);
        let flow = &mut self.flows[flow_id.index()];
        if let Some(stop) = flow.stop {
            self.events.plan(stop.max(self.now), Event::Stop(flow_id));
        }
        self.serve(flow_id, Side::Sender, observer);
        self.serve(flow_id, Side::Receiver, observer);
    }

    fn on_alarm(&mut self, flow_id: FlowId, side: Side, observer: &mut impl Observer) {
        let now = self.now;
        let end = self.flows[flow_id.index()].end(side);
        if !end.alarm.ring(now) {
            return;
        }
        if end.deadline.is_some_and(|at| at <= now) {
            end.endpoint.handle_timeout(now);
            self.serve(flow_id, side, observer);
        } else {
            end.alarm.set(
                end.deadline,
                Event::Endpoint(flow_id, side),
                &mut self.events,
            );
        }
    }

    fn on_link(&mut self, link: LinkId, observer: &mut impl Observer) {
        if !self.network.ring(self.now, link) {
            return;
        }
        while let Some(arrival) = self.network.next_arrival(
            self.now,
            link,
            &mut self.datagram,
            &mut self.events,
            observer,
        ) {
            self.on_arrival(arrival, observer);
        }
        self.network
            .settle(self.now, link, &mut self.events, observer);
    }

    /// The datagram in the buffer has come to an end of its flow.
    fn on_arrival(&mut self, arrival: Arrival, observer: &mut impl Observer) {
        let Arrival {
            event,
            session,
            ecn,
        } = arrival;
        let is_session = self.flows.is_session(event.flow);
        if !is_session || self.flows[event.flow.index()].session != session {
            return;
        }
        let side = match event.direction {
            Direction::Forward => Side::Receiver,
            Direction::Reverse => Side::Sender,
        };
        let meta = DatagramMeta {
            path: event.path,
            received_at: self.now,
            ecn,
        };
        let end = self.flows[event.flow.index()].end(side);
        end.endpoint.handle_datagram(self.now, meta, &self.datagram);
        self.serve(event.flow, side, observer);
    }

    fn on_frame_due(&mut self, flow_id: FlowId, observer: &mut impl Observer) {
        let now = self.now;
        let flow = &mut self.flows[flow_id.index()];
        if flow.stop.is_some_and(|stop| stop <= now) {
            return;
        }
        let Work::Frames(source) = &mut flow.source else {
            return self.begin_object(flow_id, observer);
        };
        let sender = &mut flow.ends[Side::Sender as usize].endpoint;
        let shape = source.produce(now, sender.target_bitrate());
        let size = shape.bytes as usize;
        if self.zeros.len() < size {
            self.zeros.resize(size, 0);
        }
        let frame = Frame {
            bytes: &self.zeros[..size],
            importance: shape.importance,
            captured_at: now,
        };
        if let Ok(id) = sender.send_frame(now, &frame) {
            let frame = FrameEvent {
                flow: flow_id,
                index: id.0,
                captured_at: now,
                size_bytes: shape.bytes,
                importance: shape.importance,
            };
            flow.open_frames.push_back(frame);
            observer.on_frame_captured(&frame);
        }
        if let Some(at) = source.next_at() {
            self.events.plan(at.max(now), Event::Frame(flow_id));
        }
        self.serve(flow_id, Side::Sender, observer);
    }

    fn on_generate(&mut self, flow: FlowId, observer: &mut impl Observer) {
        let Some(generator) = self.flows.generator(flow) else {
            return;
        };
        let datagram = Datagram {
            event: PacketEvent {
                flow,
                path: PathId(0),
                direction: Direction::Forward,
                size_bytes: generator.config.size_bytes,
                fragment: None,
            },
            session: 0,
            route: generator.config.route,
            ecn: Ecn::NotEct,
            // Nobody reads it: its length on the wire is all that counts.
            payload: &[],
        };
        generator.advance();
        if let Some(at) = generator.next_at() {
            self.events.plan(at, Event::Generate(flow));
        }
        self.network
            .send(self.now, datagram, &mut self.events, observer);
    }

    /// The calls that follow every call of an endpoint: what it sends, what it tells, when it wants
    /// to be called next.
    fn serve(&mut self, flow_id: FlowId, side: Side, observer: &mut impl Observer) {
        let now = self.now;
        let flow = &mut self.flows[flow_id.index()];
        if side == Side::Sender
            && let Some(truth) = &flow.truth
        {
            let routes = flow.paths.iter().map(|path| path.route);
            let forecast = |route| self.network.forecast(now, route, Direction::Forward);
            oracle::tell(truth, routes.map(forecast));
        }
        let end = &mut flow.ends[side as usize];
        loop {
            self.datagram.clear();
            let Some(transmit) = end.endpoint.poll_transmit(now, &mut self.datagram) else {
                break;
            };
            let size_bytes = transmit.size as u32 + end.overhead_bytes;
            let direction = side.direction();
            let datagram = Datagram {
                event: PacketEvent {
                    flow: flow_id,
                    path: transmit.path,
                    direction,
                    size_bytes,
                    fragment: transmit.fragment.map(|(frame, fragment)| FragmentId {
                        frame: frame.0 as u32,
                        fragment,
                    }),
                },
                session: flow.session,
                route: flow.paths[transmit.path.index()].route,
                ecn: transmit.ecn,
                payload: &self.datagram,
            };
            self.network.send(now, datagram, &mut self.events, observer);
        }
        let mut has_streamed = false;
        while let Some(event) = end.endpoint.poll_event() {
            match event {
                EndpointEvent::StreamReadable
                | EndpointEvent::StreamWritable
                | EndpointEvent::StreamFinished => has_streamed = true,
                event => report(now, flow_id, &mut flow.open_frames, event, observer),
            }
        }
        if has_streamed {
            // Reading may open a window, and writing gives something to send.
            self.serve_stream(flow_id, side, observer);
            return self.serve(flow_id, side, observer);
        }
        end.deadline = end.endpoint.poll_timeout().map(|(at, _)| at.max(now));
        end.alarm.set(
            end.deadline,
            Event::Endpoint(flow_id, side),
            &mut self.events,
        );
    }
}

/// Tells the observer what an endpoint tells its application.
fn report(
    now: Instant,
    flow: FlowId,
    open_frames: &mut VecDeque<FrameEvent>,
    event: EndpointEvent,
    observer: &mut impl Observer,
) {
    let (index, outcome) = match event {
        EndpointEvent::FrameReceived(ReceivedFrame {
            id, completed_at, ..
        }) => (id.0, FrameOutcome::Complete { completed_at }),
        EndpointEvent::FrameDropped {
            id,
            reason: DropReason::Incomplete,
        } => (id.0, FrameOutcome::Incomplete),
        EndpointEvent::FrameDropped {
            id,
            reason: DropReason::Missing,
        } => (id.0, FrameOutcome::Missing),
        EndpointEvent::FrameDropped {
            reason: DropReason::Late,
            ..
        } => {
            return observer.on_frame_abandoned(now, flow);
        }
        EndpointEvent::TargetBitrate(target) => {
            return observer.on_target_bitrate(now, flow, target);
        }
        EndpointEvent::PathState { path, state } => {
            return observer.on_path_state(now, flow, path, state);
        }
        EndpointEvent::StreamReadable
        | EndpointEvent::StreamWritable
        | EndpointEvent::StreamFinished
        | EndpointEvent::Closed => return,
    };
    // The receiver hears of a frame that vanished as a whole only by the numbers of later ones.
    while let Some(frame) = open_frames
        .front()
        .copied()
        .filter(|frame| frame.index <= index)
    {
        open_frames.pop_front();
        let outcome = if frame.index == index {
            outcome
        } else {
            FrameOutcome::Missing
        };
        observer.on_frame_outcome(now, &frame, outcome);
    }
}
