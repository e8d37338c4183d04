//! The part of a scenario that one sender and one receiver carry.

use anabranch_core::PathOptions;
use anabranch_lab::{FlowSpec, MediaSpec, ORACLE, Scenario};
use anyhow::{Context, bail, ensure};

/// A flow of media, and the two links of each of its paths.
#[derive(Debug)]
pub(super) struct Carried<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) flow: &'a FlowSpec,
    pub(super) media: &'a MediaSpec,
    /// Indices of the links of each path, to the receiver and back.
    pub(super) links: Vec<[usize; 2]>,
}

impl<'a> Carried<'a> {
    /// Returns the scenario's only flow.
    ///
    /// # Errors
    /// The scenario has a part that the runtime does not carry, with its name and the remedy.
    pub(super) fn of(scenario: &'a Scenario) -> anyhow::Result<Carried<'a>> {
        for flow in &scenario.flows {
            ensure!(
                flow.media().is_some(),
                "--runtime carries frames, and the flow {:?} has none: remove it from the \
                 scenario, or run without --runtime",
                flow.name
            );
        }
        let [flow, others @ ..] = &scenario.flows[..] else {
            bail!("--runtime needs a flow of media");
        };
        if let Some(other) = others.first() {
            bail!(
                "--runtime runs one sender, and the flow {:?} is another: remove it from the \
                 scenario, or run without --runtime",
                other.name
            );
        }
        let media = flow.media().context("it was checked")?;
        ensure!(
            media.config.scheduler.name() != ORACLE,
            "the scheduler {ORACLE} of the flow {:?} reads the simulator's queues: choose another \
             by --set flows.0.scheduler=NAME, or run without --runtime",
            flow.name
        );
        let links = links(scenario, flow)?;
        Ok(Carried {
            scenario,
            flow,
            media,
            links,
        })
    }

    /// Returns the options of each path.
    pub(super) fn path_options(&self) -> impl Iterator<Item = PathOptions> {
        self.flow.paths.iter().map(|path| PathOptions {
            weight: path.weight,
            is_metered: path.is_metered,
            ..PathOptions::default()
        })
    }
}

/// Returns the links of a flow's paths, which no two share.
fn links(scenario: &Scenario, flow: &FlowSpec) -> anyhow::Result<Vec<[usize; 2]>> {
    let mut users: Vec<Option<&str>> = vec![None; scenario.links.len()];
    let mut links = Vec::new();
    for path in &flow.paths {
        let route = &scenario.routes[path.route];
        let remedy = format!(
            "--runtime gives each path a line with one link each way: change the route {:?}, \
             or run without --runtime",
            route.name
        );
        scenario.only_links(route).with_context(|| remedy.clone())?;
        let of_path = [route.forward[0], route.reverse[0]];
        for link in of_path {
            if let Some(other) = users[link].replace(&route.name) {
                let name = &scenario.links[link].name;
                let taken = format!("the link {name:?} is already used by the route {other:?}");
                return Err(anyhow::anyhow!(taken).context(remedy));
            }
        }
        links.push(of_path);
    }
    Ok(links)
}
