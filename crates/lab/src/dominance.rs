//! Dominance: a path more, or less of what harms, must not cost frames.
//!
//! Each network is drawn from its number, and is run in several variants with the same seeds. A
//! [`Property`] says which of two variants should lose no frame to the other; its shortfall is the
//! difference in points of the frames that are decodable in time.

mod network;

use network::{Flows, Loss, Network};

use crate::run::{RunError, RunOptions, run_outcomes};
use crate::scenario::{Scenario, ScenarioError};

/// Shortfall, in points, from which a network counts as a violation.
pub const TOLERANCE: f64 = 0.5;
/// Latency that [`Variant::Later`] adds, in ms.
const MORE_LATENCY: u64 = 300;

/// Change of a network or of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// All paths, as drawn.
    All,
    /// One path alone, by its index.
    Alone(usize),
    /// A bare endpoint: without the session's rules.
    Bare,
    /// 300 ms more latency.
    Later,
    /// Half as much capacity again on each path.
    Faster,
    /// Half of the losses.
    LessLoss,
    /// Half of the jitter.
    LessJitter,
    /// Queues of twice the length.
    LongerQueue,
    /// Two flows, each of half the rate.
    TwoFlows,
}

impl Variant {
    /// Returns the name by which users select it: `all`, `p0`.
    pub fn name(self) -> String {
        let name = match self {
            Variant::All => "all",
            Variant::Alone(path) => return format!("p{path}"),
            Variant::Bare => "bare",
            Variant::Later => "later",
            Variant::Faster => "faster",
            Variant::LessLoss => "less-loss",
            Variant::LessJitter => "less-jitter",
            Variant::LongerQueue => "longer-queue",
            Variant::TwoFlows => "two-flows",
        };
        name.to_owned()
    }

    /// Returns the variants of a network that differ from it, and the network itself first.
    pub fn of(number: u64) -> Vec<Variant> {
        let network = Network::draw(number);
        let changed = [
            Variant::Bare,
            Variant::Later,
            Variant::Faster,
            Variant::LessLoss,
            Variant::LessJitter,
            Variant::LongerQueue,
            Variant::TwoFlows,
        ];
        let mut variants = vec![Variant::All];
        variants.extend((0..network.paths.len()).map(Variant::Alone));
        variants.extend(changed.into_iter().filter(|variant| match variant {
            Variant::LessLoss | Variant::LessJitter => variant.applied(&network) != network,
            _ => true,
        }));
        variants
    }

    /// Returns the network with the change.
    fn applied(self, network: &Network) -> Network {
        let mut network = network.clone();
        if self == Variant::Later {
            network.deadline += MORE_LATENCY;
        }
        for path in &mut network.paths {
            match self {
                Variant::Faster => {
                    path.rate = path.rate * 3 / 2;
                    for (_, rate) in &mut path.rates {
                        *rate = *rate * 3 / 2;
                    }
                }
                Variant::LessLoss => {
                    path.loss = match path.loss {
                        Loss::None => Loss::None,
                        Loss::Single(percent) => Loss::Single(percent / 2.0),
                        Loss::Bursts(bad, good) => Loss::Bursts(bad / 2.0, good),
                    };
                }
                Variant::LessJitter => {
                    if let Some(jitter) = &mut path.jitter {
                        jitter.millis /= 2;
                    }
                }
                Variant::LongerQueue => path.queue *= 2,
                _ => {}
            }
        }
        network
    }

    /// Returns the scenario of network `number` with the change, in TOML.
    pub fn scenario(self, number: u64) -> String {
        let network = self.applied(&Network::draw(number));
        let all: Vec<usize> = (0..network.paths.len()).collect();
        let chosen = match self {
            Variant::Alone(path) => vec![path],
            _ => all,
        };
        let flows = Flows {
            count: if self == Variant::TwoFlows { 2 } else { 1 },
            is_bare: self == Variant::Bare,
        };
        let title = format!("Dominance {number}, {}", self.name());
        network.scenario(&title, &chosen, &flows)
    }
}

/// A claim that one variant loses no frames to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name, by what should not be better.
    pub name: &'static str,
    relation: Relation,
}

/// Comparison of two variants of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The network is not worse than any of its paths alone.
    NoPathAlone,
    /// The network is not worse than the variant.
    NotWorseThan(Variant),
    /// The variant is not worse than the network.
    NotBetterThan(Variant),
}

/// All properties.
pub const PROPERTIES: [Property; 8] = [
    Property::of("single path", Relation::NoPathAlone),
    Property::of("bare endpoint", Relation::NotWorseThan(Variant::Bare)),
    Property::of("less latency", Relation::NotBetterThan(Variant::Later)),
    Property::of("less capacity", Relation::NotBetterThan(Variant::Faster)),
    Property::of("more loss", Relation::NotBetterThan(Variant::LessLoss)),
    Property::of("more jitter", Relation::NotBetterThan(Variant::LessJitter)),
    Property::of(
        "shorter queue",
        Relation::NotBetterThan(Variant::LongerQueue),
    ),
    Property::of("one flow", Relation::NotBetterThan(Variant::TwoFlows)),
];

impl Property {
    const fn of(name: &'static str, relation: Relation) -> Property {
        Property { name, relation }
    }

    /// Returns the shortfall in points, at least zero; `None` if the network has no such variant.
    pub fn shortfall(&self, figures: &Figures) -> Option<f64> {
        let all = figures.of(Variant::All)?;
        let shortfall = match self.relation {
            Relation::NoPathAlone => figures.best_alone()? - all,
            Relation::NotWorseThan(variant) => figures.of(variant)? - all,
            Relation::NotBetterThan(variant) => all - figures.of(variant)?,
        };
        Some(shortfall.max(0.0))
    }
}

/// Frames decodable in time, of each variant of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Number of the network.
    pub number: u64,
    /// Percent, mean over the seeds.
    pub percent: Vec<(Variant, f64)>,
}

impl Figures {
    /// Returns the percentage of a variant, if it was run.
    pub fn of(&self, variant: Variant) -> Option<f64> {
        let found = self.percent.iter().find(|(one, _)| *one == variant);
        found.map(|(_, percent)| *percent)
    }

    /// Returns the percentage of the best path alone.
    pub fn best_alone(&self) -> Option<f64> {
        let alone = self.percent.iter().filter_map(|(variant, percent)| {
            matches!(variant, Variant::Alone(_)).then_some(*percent)
        });
        alone.reduce(f64::max)
    }
}

/// Shortfall of a property over many networks.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The property.
    pub property: Property,
    /// Number of networks that it concerns.
    pub count: usize,
    /// Number of those with a shortfall above [`TOLERANCE`].
    pub violations: usize,
    /// Mean shortfall in points.
    pub mean: f64,
    /// The largest shortfall in points, and its network.
    pub worst: Option<(f64, u64)>,
}

/// Reason why a network could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DominanceError {
    /// A setting does not fit the scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs `variants` of network `number` with seeds 1 to `seeds`, one after the other.
///
/// # Errors
/// A [`DominanceError`].
pub fn measure(
    number: u64,
    variants: &[Variant],
    seeds: u64,
    settings: &[String],
) -> Result<Figures, DominanceError> {
    let options = RunOptions {
        threads: 1,
        ..RunOptions::seeds(seeds)
    };
    let percent = variants.iter().map(|variant| {
        let text = variant.scenario(number);
        let scenario = Scenario::parse(&variant.name(), &text, settings)?;
        let outcomes = run_outcomes(&scenario, &options, &|_progress| ())?;
        let flows = outcomes
            .iter()
            .flat_map(|outcome| &outcome.statistics.flows);
        let ratios: Vec<f64> = flows
            .map(|flow| flow.frames.decodable_on_time_ratio.unwrap_or(0.0))
            .collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        Ok((*variant, 100.0 * mean))
    });
    Ok(Figures {
        number,
        percent: percent.collect::<Result<_, DominanceError>>()?,
    })
}

/// Returns the verdicts on all properties over these networks.
pub fn judge(networks: &[Figures]) -> Vec<Verdict> {
    PROPERTIES
        .iter()
        .map(|property| {
            let shortfalls: Vec<(f64, u64)> = networks
                .iter()
                .filter_map(|figures| {
                    let shortfall = property.shortfall(figures)?;
                    Some((shortfall, figures.number))
                })
                .collect();
            let sum: f64 = shortfalls.iter().map(|(points, _)| points).sum();
            let violations = shortfalls.iter().filter(|(points, _)| *points > TOLERANCE);
            Verdict {
                property: *property,
                count: shortfalls.len(),
                violations: violations.count(),
                mean: sum / shortfalls.len().max(1) as f64,
                worst: shortfalls
                    .iter()
                    .copied()
                    .max_by(|a, b| a.0.total_cmp(&b.0)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(percent: &[(Variant, f64)]) -> Figures {
        Figures {
            number: 7,
            percent: percent.to_vec(),
        }
    }

    #[test]
    fn every_variant_is_a_scenario_and_a_number_gives_the_same_one() {
        for number in 1..=100 {
            for variant in Variant::of(number) {
                let text = variant.scenario(number);
                assert_eq!(text, variant.scenario(number));
                let scenario = Scenario::parse(&variant.name(), &text, &[]).unwrap();
                let is_two = variant == Variant::TwoFlows;
                assert_eq!(scenario.flows.len(), 1 + usize::from(is_two));
            }
        }
    }

    #[test]
    fn variants_of_a_network_differ() {
        for number in 1..=20 {
            let variants = Variant::of(number);
            let mut texts: Vec<String> = variants
                .iter()
                .map(|variant| {
                    let text = variant.scenario(number);
                    text.split_once('\n').unwrap().1.to_owned()
                })
                .collect();
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts.len(), variants.len(), "network {number}");
        }
    }

    #[test]
    fn a_shortfall_is_the_lead_of_the_variant_that_should_not_lead() {
        fn shortfall(property: usize, others: &[(Variant, f64)]) -> Option<f64> {
            let all = (Variant::All, 80.0);
            PROPERTIES[property].shortfall(&figures(&[&[all], others].concat()))
        }
        let alone = [(Variant::Alone(0), 70.0), (Variant::Alone(1), 82.0)];
        assert_eq!(shortfall(0, &alone), Some(2.0));
        assert_eq!(shortfall(1, &[(Variant::Bare, 81.0)]), Some(1.0));
        assert_eq!(shortfall(1, &[(Variant::Bare, 79.0)]), Some(0.0));
        assert_eq!(shortfall(2, &[(Variant::Later, 79.0)]), Some(1.0));
        assert_eq!(shortfall(2, &alone), None);
    }

    #[test]
    fn a_verdict_counts_shortfalls_above_half_a_point() {
        let networks = [80.5, 83.5, 10.0]
            .map(|percent| figures(&[(Variant::All, 80.0), (Variant::Bare, percent)]));
        let verdict = judge(&networks)[1].clone();
        assert_eq!((verdict.count, verdict.violations), (3, 1));
        assert_eq!((verdict.mean, verdict.worst), (4.0 / 3.0, Some((3.5, 7))));
    }
}
