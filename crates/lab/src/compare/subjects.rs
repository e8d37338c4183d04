//! The flows and links that a metric's name means in each scenario.

use anabranch_units::known_names;

use super::CompareError;
use crate::metrics::{METRICS, Metric, Scope, Subject};
use crate::scenario::{FlowSpec, Scenario};

/// A requested row: one metric of one scenario.
pub(super) struct Asked {
    /// Index of the scenario.
    pub(super) place: usize,
    pub(super) metric: &'static Metric,
    /// The flow's or link's name; `None`: all flows together.
    pub(super) name: Option<String>,
    /// `None`: this scenario has no such flow or link.
    pub(super) subject: Option<Subject>,
}

/// Returns the rows that `texts` request, scenario by scenario.
pub(super) fn rows(scenarios: &[&Scenario], texts: &[String]) -> Result<Vec<Asked>, CompareError> {
    let texts = texts
        .iter()
        .map(|text| Ok((metric(text)?, text.split_once('.').map(|(_, name)| name))))
        .collect::<Result<Vec<_>, CompareError>>()?;
    for (metric, name) in &texts {
        let Some(name) = *name else { continue };
        if !scenarios
            .iter()
            .any(|scenario| named(scenario, metric.scope, name).is_some())
        {
            return Err(nobody(scenarios, metric, name));
        }
    }
    let mut rows = Vec::new();
    for (place, scenario) in scenarios.iter().enumerate() {
        for (metric, name) in &texts {
            if let Some(name) = *name {
                rows.push(Asked {
                    place,
                    metric,
                    name: Some(name.to_owned()),
                    subject: named(scenario, metric.scope, name),
                });
                continue;
            }
            for subject in unnamed(scenario, metric.scope) {
                let name = match subject {
                    Subject::All => None,
                    Subject::Flow(flow) => Some(scenario.flows[flow].name.clone()),
                    Subject::Link(link) => Some(scenario.links[link].name.clone()),
                };
                rows.push(Asked {
                    place,
                    metric,
                    name,
                    subject: Some(subject),
                });
            }
        }
    }
    Ok(rows)
}

fn metric(text: &str) -> Result<&'static Metric, CompareError> {
    let name = text.split_once('.').map_or(text, |(name, _)| name);
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.ok_or_else(|| CompareError::Metric {
        name: name.to_owned(),
        known: known_names(name, METRICS.iter().map(|metric| metric.name)),
    })
}

fn named(scenario: &Scenario, scope: Scope, name: &str) -> Option<Subject> {
    match scope {
        Scope::Run => None,
        Scope::Flow | Scope::EachFlow => {
            let flow = scenario.flows.iter().position(|flow| flow.name == name);
            flow.map(Subject::Flow)
        }
        Scope::Link => {
            let link = scenario.links.iter().position(|link| link.name == name);
            link.map(Subject::Link)
        }
    }
}

/// Returns every link that has a rate; every flow of adaptive media, or every flow if there is
/// none; or all flows together if the metric allows it.
fn unnamed(scenario: &Scenario, scope: Scope) -> Vec<Subject> {
    match scope {
        Scope::Run | Scope::Flow => vec![Subject::All],
        Scope::EachFlow => {
            let has_adaptive = scenario.flows.iter().any(FlowSpec::is_adaptive);
            let flows = scenario.flows.iter().enumerate();
            let meant = flows.filter(|(_, flow)| flow.is_adaptive() || !has_adaptive);
            meant.map(|(place, _)| Subject::Flow(place)).collect()
        }
        Scope::Link => {
            let links = scenario.links.iter().enumerate();
            let rated = links.filter(|(_, link)| link.config.rate.is_some());
            rated.map(|(place, _)| Subject::Link(place)).collect()
        }
    }
}

/// Returns the error of a name that no scenario has.
fn nobody(scenarios: &[&Scenario], metric: &Metric, name: &str) -> CompareError {
    let first = scenarios.first();
    let flows = first.iter().flat_map(|scenario| &scenario.flows);
    let links = first.iter().flat_map(|scenario| &scenario.links);
    let scenario = first.map_or("", |scenario| &scenario.name);
    CompareError::Subject {
        text: format!("{}.{name}", metric.name),
        why: match metric.scope {
            Scope::Run => "it is of all flows together, and of no other",
            Scope::Flow | Scope::EachFlow => "no scenario has a flow of that name",
            Scope::Link => "no scenario has a link of that name",
        },
        known: format!(
            "{scenario} has the links {}, and the flows {}",
            known_names(name, links.map(|link| link.name.as_str())),
            known_names(name, flows.map(|flow| flow.name.as_str()))
        ),
    }
}
