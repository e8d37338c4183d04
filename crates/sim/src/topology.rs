//! Names of links and routes, and the hops of a route.

use crate::flow::Direction;

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

/// The links that packets pass, in order, from sender to receiver and back.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) forward: Vec<LinkId>,
    pub(crate) reverse: Vec<LinkId>,
}

impl Route {
    /// Returns the links of one direction, at least one.
    pub(crate) fn links(&self, direction: Direction) -> &[LinkId] {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }

    pub(crate) fn hop(&self, direction: Direction, hop: u8) -> Option<LinkId> {
        self.links(direction).get(usize::from(hop)).copied()
    }
}
