//! The network's record of a packet.

use anabranch_core::{PathId, SendReason};
use anabranch_units::Instant;

use crate::ids::{Direction, FlowId, RouteId};
use crate::observer::{FragmentId, PacketEvent};
use crate::payload::Payload;

/// A packet's path through the network, identified by its `id`. Links do not need it. It is kept
/// small: thousands of packets are in flight at a time.
#[derive(Debug)]
pub(super) struct PacketRecord {
    pub(super) sent_at: Instant,
    pub(super) payload: Payload,
    flow: FlowId,
    size_bytes: u32,
    pub(super) session: u32,
    pub(super) route: RouteId,
    /// Frame of the [`FragmentId`], if there is one.
    frame: u32,
    fragment: u16,
    has_fragment: bool,
    reason: Option<SendReason>,
    pub(super) path: PathId,
    pub(super) direction: Direction,
    pub(super) hop: u8,
}

const _: () = assert!(size_of::<PacketRecord>() == 64);

impl PacketRecord {
    /// The record of no packet.
    pub(super) const BLANK: PacketRecord = PacketRecord {
        sent_at: Instant::ZERO,
        payload: Payload::EMPTY,
        flow: FlowId(0),
        size_bytes: 0,
        session: 0,
        route: RouteId(0),
        frame: 0,
        fragment: 0,
        has_fragment: false,
        reason: None,
        path: PathId(0),
        direction: Direction::Forward,
        hop: 0,
    };

    /// Resets it for a packet that leaves now, without the payload.
    #[inline]
    pub(super) fn begin(
        &mut self,
        now: Instant,
        event: &PacketEvent,
        session: u32,
        route: RouteId,
    ) {
        self.sent_at = now;
        self.flow = event.flow;
        self.size_bytes = event.size_bytes;
        self.session = session;
        self.route = route;
        self.has_fragment = event.fragment.is_some();
        if let Some(FragmentId { frame, fragment }) = event.fragment {
            self.frame = frame;
            self.fragment = fragment;
        }
        self.reason = event.reason;
        self.path = event.path;
        self.direction = event.direction;
        self.hop = 0;
    }

    #[inline]
    pub(super) fn event(&self) -> PacketEvent {
        PacketEvent {
            flow: self.flow,
            path: self.path,
            direction: self.direction,
            size_bytes: self.size_bytes,
            fragment: self.has_fragment.then_some(FragmentId {
                frame: self.frame,
                fragment: self.fragment,
            }),
            reason: self.reason,
        }
    }
}
