//! Shards: flows that take their turns on the same thread.
//!
//! Within a window of time flows do not affect each other; they only meet on links, before it and
//! after it. Flows of different shards can therefore advance at the same time, with the same
//! result.

use anabranch_core::PathId;
use anabranch_units::{Ecn, Instant};

use super::turn::{Buffers, Turn};
use crate::flow::Flows;
use crate::groups::{Division, Group, MAX_GROUPS, Window};
use crate::ids::{Direction, FlowId, Side};
use crate::mailboxes::Mailboxes;
use crate::network::{Datagram, Network, Shards, Traffic};
use crate::observer::{Observer, PacketEvent};
use crate::timer_queue::TimerQueue;

/// Some of the flows, with the state that they use in their turns.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) flows: Flows,
    pub(super) traffic: Traffic,
    /// Timers of the flows, by group.
    agendas: [TimerQueue; MAX_GROUPS],
    mailboxes: Mailboxes,
    /// Flows that have something to do in a window.
    due: Vec<FlowId>,
    buffers: Buffers,
}

/// Returns the number of a flow's shard.
#[inline]
pub(super) fn shard_of(flow: FlowId, shard_count: usize) -> usize {
    match shard_count {
        1 => 0,
        _ => flow.index() % shard_count,
    }
}

impl Shard {
    /// Divides the flows into these groups.
    pub(super) fn divide(&mut self, division: Division, network: &Network) {
        self.mailboxes = Mailboxes::new(self.flows.count());
        self.flows.plan_all(division, &mut self.agendas);
        self.traffic.learn_routes(network.routes());
    }

    /// Returns the next timer of a flow for a group.
    pub(super) fn next_at(&self, group: Group) -> Option<Instant> {
        self.agendas[group].next_at()
    }

    /// Returns whether a flow has something to do in a window.
    pub(super) fn is_due(&self, window: Window) -> bool {
        let next_at = self.next_at(window.group);
        !self.traffic.arrivals.is_empty() || next_at.is_some_and(|at| at < window.before)
    }

    /// Moves the flows to the end of a window, one after the other. `network` is for oracles, and
    /// absent if other flows advance at the same time.
    pub(super) fn give_turns(
        &mut self,
        window: Window,
        sides: &'static [Side],
        mut network: Option<&mut Network>,
        observer: &mut impl Observer,
    ) {
        let mut due = std::mem::take(&mut self.due);
        self.take_in(&mut due, observer);
        self.agendas[window.group].take_due(window.before, &mut due);
        // In the order of memory.
        due.sort_unstable();
        due.dedup();
        self.mailboxes.deal(&due);
        for flow in &due {
            self.give_turn(*flow, window, sides, network.as_deref_mut(), observer);
        }
        due.clear();
        self.due = due;
    }

    /// Takes in a window's arrivals, and notes the flows that will read them.
    fn take_in(&mut self, due: &mut Vec<FlowId>, observer: &mut impl Observer) {
        let traffic = &mut self.traffic;
        self.mailboxes
            .fill(|arrivals| std::mem::swap(arrivals, &mut traffic.arrivals));
        let buffer = &mut self.buffers.received;
        self.mailboxes.keep(
            |arrival| {
                let is_for_end = self.flows.is_session(arrival.flow);
                if !is_for_end {
                    traffic.arrive(arrival, buffer, observer);
                }
                is_for_end
            },
            due,
        );
    }

    /// Moves a flow to the end of the window.
    fn give_turn(
        &mut self,
        flow_id: FlowId,
        window: Window,
        sides: &'static [Side],
        network: Option<&mut Network>,
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
            mailboxes: self.mailboxes.take(flow_id),
            traffic: &mut self.traffic,
            network,
            buffers: &mut self.buffers,
            observer,
        };
        turn.run();
        self.agendas[window.group].plan(flow_id, flow.wakes_at(sides));
    }

    /// Sends the packets of a generator that are due in the window.
    fn generate(&mut self, flow: FlowId, window: Window, observer: &mut impl Observer) {
        let Some(generator) = self.flows.generator(flow) else {
            return;
        };
        while let Some(at) = generator.next_at()
            && !self.traffic.is_at_limit()
        {
            if at >= window.before {
                return self.agendas[window.group].plan(flow, Some(at));
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
                // Only its length on the wire matters.
                payload: &[],
            };
            self.traffic.send(at, &datagram, observer);
            generator.advance();
        }
    }
}

/// A shard and the observer of its flows.
pub(super) struct ObservedShard<'a, O> {
    pub(super) shard: &'a mut Shard,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> Shards for Vec<ObservedShard<'_, O>> {
    type Observer = O;

    #[inline]
    fn of(&mut self, flow: FlowId) -> (&mut Traffic, &mut O) {
        let index = shard_of(flow, self.len());
        let ObservedShard { shard, observer } = &mut self[index];
        (&mut shard.traffic, observer)
    }

    fn for_each(&mut self, mut visit: impl FnMut(&mut Traffic)) {
        let traffics = self.iter_mut().map(|watched| &mut watched.shard.traffic);
        traffics.for_each(&mut visit);
    }
}
