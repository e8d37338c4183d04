//! State of the network under a flow's paths, which no sender knows.

use anabranch_core::MediaConfig;
use anabranch_link::DropCause;
use anabranch_sim::World;
use anabranch_sim::{Direction, FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent};
use anabranch_units::{Duration, Instant};

use super::frames::Frames;
use crate::frame_bound::Supply;
use crate::scenario::Scenario;

/// State of a path's network in a step. Packets and bytes are those of the flow to its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkPath {
    /// Mean capacity of the path's slowest link in the step, in bit/s; `None`: no link has a limit.
    pub capacity_bits_per_second: Option<f64>,
    /// Bytes of all flows in the queues of the path's links at the end of the step.
    pub queued_bytes: u64,
    /// Packets that arrived.
    pub delivered_packets: u64,
    /// Their bytes on the wire.
    pub delivered_bytes: u64,
    /// Their one-way delays, added.
    pub delay: Duration,
    /// Packets that links dropped.
    pub dropped_packets: u64,
}

/// Observes one flow.
#[derive(Debug)]
pub(super) struct Meter {
    flow: FlowId,
    pub(super) frames: Frames,
    paths: Vec<NetworkPath>,
}

impl Meter {
    pub(super) fn new(flow: FlowId, path_count: usize, end: Instant, media: &MediaConfig) -> Meter {
        Meter {
            flow,
            frames: Frames::new(end, media),
            paths: vec![NetworkPath::default(); path_count],
        }
    }

    fn path_of(&mut self, packet: &PacketEvent) -> Option<&mut NetworkPath> {
        let is_own = packet.flow == self.flow && packet.direction == Direction::Forward;
        if is_own {
            self.paths.get_mut(packet.path.index())
        } else {
            None
        }
    }
}

impl Observer for Meter {
    #[inline]
    fn on_delivered(&mut self, _now: Instant, packet: &PacketEvent, delay: Duration) {
        if let Some(path) = self.path_of(packet) {
            path.delivered_packets += 1;
            path.delivered_bytes += u64::from(packet.size_bytes);
            path.delay += delay;
        }
    }

    fn on_dropped(
        &mut self,
        _now: Instant,
        packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
        if let Some(path) = self.path_of(packet) {
            path.dropped_packets += 1;
        }
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        if frame.flow == self.flow {
            self.frames.on_captured(frame);
        }
    }

    fn on_frame_outcome(&mut self, _now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        if frame.flow == self.flow {
            self.frames.on_outcome(frame, outcome);
        }
    }
}

/// Links of each path to the receiver.
#[derive(Debug)]
pub(super) struct Links(Vec<Vec<PathLink>>);

#[derive(Debug)]
struct PathLink {
    id: LinkId,
    /// Its capacity over time, and that until the beginning of the step; `None`: no limit.
    supply: Option<(Supply, u128)>,
}

impl Links {
    pub(super) fn new(scenario: &Scenario, flow: usize) -> Links {
        let paths = scenario.flows[flow].paths.iter();
        let routes = paths.map(|path| &scenario.routes[path.route].forward);
        let links = routes.map(|links| {
            links
                .iter()
                .map(|link| PathLink {
                    id: LinkId(*link as u32),
                    supply: Supply::of_limited(&scenario.links[*link].config)
                        .map(|supply| (supply, 0)),
                })
                .collect()
        });
        Links(links.collect())
    }

    /// Returns the state of each path after a step of `length`, and begins the next step's counts.
    pub(super) fn read(
        &mut self,
        world: &mut World,
        meter: &mut Meter,
        length: Duration,
    ) -> Vec<NetworkPath> {
        let now = world.now();
        let paths = self.0.iter_mut().zip(&mut meter.paths);
        paths
            .map(|(links, counted)| {
                let queued = links
                    .iter()
                    .map(|link| world.link_statistics(link.id).queued_bytes);
                let queued_bytes = queued.sum();
                let capacities = links.iter_mut().filter_map(|link| {
                    let (supply, before) = link.supply.as_mut()?;
                    let by_now = supply.bit_nanos_by(now);
                    let passed = by_now - std::mem::replace(before, by_now);
                    Some(passed as f64 / length.as_nanos() as f64)
                });
                let capacity = capacities.min_by(f64::total_cmp);
                NetworkPath {
                    capacity_bits_per_second: capacity,
                    queued_bytes,
                    ..std::mem::take(counted)
                }
            })
            .collect()
    }
}
