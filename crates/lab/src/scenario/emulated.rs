//! Routes as an emulator and a world in memory need them: with one link each way.

use anabranch_link::LinkConfig;

use super::{RouteSpec, Scenario};

/// A route that an emulator, or a world in memory, cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route {route:?} has {count} links one way: an emulated path has one")]
pub struct NotOneLink {
    /// Its name.
    pub route: String,
    /// Number of its links in one direction.
    pub count: usize,
}

impl Scenario {
    /// Returns the only link of a route from sender to receiver, and the only one back.
    ///
    /// # Errors
    /// The route has none or several in a direction.
    pub fn only_links(&self, route: &RouteSpec) -> Result<[&LinkConfig; 2], NotOneLink> {
        let only = |indices: &[usize]| match indices {
            [index] => Ok(&self.links[*index].config),
            indices => Err(NotOneLink {
                route: route.name.clone(),
                count: indices.len(),
            }),
        };
        Ok([only(&route.forward)?, only(&route.reverse)?])
    }
}
