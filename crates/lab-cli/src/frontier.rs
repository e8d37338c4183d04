//! `anabranch-lab frontier`: delay, use, loss and share of controllers, and which of them no other
//! one beats.

mod families;

use std::path::{Path, PathBuf};

use anabranch_lab as lab;
use anabranch_lab::compare::Column;
use anabranch_lab::frontier::{Family, frontier, frontier_json, frontier_svg, frontier_table};
use anabranch_terminal::files::check_writable;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::progress::Progress;
use families::{FAMILIES, Shipped};

/// Controllers that are compared unless others are named: those of media that were published, and
/// ours.
const CONTROLLERS: [&str; 8] = [
    "live-bbr",
    "poise",
    "gcc",
    "scream",
    "copa",
    "nada",
    "bbr3",
    "delay-bbr",
];

/// Show which controllers no other one beats in both delay and goodput.
///
/// Each scenario, and each point of its `[sweep]`, has a row for each controller: the 95th
/// percentile of the delay of all frames (capture to last packet: `--latency` must allow it) and
/// of packets (departure to arrival), goodput of the best, use of the busiest link, loss, Jain's
/// index, and the part of the goodput that the media have beside TCP. `*` marks those on the
/// frontier.
///
/// A controller is on it unless another one is no worse in delay and goodput, and better in one of
/// them: by 2 % of the delay or 1 % of the goodput, and by more than the 95 % confidence interval
/// of the differences seed by seed. The last table counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without SCENARIOS it runs those of RFC 8867 and RFC 8869, of Table 1 of Zhang & Lei, and ours with
jitter, delay steps, a cellular link and Starlink: some 80 points, and minutes for each controller.

  anabranch-lab frontier --plot frontier.svg
  anabranch-lab frontier --families rmcat,tcp --controllers live-bbr,copa,copa:delta=1 --seeds 5
  anabranch-lab frontier --controllers live-bbr,gcc scenarios/cellular.toml scenarios/rmcat/5.*.toml
  anabranch-lab frontier --format json > frontier.json

A panel of the picture is a family of points. A disc is a controller's median delay of frames and
goodput, a ring that of packets, a dot a point: up and left is better.")]
pub(crate) struct Arguments {
    /// Scenario files; those of one folder are a family. If missing, --families.
    scenarios: Vec<PathBuf>,
    /// Families of the scenarios in the folder `scenarios`: rmcat, tcp, cell, wifi, table1, jitter,
    /// moving, starlink.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    #[arg(conflicts_with = "scenarios")]
    families: Vec<String>,
    /// Controllers, with any options, as in `compare`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    #[arg(default_values = CONTROLLERS)]
    controllers: Vec<String>,
    /// Number of seeds.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Set a value of all scenarios: `flow-defaults.padding=always`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Draw a panel for each family into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Number of parallel runs; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Tables for people.
    #[default]
    Text,
    /// JSON; a stable contract (docs/scenarios.md).
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let columns = Column::product(&arguments.controllers, &[]);
    let families = arguments.families(&columns)?;
    if let Some(path) = &arguments.plot {
        check_writable(path)?;
    }
    let points = families.iter().flat_map(|family| &family.points);
    let spans = points.flatten().map(|scenario| scenario.duration);
    let simulated = spans.fold(Duration::ZERO, |sum, span| sum + span);
    let progress = Progress::new(simulated * arguments.seeds);
    let found = frontier(
        &families,
        &columns,
        arguments.seeds,
        arguments.threads,
        &|part| progress.add(part.simulated),
    )?;
    progress.finish();
    if let Some(path) = &arguments.plot {
        std::fs::write(path, frontier_svg(&found)).with_context(|| path.display().to_string())?;
    }
    match arguments.format {
        Format::Text => print::text(frontier_table(&found)),
        Format::Json => print::text(frontier_json(&found)),
    }
}

impl Arguments {
    fn families(&self, columns: &[Column]) -> anyhow::Result<Vec<Family>> {
        if !self.scenarios.is_empty() {
            return self.named_files(columns);
        }
        let unknown = self.families.iter().find(|name| {
            let mut known = FAMILIES.iter();
            known.all(|family| family.name != name.as_str())
        });
        if let Some(name) = unknown {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            anyhow::bail!(
                "no family is called {name:?}; known are {}",
                known.join(", ")
            );
        }
        ensure!(
            Path::new("scenarios").is_dir(),
            "there is no folder `scenarios` here: run this in a checkout, or name scenario files"
        );
        let meant = FAMILIES.iter().filter(|family| {
            self.families.is_empty() || self.families.iter().any(|name| name == family.name)
        });
        meant.map(|family| self.shipped(family, columns)).collect()
    }

    /// Returns a shipped family, whose points have the names of their folders.
    fn shipped(&self, family: &Shipped, columns: &[Column]) -> anyhow::Result<Family> {
        let mut points = Vec::new();
        for file in family.files {
            let path = Path::new("scenarios").join(format!("{file}.toml"));
            let mut of_file = self.points(&path, family.settings, columns)?;
            if let Some((folder, _)) = file.rsplit_once('/') {
                for scenario in of_file.iter_mut().flatten() {
                    scenario.name = format!("{folder}/{}", scenario.name);
                }
            }
            points.extend(of_file);
        }
        Ok(Family {
            name: family.title.to_owned(),
            points,
        })
    }

    /// Returns a family for each folder of the named files, in their order.
    fn named_files(&self, columns: &[Column]) -> anyhow::Result<Vec<Family>> {
        let mut families: Vec<Family> = Vec::new();
        for path in &self.scenarios {
            let folder = path.parent().and_then(Path::file_name);
            let name = folder.map_or("scenarios".into(), |name| name.to_string_lossy());
            let points = self.points(path, &[], columns)?;
            match families.iter_mut().find(|family| family.name == name) {
                Some(family) => family.points.extend(points),
                None => families.push(Family {
                    name: name.into_owned(),
                    points,
                }),
            }
        }
        Ok(families)
    }

    fn points(
        &self,
        path: &Path,
        settings: &[&str],
        columns: &[Column],
    ) -> anyhow::Result<Vec<Vec<lab::Scenario>>> {
        let shipped: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let points = Column::points(columns, |of_column| {
            lab::Point::load(path, &[&shipped, &self.settings[..], of_column].concat())
        });
        Ok(points?)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(words: &[&str]) -> Arguments {
        Program::parse_from([&["frontier"], words].concat()).arguments
    }

    #[test]
    fn every_shipped_family_is_read_and_named_in_the_help() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let command = <Arguments as clap::Args>::augment_args(clap::Command::new("frontier"));
        let families = command
            .get_arguments()
            .find(|one| one.get_id() == "families");
        let help = families.unwrap().get_help().unwrap().to_string();
        for family in &FAMILIES {
            assert!(help.contains(family.name), "{}", family.name);
            for file in family.files {
                let settings: Vec<String> =
                    family.settings.iter().map(ToString::to_string).collect();
                let path = root.join(format!("{file}.toml"));
                let points = lab::Point::load(&path, &settings);
                assert!(!points.unwrap_or_else(|error| panic!("{error}")).is_empty());
            }
        }
    }

    #[test]
    fn files_of_one_folder_are_a_family() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files = [
            "rmcat/5.4-competing-media",
            "cellular",
            "rmcat/5.1-variable-capacity",
        ]
        .map(|file| format!("{root}/{file}.toml"));
        let words: Vec<&str> = files.iter().map(String::as_str).collect();
        let found = arguments(&words).families(&[Column::default()]).unwrap();
        let sizes = found
            .iter()
            .map(|family| (&family.name[..], family.points.len()));
        assert_eq!(sizes.collect::<Vec<_>>(), [("rmcat", 3), ("scenarios", 1)]);
    }

    #[test]
    fn an_unknown_family_is_refused_with_those_known() {
        let refused = arguments(&["--families", "rmcat,moon"]).families(&[]);
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("\"moon\"") && message.contains("rmcat, tcp"),
            "{message}"
        );
    }
}
