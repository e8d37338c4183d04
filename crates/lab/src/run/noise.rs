//! Noise of a flow's ends: the time that a machine takes until a packet leaves.
//!
//! Each end delays each packet by a random time, uniform up to the flow's `noise`, and keeps their
//! order. It stands for interrupts, schedulers of processes and processing, and has the purpose of
//! `overhead_` in ns-2's TCP: without it flows of fixed round trips lock to the phase of a queue
//! (Floyd & Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
//!
//! Such a flow gets routes of its own, which begin with a link that only delays, for each path and
//! direction. These links stand behind the scenario's, so that numbers of links and routes stay.

use anabranch_link::{JitterAmount, JitterModel, JitterOrder, LinkConfig};
use anabranch_sim::{LinkId, RouteId, World};
use anabranch_units::Duration;

use super::RunError;
use crate::scenario::{FlowSpec, Scenario};

/// Returns the routes of a flow's paths: those of the scenario, or noisy ones, which are added.
pub(super) fn routes_of(
    world: &mut World,
    scenario: &Scenario,
    flow: &FlowSpec,
) -> Result<Vec<RouteId>, RunError> {
    let mut routes = Vec::new();
    for (number, path) in flow.paths.iter().enumerate() {
        if flow.noise.is_zero() {
            routes.push(RouteId(path.route as u32));
            continue;
        }
        let route = &scenario.routes[path.route];
        let mut directions = [
            ("forward", &route.forward, Vec::new()),
            ("reverse", &route.reverse, Vec::new()),
        ];
        for (direction, links, noisy) in &mut directions {
            let name = format!("noise/{}/{number}/{direction}", flow.name);
            noisy.push(world.add_link(&name, &config(flow.noise))?);
            noisy.extend(links.iter().map(|link| LinkId(*link as u32)));
        }
        let [forward, reverse] = directions.map(|(_, _, noisy)| noisy);
        routes.push(world.add_route(forward, reverse)?);
    }
    Ok(routes)
}

/// Returns a link that delays each packet by up to `noise`, and keeps their order.
fn config(noise: Duration) -> LinkConfig {
    LinkConfig {
        jitter: Some(JitterModel {
            amount: JitterAmount::Uniform(noise),
            order: JitterOrder::Bunched,
        }),
        ..LinkConfig::default()
    }
}
