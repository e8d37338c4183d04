//! The hops of a route.

use crate::ids::{Direction, LinkId};

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
