//! One session between two endpoints.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use anabranch_core::{Config, PathOptions, Timer};
use anabranch_units::{Instant, Seed};
use anabranch_video::source::FrameSource;

use crate::application::{Adaptive, Application, Download, Objects};
use crate::endpoint::Endpoint;
use crate::generator::Generator;
use crate::groups::{Division, MAX_GROUPS};
use crate::head_of_line::HeadOfLine;
use crate::ids::{FlowId, RouteId, Side};
use crate::observer::FrameEvent;
use crate::oracle::SharedTruth;
use crate::timer_queue::TimerQueue;

/// A flow of media, or of a stream's bytes.
#[derive(Debug)]
pub struct FlowConfig {
    /// Set-up of the sender. Equal flows should share it, to save memory.
    pub sender: Arc<Config>,
    /// Set-up of the receiver.
    pub receiver: Arc<Config>,
    /// Routes of the session's paths, in the order of their path numbers; at least one.
    pub paths: Vec<FlowPath>,
    /// Start of the session.
    pub start: Instant,
    /// Time at which the sender closes it; `None`: never.
    pub stop: Option<Instant>,
    /// The source of data. It decides whether the sessions carry media or streams.
    pub source: Application,
}

/// One path of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowPath {
    /// Route of its packets.
    pub route: RouteId,
    /// Options of the path at the sender.
    pub options: PathOptions,
}

/// A flow in the world's representation.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Number of the flow's present session. Datagrams of earlier ones are ignored.
    pub(crate) session: u32,
    pub(crate) paths: Vec<FlowPath>,
    /// Time of the source's next frame or object, or of the next change of the viewer's picture.
    pub(crate) frame_at: Option<Instant>,
    /// Time at which its sender closes the session, counted from the flow's start.
    pub(crate) stop_at: Option<Instant>,
    /// Data of a stream that has arrived beyond a gap at its receiver.
    pub(crate) head_of_line: HeadOfLine,
    /// Captured frames whose outcome is not known yet.
    pub(crate) open_frames: VecDeque<FrameEvent>,
    pub(crate) source: Work,
    pub(crate) stop: Option<Instant>,
    /// Start of the present session.
    pub(crate) began_at: Instant,
    /// Truth that the sender's scheduler reads, if it is the oracle.
    pub(crate) truth: Option<SharedTruth>,
    /// Sender and receiver.
    pub(crate) ends: [End; 2],
    /// Seed of the flow's random numbers.
    pub(crate) seed: Seed,
}

/// The data that a flow still has to send.
#[derive(Debug)]
pub(crate) enum Work {
    Frames(Box<dyn FrameSource>),
    /// A number of bytes that are still to be written; [`u64::MAX`] means without end.
    Bytes(u64),
    Objects(Box<Objects>),
    Download(Box<Download>),
    Adaptive(Box<Adaptive>),
}

/// The flows of a shard by their number: sessions and generators.
#[derive(Debug, Default)]
pub(crate) struct Flows(Vec<Entry>);

#[derive(Debug)]
enum Entry {
    /// A flow of another shard.
    Elsewhere,
    Session(Box<Flow>),
    Generator(Box<Generator>),
}

impl Flows {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Records that the next flow belongs to another shard.
    pub(crate) fn push_elsewhere(&mut self) {
        self.0.push(Entry::Elsewhere);
    }

    pub(crate) fn push(&mut self, flow: Flow) {
        self.0.push(Entry::Session(Box::new(flow)));
    }

    pub(crate) fn push_generator(&mut self, generator: Generator) {
        self.0.push(Entry::Generator(Box::new(generator)));
    }

    pub(crate) fn generator(&mut self, flow: FlowId) -> Option<&mut Generator> {
        match &mut self.0[flow.index()] {
            Entry::Session(_) | Entry::Elsewhere => None,
            Entry::Generator(generator) => Some(generator),
        }
    }

    /// Returns whether a flow's scheduler is the oracle.
    pub(crate) fn has_clairvoyant(&self) -> bool {
        self.sessions().any(|flow| flow.truth.is_some())
    }

    /// Returns whether an action at one end changes the other at once. A session that ends at the
    /// receiver starts a new one at the sender, and a viewer acts by the flow's own timer.
    pub(crate) fn has_successions(&self) -> bool {
        self.sessions().any(|flow| match flow.source {
            Work::Objects(_) | Work::Download(_) | Work::Adaptive(_) => true,
            Work::Frames(_) | Work::Bytes(_) => false,
        })
    }

    fn sessions(&self) -> impl Iterator<Item = &Flow> {
        self.0.iter().filter_map(|entry| match entry {
            Entry::Session(flow) => Some(&**flow),
            Entry::Generator(_) | Entry::Elsewhere => None,
        })
    }

    /// Plans the next timers of all flows for their groups, on new timer queues.
    pub(crate) fn plan_all(&mut self, division: Division, agendas: &mut [TimerQueue; MAX_GROUPS]) {
        for group in division.groups() {
            agendas[group] = TimerQueue::new(self.0.len());
        }
        for (index, entry) in self.0.iter().enumerate() {
            let id = FlowId(index as u32);
            match entry {
                Entry::Session(flow) => {
                    for group in division.groups() {
                        agendas[group].plan(id, flow.wakes_at(division.sides_of(group)));
                    }
                }
                Entry::Elsewhere => {}
                Entry::Generator(generator) => {
                    let group = division.group_of(Side::Sender);
                    agendas[group].plan(id, generator.next_at());
                }
            }
        }
    }

    pub(crate) fn is_session(&self, flow: FlowId) -> bool {
        matches!(self.0[flow.index()], Entry::Session(_))
    }
}

impl Index<usize> for Flows {
    type Output = Flow;

    /// Returns the session of that number. Panics for a generator, which would be a mistake of the
    /// caller.
    fn index(&self, index: usize) -> &Flow {
        match &self.0[index] {
            Entry::Session(flow) => flow,
            _ => panic!("flow {index} is no session"),
        }
    }
}

impl IndexMut<usize> for Flows {
    fn index_mut(&mut self, index: usize) -> &mut Flow {
        match &mut self.0[index] {
            Entry::Session(flow) => flow,
            _ => panic!("flow {index} is no session"),
        }
    }
}

/// Kinds of actions of a flow, in the order in which they happen at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// An end begins.
    Start(Side),
    /// The first arrival in an end's mailbox.
    Arrival(Side),
    /// The source has a frame, or an object; or a viewer's picture changes.
    Frame,
    /// An endpoint's timer.
    Timeout(Side),
    /// The sender closes the session.
    Stop,
}

impl Flow {
    pub(crate) fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    /// Returns the next action of the given ends and its time, where `arrives_at` gives their next
    /// arrivals. At one instant, actions happen in the order of [`Due`].
    #[inline]
    pub(crate) fn next_due(
        &self,
        sides: &[Side],
        arrives_at: impl Fn(Side) -> Option<Instant>,
    ) -> Option<(Instant, Due)> {
        let next = match *sides {
            [side] => self.due_of(side, arrives_at(side)),
            _ => {
                let of_sender = self.due_of(Side::Sender, arrives_at(Side::Sender));
                of_sender.min(self.due_of(Side::Receiver, arrives_at(Side::Receiver)))
            }
        };
        (next.0 < Instant::FAR_FUTURE).then_some(next)
    }

    /// Does the same for one end; [`Instant::FAR_FUTURE`] if it has no action.
    fn due_of(&self, side: Side, arrives_at: Option<Instant>) -> (Instant, Due) {
        fn offer(at: Option<Instant>, due: Due, next: &mut (Instant, Due)) {
            if let Some(at) = at
                && at < next.0
            {
                *next = (at, due);
            }
        }

        let mut next = (Instant::FAR_FUTURE, Due::Stop);
        let end = &self.ends[side as usize];
        offer(end.start_at, Due::Start(side), &mut next);
        offer(arrives_at, Due::Arrival(side), &mut next);
        if side == Side::Sender {
            offer(self.frame_at, Due::Frame, &mut next);
        }
        offer(
            end.deadline.map(|(at, _)| at),
            Due::Timeout(side),
            &mut next,
        );
        if side == Side::Sender {
            offer(self.stop_at, Due::Stop, &mut next);
        }
        next
    }

    /// Returns the next action of some ends if nothing arrives.
    pub(crate) fn wakes_at(&self, sides: &[Side]) -> Option<Instant> {
        self.next_due(sides, |_| None).map(|(at, _)| at)
    }
}

/// An end of a flow.
#[derive(Debug)]
pub(crate) struct End {
    /// The endpoint's next timer and its reason, as of the last time that it was served.
    pub(crate) deadline: Option<(Instant, Timer)>,
    pub(crate) overhead_bytes: u32,
    /// Start, while it has not begun.
    pub(crate) start_at: Option<Instant>,
    pub(crate) endpoint: Endpoint,
}
