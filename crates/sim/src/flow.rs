//! One session between two endpoints.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use anabranch_core::{Config, Endpoint, PathOptions};
use anabranch_units::Instant;
use anabranch_video::source::FrameSource;

use crate::application::{Application, Objects};
use crate::event_queue::Alarm;
use crate::generator::Generator;
use crate::network::Arrival;
use crate::observer::FrameEvent;
use crate::oracle::SharedTruth;
use crate::topology::RouteId;

/// Names a flow of a [`World`](crate::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The flow's number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the sender to the receiver: data, padding and path challenges.
    Forward,
    /// From the receiver to the sender: feedback.
    Reverse,
}

/// One of a flow's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

impl Side {
    /// Which way this end's datagrams go.
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Side::Sender => Direction::Forward,
            Side::Receiver => Direction::Reverse,
        }
    }

    /// Whom such datagrams are for.
    pub(crate) const fn that_hears(direction: Direction) -> Side {
        match direction {
            Direction::Forward => Side::Receiver,
            Direction::Reverse => Side::Sender,
        }
    }
}

/// A flow of media, or of a stream's bytes.
#[derive(Debug)]
pub struct FlowConfig {
    /// Set-up of the end that sends.
    pub sender: Config,
    /// Set-up of the end that receives.
    pub receiver: Config,
    /// Routes of the session's paths, in the order of their path numbers; at least one.
    pub paths: Vec<FlowPath>,
    /// When the session begins.
    pub start: Instant,
    /// When the sender closes it; `None`: never.
    pub stop: Option<Instant>,
    /// What it sends. Its kind must be that of both ends' set-up.
    pub source: Application,
}

/// One path of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowPath {
    /// Where its packets go.
    pub route: RouteId,
    /// What the sender is told about it.
    pub options: PathOptions,
}

/// A flow as the world keeps it.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) paths: Vec<FlowPath>,
    pub(crate) stop: Option<Instant>,
    pub(crate) source: Work,
    /// When it begins, while it has not.
    pub(crate) start_at: Option<Instant>,
    /// When its source has a frame, or an object.
    pub(crate) frame_at: Option<Instant>,
    /// When its sender closes the session, from the flow's start on.
    pub(crate) stop_at: Option<Instant>,
    /// Datagrams that come to either end, in the order of their instants.
    pub(crate) inbox: VecDeque<Arrival>,
    /// When it is next looked at.
    pub(crate) alarm: Alarm,
    /// Sender and receiver.
    pub(crate) ends: [End; 2],
    /// When the present session began.
    pub(crate) began_at: Instant,
    /// Where the sender's scheduler reads the truth, if it is the oracle.
    pub(crate) truth: Option<SharedTruth>,
    /// Captured, outcome not yet known.
    pub(crate) open_frames: VecDeque<FrameEvent>,
    /// Which of the flow's sessions is the present one: datagrams of earlier ones are for nobody.
    pub(crate) session: u32,
}

/// What a flow has to send.
#[derive(Debug)]
pub(crate) enum Work {
    Frames(Box<dyn FrameSource>),
    /// So many bytes are still to be written; [`u64::MAX`]: without end.
    Bytes(u64),
    Objects(Box<Objects>),
}

/// All flows by their number: sessions, and generators beside them.
#[derive(Debug, Default)]
pub(crate) struct Flows(Vec<Entry>);

#[derive(Debug)]
enum Entry {
    Session(Box<Flow>),
    Generator(Box<Generator>),
}

impl Flows {
    /// The number that the next flow has.
    pub(crate) fn next_id(&self) -> FlowId {
        FlowId(u32::try_from(self.0.len()).expect("fewer than 2^32 flows"))
    }

    pub(crate) fn push(&mut self, flow: Flow) {
        self.0.push(Entry::Session(Box::new(flow)));
    }

    pub(crate) fn push_generator(&mut self, generator: Generator) {
        self.0.push(Entry::Generator(Box::new(generator)));
    }

    pub(crate) fn generator(&mut self, flow: FlowId) -> Option<&mut Generator> {
        match &mut self.0[flow.index()] {
            Entry::Session(_) => None,
            Entry::Generator(generator) => Some(generator),
        }
    }

    /// Whether a flow's scheduler is the oracle.
    pub(crate) fn has_clairvoyant(&self) -> bool {
        let is_clairvoyant = |entry: &Entry| match entry {
            Entry::Session(flow) => flow.truth.is_some(),
            Entry::Generator(_) => false,
        };
        self.0.iter().any(is_clairvoyant)
    }

    pub(crate) fn session(&mut self, flow: FlowId) -> Option<&mut Flow> {
        match &mut self.0[flow.index()] {
            Entry::Session(session) => Some(session),
            Entry::Generator(_) => None,
        }
    }

    pub(crate) fn is_session(&self, flow: FlowId) -> bool {
        matches!(self.0[flow.index()], Entry::Session(_))
    }
}

impl Index<usize> for Flows {
    type Output = Flow;

    /// The session of that number; to ask for a generator so is a mistake.
    fn index(&self, index: usize) -> &Flow {
        match &self.0[index] {
            Entry::Session(flow) => flow,
            Entry::Generator(_) => panic!("flow {index} is no session"),
        }
    }
}

impl IndexMut<usize> for Flows {
    fn index_mut(&mut self, index: usize) -> &mut Flow {
        match &mut self.0[index] {
            Entry::Session(flow) => flow,
            Entry::Generator(_) => panic!("flow {index} is no session"),
        }
    }
}

/// What a flow has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Start,
    /// The first of the inbox.
    Arrival,
    /// The source has a frame, or an object.
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

    /// What is due next, and when; of what is due at one instant, the first of [`Due`].
    pub(crate) fn next_due(&self) -> Option<(Instant, Due)> {
        let [sender, receiver] = &self.ends;
        let mut next = None;
        for (at, due) in [
            (self.start_at, Due::Start),
            (self.inbox.front().map(|arrival| arrival.at), Due::Arrival),
            (self.frame_at, Due::Frame),
            (sender.deadline, Due::Timeout(Side::Sender)),
            (receiver.deadline, Due::Timeout(Side::Receiver)),
            (self.stop_at, Due::Stop),
        ] {
            if let Some(at) = at
                && next.is_none_or(|(earliest, _)| at < earliest)
            {
                next = Some((at, due));
            }
        }
        next
    }

    /// Puts a datagram where its instant belongs.
    pub(crate) fn receive(&mut self, arrival: Arrival) {
        let later = self.inbox.iter().rev();
        let later_count = later.take_while(|other| other.at > arrival.at).count();
        self.inbox.insert(self.inbox.len() - later_count, arrival);
    }
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    /// When the endpoint wants to be called, as of the last time that it was served.
    pub(crate) deadline: Option<Instant>,
    pub(crate) overhead_bytes: u32,
}
