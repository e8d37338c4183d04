//! Routes as an emulator and a world in memory need them: with one link each way.

use std::collections::BTreeSet;

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

/// Routes that an emulator cannot have together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEmulated {
    /// There are none.
    #[error("the scenario has no routes")]
    NoRoutes,
    /// One has several links in a row, or none.
    #[error(transparent)]
    NotOneLink(#[from] NotOneLink),
    /// Two share a link with a limit.
    #[error(
        "two routes share the link {link:?}: in the emulator each route has its own; give each its \
         own link"
    )]
    Shared {
        /// Name of the link.
        link: String,
    },
}

/// A route's links in an emulator.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedRoute {
    /// Its name.
    pub name: String,
    /// Its link from sender to receiver.
    pub forward: LinkConfig,
    /// Its link back.
    pub reverse: LinkConfig,
}

impl Scenario {
    /// Returns the routes in the order of the file. Links of an emulator share no capacity.
    ///
    /// # Errors
    /// There are no routes, they share a link that has a rate, or one has several links in a row.
    pub fn emulated_routes(&self) -> Result<Vec<EmulatedRoute>, NotEmulated> {
        if self.routes.is_empty() {
            return Err(NotEmulated::NoRoutes);
        }
        let mut routes = Vec::new();
        for route in self.routes_as_written() {
            let [forward, reverse] = self.only_links(route)?.map(Clone::clone);
            routes.push(EmulatedRoute {
                name: route.name.clone(),
                forward,
                reverse,
            });
        }
        let mut taken = BTreeSet::new();
        for index in self
            .routes
            .iter()
            .flat_map(|route| route.forward.iter().chain(&route.reverse))
        {
            let link = &self.links[*index];
            let has_limit = link.config.rate.is_some() || link.config.trace.is_some();
            if !taken.insert(*index) && has_limit {
                return Err(NotEmulated::Shared {
                    link: link.name.clone(),
                });
            }
        }
        Ok(routes)
    }

    /// Returns the only link of a route from sender to receiver, and the only one back.
    ///
    /// # Errors
    /// The route has none or several in a direction.
    pub fn only_links(&self, route: &RouteSpec) -> Result<[&LinkConfig; 2], NotOneLink> {
        match (&route.forward[..], &route.reverse[..]) {
            ([forward], [reverse]) => Ok([forward, reverse].map(|link| &self.links[*link].config)),
            ([_], several) | (several, _) => Err(NotOneLink {
                route: route.name.clone(),
                count: several.len(),
            }),
        }
    }
}
