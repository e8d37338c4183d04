//! Frames as a fluid that is poured over a flow's links.

use anabranch_link::LinkConfig;
use anabranch_units::{Duration, Instant};

use super::supply::{Supply, bit_nanos_of, is_limited, least_propagation};
use crate::LinkSpec;
use crate::scenario::{FlowSpec, Scenario};

/// Time after which a frame counts as never arriving.
const PATIENCE: Duration = Duration::from_secs(600);

/// A frame to be poured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) captured_at: Instant,
    /// Its bytes on the wire.
    pub(super) wire_bytes: u64,
}

/// Links of a flow's paths, each of them once, with the used part of each.
///
/// Paths that share links carry together no more than any set of links that contains one of each
/// path. The least of these sums is taken for their capacity (without shared links, the sum of each
/// path's least). A link takes part while bytes sent now can be on it and still arrive.
#[derive(Clone, Debug)]
pub(super) struct FluidModel {
    links: Vec<Link>,
    /// The links of each path.
    paths: Vec<Vec<usize>>,
    /// Sets of links of which each path has one.
    cuts: Vec<Vec<usize>>,
    least_delay: Duration,
}

#[derive(Clone, Debug)]
struct Link {
    supply: Supply,
    /// Propagation from the sender to it, and from its bottleneck to the receiver, on the fastest
    /// path over it.
    before: Duration,
    after: Duration,
    /// Part of the supply that is used up, or has passed unused.
    taken_bit_nanos: u128,
}

impl FluidModel {
    pub(super) fn of(scenario: &Scenario, flow: &FlowSpec) -> FluidModel {
        fn config(link: usize, links: &[LinkSpec]) -> &LinkConfig {
            &links[link].config
        }

        let mut links: Vec<(usize, Link)> = Vec::new();
        let mut paths = Vec::new();
        let mut least = Duration::MAX;
        for path in &flow.paths {
            let route = &scenario.routes[path.route].forward;
            let delay: Duration = route
                .iter()
                .map(|link| least_propagation(config(*link, &scenario.links)))
                .sum();
            least = least.min(delay);
            let mut before = Duration::ZERO;
            let mut places = Vec::new();
            for (place_on_route, link) in route.iter().enumerate() {
                let after = delay - before;
                // A path without limits keeps its last link, since it needs one.
                let is_last = place_on_route + 1 == route.len();
                if is_limited(config(*link, &scenario.links)) || (is_last && places.is_empty()) {
                    let known = links.iter().position(|(other, _)| other == link);
                    let place = known.unwrap_or(links.len());
                    if known.is_none() {
                        let supply = Supply::of(config(*link, &scenario.links));
                        links.push((*link, Link::new(supply, before, after)));
                    }
                    let (_, link) = &mut links[place];
                    link.before = link.before.min(before);
                    link.after = link.after.min(after);
                    places.push(place);
                }
                before += least_propagation(config(*link, &scenario.links));
            }
            paths.push(places);
        }
        FluidModel {
            links: links.into_iter().map(|(_, link)| link).collect(),
            cuts: cuts(&paths),
            paths,
            least_delay: least,
        }
    }

    /// Returns the arrival of each frame, in their order; `None`: never. Each is poured over all
    /// links as soon as it is captured and, link by link, the frame before it has left.
    pub(super) fn arrivals(mut self, frames: &[Load]) -> Vec<Option<Instant>> {
        frames.iter().map(|frame| self.arrival_of(*frame)).collect()
    }

    /// Returns the share of each frame that arrives within `lifetime`, 0 to 1, in their order. The
    /// rest of a frame leaves its time to later frames.
    pub(super) fn shares_in_time(mut self, frames: &[Load], lifetime: Duration) -> Vec<f64> {
        let shares = frames.iter().map(|frame| {
            self.pass(frame.captured_at);
            let needed = bit_nanos_of(frame.wire_bytes).max(1);
            let carried = self.carries_by(frame.captured_at + lifetime).min(needed);
            let wire_bytes = (carried / bit_nanos_of(1)) as u64;
            self.arrival_of(Load {
                wire_bytes,
                ..*frame
            });
            carried as f64 / needed as f64
        });
        shares.collect()
    }

    /// Discards the supply before then.
    fn pass(&mut self, captured_at: Instant) {
        for link in &mut self.links {
            let passed = link.supply.bit_nanos_by(captured_at + link.before);
            link.taken_bit_nanos = link.taken_bit_nanos.max(passed);
        }
    }

    fn arrival_of(&mut self, frame: Load) -> Option<Instant> {
        self.pass(frame.captured_at);
        let needed = bit_nanos_of(frame.wire_bytes);
        let earliest = frame.captured_at + self.least_delay;
        let span = least_where(PATIENCE.as_nanos(), |nanos| {
            self.carries_by(earliest + Duration::from_nanos(nanos)) >= needed
        })?;
        let arrives_at = earliest + Duration::from_nanos(span);
        let excess = self.carries_by(arrives_at) - needed;
        for (link, carried) in self.carried_by(arrives_at).into_iter().enumerate() {
            let link = &mut self.links[link];
            let spare = excess.min(link.served_at(arrives_at));
            link.taken_bit_nanos += carried.saturating_sub(spare);
        }
        Some(arrives_at)
    }

    /// Returns the most that can have arrived by then.
    fn carries_by(&self, at: Instant) -> u128 {
        let sums = self
            .cuts
            .iter()
            .map(|cut| cut.iter().map(|link| self.links[*link].left_by(at)).sum());
        sums.min().unwrap_or(0)
    }

    /// Returns the part of that over each link: no more than the least link of each path over it
    /// carries.
    fn carried_by(&self, at: Instant) -> Vec<u128> {
        let left: Vec<u128> = self.links.iter().map(|link| link.left_by(at)).collect();
        let mut carried = vec![0; left.len()];
        for path in &self.paths {
            let least = path.iter().map(|link| left[*link]).min().unwrap_or(0);
            path.iter().for_each(|link| carried[*link] += least);
        }
        let limited = carried.iter().zip(&left).map(|(sum, left)| *sum.min(left));
        limited.collect()
    }
}

impl Link {
    fn new(supply: Supply, before: Duration, after: Duration) -> Link {
        Link {
            supply,
            before,
            after,
            taken_bit_nanos: 0,
        }
    }

    fn left_by(&self, arrival: Instant) -> u128 {
        let passed = self.supply.bit_nanos_by(arrival.saturating_sub(self.after));
        passed.saturating_sub(self.taken_bit_nanos)
    }

    /// Returns the supply of the last nanosecond, or a trace's opportunity in it. It may be more
    /// than a frame needs, and the rest is for the next one.
    fn served_at(&self, arrival: Instant) -> u128 {
        let last = arrival.saturating_sub(self.after);
        let sooner = last.saturating_sub(Duration::from_nanos(1));
        self.supply.bit_nanos_by(last) - self.supply.bit_nanos_by(sooner)
    }
}

/// Returns all sets that have one link of each path, without those that contain others.
fn cuts(paths: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut cuts: Vec<Vec<usize>> = vec![Vec::new()];
    for path in paths {
        let mut longer = Vec::new();
        for cut in cuts {
            if cut.iter().any(|link| path.contains(link)) {
                longer.push(cut);
                continue;
            }
            longer.extend(path.iter().map(|link| [&cut[..], &[*link]].concat()));
        }
        longer.iter_mut().for_each(|cut| cut.sort_unstable());
        longer.sort_by_key(|cut| cut.len());
        cuts = Vec::new();
        for cut in longer {
            if !cuts
                .iter()
                .any(|less| less.iter().all(|link| cut.contains(link)))
            {
                cuts.push(cut);
            }
        }
    }
    cuts
}

/// Returns the least number up to `most` for which `holds` is true; it must be true for all larger
/// ones, too.
fn least_where(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = 1_000_000.min(most);
    while !holds(high) {
        if high == most {
            return None;
        }
        high = high.saturating_mul(2).min(most);
    }
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests;
