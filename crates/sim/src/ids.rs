//! Identifiers of links, routes and flows, and the ends and directions of a flow.

/// Identifies a flow of a [`World`](crate::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Returns the flow's number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Sender to receiver: data, padding and path challenges.
    Forward,
    /// Receiver to sender: feedback.
    Reverse,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];
}

/// One of a flow's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

impl Side {
    /// Returns the direction of this end's datagrams.
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Side::Sender => Direction::Forward,
            Side::Receiver => Direction::Reverse,
        }
    }

    /// Returns the recipient of such datagrams.
    pub(crate) const fn receiving(direction: Direction) -> Side {
        match direction {
            Direction::Forward => Side::Receiver,
            Direction::Reverse => Side::Sender,
        }
    }
}

/// Identifies a link of a [`World`](crate::World): one direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Returns the link's number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a route of a [`World`](crate::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId(pub u32);

impl RouteId {
    /// Returns the route's number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
