//! A scenario as connections of the kernel.

use anabranch_lab::{EmulatedRoute, FlowKind, FlowSpec, Scenario};
use anabranch_units::{Duration, Instant};
use anyhow::{Context, bail, ensure};

/// Names of controllers here and in the kernel.
const CONTROLLERS: [(&str, &str); 3] = [
    ("cubic", "cubic"),
    ("new-reno", "reno"),
    ("bbr-linux", "bbr"),
];

/// Links and connections.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) routes: Vec<EmulatedRoute>,
    pub(super) connections: Vec<Connection>,
    /// Start and end of the time in which goodput is measured.
    pub(super) window: [Duration; 2],
}

/// A flow as a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// Name of the flow.
    pub(super) name: String,
    /// Index of the route of its first packets.
    pub(super) first_route: usize,
    /// Whether it uses all routes, by MPTCP.
    pub(super) is_multipath: bool,
    /// The kernel's name of its controller.
    pub(super) controller: &'static str,
    pub(super) start: Duration,
    pub(super) stop: Duration,
}

impl Plan {
    /// Returns the plan of a scenario.
    ///
    /// # Errors
    /// A flow or a route that the kernel, or links in real time, cannot have.
    pub(super) fn of(scenario: &Scenario) -> anyhow::Result<Plan> {
        let routes = scenario.emulated_routes()?;
        ensure!(!scenario.flows.is_empty(), "the scenario has no flows");
        let mut connections = Vec::new();
        for flow in &scenario.flows {
            let connection = connection(scenario, flow, &routes);
            connections.push(connection.with_context(|| format!("flow {:?}", flow.name))?);
        }
        let statistics = &scenario.statistics;
        Ok(Plan {
            routes,
            connections,
            window: [statistics.from, statistics.to].map(|at| at - Instant::ZERO),
        })
    }
}

fn connection(
    scenario: &Scenario,
    flow: &FlowSpec,
    routes: &[EmulatedRoute],
) -> anyhow::Result<Connection> {
    match &flow.kind {
        FlowKind::Bulk(bulk) if bulk.bytes.is_none() => {}
        _ => bail!("the kernel's connections are flows of kind bulk without end"),
    }
    let name = flow.controller();
    let found = CONTROLLERS.iter().find(|(own, _)| *own == name);
    let Some((_, controller)) = found else {
        let known = CONTROLLERS.map(|(own, _)| own).join(", ");
        bail!("the kernel has no controller {name}: use one of {known}");
    };
    let is_multipath = flow.paths.len() > 1;
    ensure!(
        !is_multipath || flow.paths.len() == routes.len(),
        "a connection of MPTCP uses all routes: name one path, or all"
    );
    let first = flow.paths.first().context("it has no path")?;
    let first = &scenario.routes[first.route].name;
    let first_route = routes.iter().position(|route| route.name == *first);
    let end = Instant::ZERO + scenario.duration;
    Ok(Connection {
        name: flow.name.clone(),
        first_route: first_route.context("its route is missing")?,
        is_multipath,
        controller,
        start: flow.start - Instant::ZERO,
        stop: flow.stop.unwrap_or(end) - Instant::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
title = "Two links"
duration = "10 s"
links.a = { rate = "5 Mbit/s", delay = "20 ms", queue = "100 ms" }
links.a-back = { delay = "20 ms" }
links.b = { rate = "5 Mbit/s", delay = "20 ms", queue = "100 ms" }
links.b-back = { delay = "20 ms" }
routes.a = { forward = ["a"], reverse = ["a-back"] }
routes.b = { forward = ["b"], reverse = ["b-back"] }

[[flows]]
name = "both"
kind = "bulk"
controller = "bbr-linux"
paths = ["b", "a"]

[[flows]]
name = "one"
kind = "bulk"
controller = "new-reno"
paths = ["b"]
start = "1 s"
stop = "9 s"
"#;

    fn plan(text: &str) -> anyhow::Result<Plan> {
        Plan::of(&Scenario::parse("plan.toml", text, &[])?)
    }

    #[test]
    fn flows_become_connections_of_the_kernel() {
        let plan = plan(TEXT).unwrap();
        let both = Connection {
            name: "both".to_owned(),
            first_route: 1,
            is_multipath: true,
            controller: "bbr",
            start: Duration::ZERO,
            stop: Duration::from_secs(10),
        };
        let one = Connection {
            name: "one".to_owned(),
            is_multipath: false,
            controller: "reno",
            start: Duration::from_secs(1),
            stop: Duration::from_secs(9),
            ..both.clone()
        };
        assert_eq!(plan.connections, [both, one]);
        assert_eq!(plan.routes[1].name, "b");
    }

    #[test]
    fn flows_that_the_kernel_cannot_have_are_refused() {
        for (from, to, reason) in [
            ("new-reno", "live-bbr", "no controller live-bbr"),
            (
                "kind = \"bulk\"\ncontroller = \"new-reno\"",
                "kind = \"media\"",
                "kind bulk",
            ),
            ("start = \"1 s\"", "bytes = \"1 MB\"", "without end"),
        ] {
            let error = plan(&TEXT.replace(from, to)).unwrap_err();
            let text = format!("{error:#}");
            assert!(
                text.starts_with("flow \"one\": ") && text.contains(reason),
                "{text}"
            );
        }
    }
}
