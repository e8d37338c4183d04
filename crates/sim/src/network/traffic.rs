//! Packets in flight of some of the flows. Each shard has its own, so that flows of different
//! shards can take their turns at the same time.

use anabranch_core::{PathId, SendReason};
use anabranch_link::{Dropped, Packet};
use anabranch_units::{Ecn, Instant};

use super::PacketCounts;
use super::entries::Entry;
use super::packet_record::PacketRecord;
use crate::ids::{Direction, FlowId, LinkId, RouteId};
use crate::limits::Limits;
use crate::mailboxes::Arrival;
use crate::observer::{FrameEvent, FrameOutcome, Observer, PacketEvent};
use crate::payload::{More, Unpacked};
use crate::topology::Route;
use crate::trace_hash::TraceHash;

/// The traffic of a shard's flows.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Packet records by [`Packet::id`].
    pub(super) packet_records: Vec<PacketRecord>,
    /// Payload bytes that exceed the space in the records.
    more: Vec<More>,
    /// Indices of records that have ended, for new packets.
    free_records: Vec<u32>,
    /// First link, by route and direction.
    first_links: Vec<[LinkId; 2]>,
    /// Arrivals in this window, link by link.
    pub(crate) arrivals: Vec<Arrival>,
    /// Packets that the flows have sent in this window. Flows note them one after the other, each
    /// in the order of time.
    pub(super) recorded: Vec<Entry>,
    counts: PacketCounts,
    data_delivered_count: u64,
    hash: TraceHash,
    limits: Limits,
    steps: u64,
}

/// Traffic and its observer, by flow.
pub(crate) trait Shards {
    /// The observer's type.
    type Observer: Observer;

    /// Returns the traffic and the observer of a flow.
    fn of(&mut self, flow: FlowId) -> (&mut Traffic, &mut Self::Observer);

    /// Visits all traffic, in the same order each time.
    fn for_each(&mut self, visit: impl FnMut(&mut Traffic));
}

/// The only one.
impl<O: Observer> Shards for (&mut Traffic, &mut O) {
    type Observer = O;

    fn of(&mut self, _flow: FlowId) -> (&mut Traffic, &mut O) {
        (self.0, self.1)
    }

    fn for_each(&mut self, mut visit: impl FnMut(&mut Traffic)) {
        visit(self.0);
    }
}

/// A datagram that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) path: PathId,
    /// Number of its session in the flow.
    pub(crate) session: u32,
    pub(crate) bytes: &'a [u8],
}

/// A datagram that an endpoint sends.
#[derive(Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) event: PacketEvent,
    /// Number of its session in the flow.
    pub(crate) session: u32,
    pub(crate) route: RouteId,
    pub(crate) ecn: Ecn,
    pub(crate) payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sent = 1,
    Delivered = 2,
    Dropped = 3,
    FrameAbandoned = 4,
    FrameComplete = 5,
    FrameHandedOut = 6,
    FrameLost = 7,
}

/// Mark of a frame of which no part arrived, next to its importance.
const IS_MISSING: u64 = 4;

impl Traffic {
    /// Prepares the traffic for datagrams over these routes.
    pub(crate) fn learn_routes(&mut self, routes: &[Route]) {
        fn first(route: &Route, direction: Direction) -> LinkId {
            *route.links(direction).first().expect("links")
        }
        self.first_links = routes
            .iter()
            .map(|route| Direction::BOTH.map(|direction| first(route, direction)))
            .collect();
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Counts a step of a flow.
    #[inline]
    pub(crate) fn count_step(&mut self) {
        self.steps += 1;
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns whether these flows alone have reached a limit of the world.
    #[inline]
    pub(crate) fn is_at_limit(&self) -> bool {
        let in_flight = self.counts.in_flight();
        self.limits.reached(self.steps, in_flight).is_some()
    }

    pub(crate) fn counts(&self) -> PacketCounts {
        self.counts
    }

    pub(crate) fn data_delivered_count(&self) -> u64 {
        self.data_delivered_count
    }

    pub(crate) fn hash(&self) -> TraceHash {
        self.hash
    }

    pub(super) fn packet_record(&mut self, packet: &Packet) -> &mut PacketRecord {
        &mut self.packet_records[packet.id as usize]
    }

    /// Reads a datagram that has arrived: its bytes go to `buffer`.
    pub(crate) fn arrive<'a>(
        &mut self,
        arrival: &Arrival,
        buffer: &'a mut Unpacked,
        observer: &mut impl Observer,
    ) -> Arrived<'a> {
        self.free_records.push(arrival.id);
        let packet_record = &self.packet_records[arrival.id as usize];
        let more = &self.more[arrival.id as usize];
        let bytes = packet_record.payload.unpack(more, buffer);
        let arrived = Arrived {
            path: packet_record.path,
            session: packet_record.session,
            bytes,
        };
        let (event, sent_at) = (packet_record.event(), packet_record.sent_at);
        self.counts.delivered += 1;
        self.data_delivered_count += u64::from(event.direction == Direction::Forward);
        self.record(arrival.at, Kind::Delivered, &event);
        observer.on_delivered(arrival.at, &event, arrival.at - sent_at);
        arrived
    }

    /// Hands a datagram to the first link of its route, which it enters at the end of the window.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        observer: &mut impl Observer,
    ) {
        let Datagram {
            event,
            session,
            route,
            ecn,
            payload,
        } = datagram;
        let id = self.free_records.pop().unwrap_or_else(|| {
            self.packet_records.push(PacketRecord::BLANK);
            self.more.push(More::EMPTY);
            u32::try_from(self.more.len() - 1).expect("fewer than 2^32 packets in flight")
        });
        let packet_record = &mut self.packet_records[id as usize];
        packet_record.begin(now, event, *session, *route);
        // Only repairs and reports contain more than headers and zeros.
        let has_blank_content = !event
            .reason
            .is_some_and(|reason| matches!(reason, SendReason::Repair | SendReason::Control));
        let more = &mut self.more[id as usize];
        packet_record.payload.pack(payload, has_blank_content, more);
        self.counts.sent += 1;
        self.count_step();
        self.record(now, Kind::Sent, event);
        observer.on_sent(now, event);
        self.recorded.push(Entry {
            at: now,
            flow: event.flow,
            id,
            size_bytes: event.size_bytes,
            link: self.first_links[route.index()][event.direction as usize],
            ecn: *ecn,
            is_back: event.direction == Direction::Reverse,
        });
    }

    /// Records that a link has dropped a packet, and returns the packet's description.
    pub(super) fn lose(&mut self, dropped: &Dropped) -> PacketEvent {
        let id = dropped.packet.id as u32;
        self.free_records.push(id);
        let event = self.packet_records[id as usize].event();
        self.counts.dropped += 1;
        self.record(dropped.at, Kind::Dropped, &event);
        event
    }

    #[inline]
    fn record(&mut self, at: Instant, kind: Kind, event: &PacketEvent) {
        let PacketEvent {
            flow,
            path: PathId(path),
            direction,
            size_bytes,
            fragment: _,
            reason: _,
        } = *event;
        let word = u64::from(size_bytes)
            | u64::from(flow.0) << 32
            | u64::from(path) << 52
            | (direction as u64) << 60
            | (kind as u64) << 61;
        self.hash.add(at.as_nanos(), word);
    }

    /// Adds the outcome of a frame at the receiver to the hash, and its importance.
    pub(crate) fn record_outcome(
        &mut self,
        now: Instant,
        frame: &FrameEvent,
        outcome: FrameOutcome,
    ) {
        let detail = frame.importance as u64;
        let FrameEvent { flow, index, .. } = *frame;
        match outcome {
            FrameOutcome::Complete { completed_at } => {
                self.record_frame(completed_at, Kind::FrameComplete, flow, index, detail);
                self.record_frame(now, Kind::FrameHandedOut, flow, index, detail);
            }
            FrameOutcome::Incomplete => {
                self.record_frame(now, Kind::FrameLost, flow, index, detail);
            }
            FrameOutcome::Missing => {
                self.record_frame(now, Kind::FrameLost, flow, index, detail | IS_MISSING);
            }
        }
    }

    /// Adds a frame that its sender has given up to the hash.
    pub(crate) fn record_abandoned(&mut self, now: Instant, flow: FlowId, index: u64) {
        self.record_frame(now, Kind::FrameAbandoned, flow, index, 0);
    }

    fn record_frame(&mut self, at: Instant, kind: Kind, flow: FlowId, index: u64, detail: u64) {
        let word = index | u64::from(flow.0) << 32 | detail << 52 | (kind as u64) << 61;
        self.hash.add(at.as_nanos(), word);
    }
}
