//! Runs of a sweep as rows: a line of JSON about the sweep, and then one for each run.
//! `docs/cluster.md` documents them.

mod reader;
mod shard;

use serde::{Deserialize, Serialize};

use crate::report::{RunReport, judge, run_report};
use crate::run::Outcome;
use crate::scenario::{MAX_POINTS, Scenario, Setting};
pub use reader::{RowError, RowReader};
pub use shard::Shard;

/// Version of the rows, as [`SCHEMA`](crate::SCHEMA) of a report.
pub const ROWS_SCHEMA: &str = "anabranch-runs/1";
/// Largest number of seeds, that of `anabranch-lab run --seeds`.
pub const MAX_SEEDS: u64 = 100_000;

/// The first line: the sweep, and the part of its runs that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsHeader {
    /// [`ROWS_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub version: String,
    /// Hash of the code that makes runs: two builds of one version may differ.
    pub code: String,
    /// Name of the scenario.
    pub scenario: String,
    /// [`Swept::hash`](crate::Swept::hash).
    pub scenario_hash: String,
    /// Number of points.
    pub point_count: u64,
    /// First seed of every point.
    pub first_seed: u64,
    /// Number of seeds, consecutive ones.
    pub seed_count: u64,
    /// The part.
    pub shard: Shard,
}

impl RowsHeader {
    /// Reads a first line.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn parse(line: &[u8]) -> Result<RowsHeader, String> {
        let header: RowsHeader = serde_json::from_slice(line)
            .map_err(|_| format!("its first line is no header of {ROWS_SCHEMA}"))?;
        let is_possible = (1..=MAX_POINTS as u64).contains(&header.point_count)
            && (1..=MAX_SEEDS).contains(&header.seed_count)
            && header.first_seed.checked_add(header.seed_count).is_some();
        if header.schema != ROWS_SCHEMA {
            Err(format!("it is of {}, not of {ROWS_SCHEMA}", header.schema))
        } else if !is_possible {
            Err("its first line has impossible numbers".to_owned())
        } else {
            Ok(header)
        }
    }

    /// Returns the line, with its end.
    pub fn line(&self) -> String {
        line(self)
    }

    /// Returns the number of runs of all shards.
    pub fn run_count(&self) -> u64 {
        self.point_count * self.seed_count
    }

    /// Returns the numbers of this shard's runs, in the order of rows.
    pub fn runs(&self) -> impl Iterator<Item = u64> + use<> {
        self.shard.runs(self.run_count())
    }

    /// Returns the point of a run, from 0, and its seed.
    pub fn point_and_seed(&self, run: u64) -> (u64, u64) {
        (
            run / self.seed_count,
            self.first_seed + run % self.seed_count,
        )
    }

    /// Returns the first difference to the header of another part of the same sweep.
    pub fn difference(&self, other: &RowsHeader) -> Option<String> {
        let builds = [self, other].map(|header| format!("{} {}", header.version, header.code));
        let seeds = [self, other].map(|header| {
            let last = header.first_seed + header.seed_count - 1;
            format!("seeds {} to {last}", header.first_seed)
        });
        let scenarios = [self, other].map(|header| {
            if self.scenario == other.scenario {
                format!("{:?} with hash {}", header.scenario, header.scenario_hash)
            } else {
                format!("{:?}", header.scenario)
            }
        });
        let is_same = self.scenario_hash == other.scenario_hash;
        let [own, others] = match () {
            () if builds[0] != builds[1] => builds.map(|build| format!("version {build}")),
            () if !is_same => scenarios.map(|scenario| format!("scenario {scenario}")),
            () if seeds[0] != seeds[1] => seeds,
            () if self.shard.count() != other.shard.count() => {
                [self, other].map(|header| format!("{} shards", header.shard.count()))
            }
            () => return None,
        };
        Some(format!("{own}, not {others}"))
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Number of the run, from 0: point by point, and seed by seed.
    pub run: u64,
    /// Number of the point, from 0.
    pub point: u64,
    /// Settings of the point.
    pub settings: Vec<SettingValue>,
    /// Seed.
    pub seed: u64,
    /// Reason why there is no report; `null`: the run was made.
    pub error: Option<String>,
    /// Measurements, as in the report of a scenario; `null`: the run failed.
    pub report: Option<RunReport>,
    /// Each expectation of the scenario in this run; none if it failed.
    pub expectations: Vec<RunExpectation>,
}

/// A setting of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingValue {
    /// The key.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// The value in [`SettingValue::unit`]; `null`: it is no quantity.
    pub number: Option<f64>,
    /// Unit of the number: `bit/s`, `ms`, `bytes`, `packets`, or empty.
    pub unit: String,
}

/// An expectation in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunExpectation {
    /// The metric's name.
    pub metric: String,
    /// The flow's or link's name; `null`: all flows together.
    pub subject: Option<String>,
    /// The least value that is right.
    pub min: Option<f64>,
    /// The largest value that is right.
    pub max: Option<f64>,
    /// Begin of its window.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Part of the window that does not count.
    pub outside_s: Option<[f64; 2]>,
    /// The value; `null`: there was nothing to measure.
    pub value: Option<f64>,
    /// Whether the value is right.
    pub is_met: bool,
}

impl RunExpectation {
    /// Returns every expectation of a scenario in one of its runs.
    pub fn all(scenario: &Scenario, outcome: &Outcome) -> Vec<RunExpectation> {
        let all =
            scenario
                .expectations
                .iter()
                .zip(&outcome.expected)
                .map(|(expectation, statistics)| {
                    let value = expectation.value(statistics);
                    let judged = judge(scenario, expectation, vec![value]);
                    RunExpectation {
                        metric: judged.metric.to_owned(),
                        subject: judged.subject,
                        min: judged.min,
                        max: judged.max,
                        from_s: judged.from_s,
                        to_s: judged.to_s,
                        outside_s: judged.outside_s,
                        value,
                        is_met: judged.is_met,
                    }
                });
        all.collect()
    }
}

impl RunRow {
    /// Returns the row of a run with its measurements, or the reason why there are none.
    pub fn new(
        header: &RowsHeader,
        run: u64,
        settings: &[Setting],
        made: Result<(&Scenario, &Outcome), String>,
    ) -> RunRow {
        let (point, seed) = header.point_and_seed(run);
        let row = RunRow {
            run,
            point,
            settings: settings
                .iter()
                .map(|setting| SettingValue {
                    key: setting.key.clone(),
                    value: setting.value.clone(),
                    number: setting.quantity().map(|(number, _)| number),
                    unit: setting.quantity().map_or("", |(_, unit)| unit).to_owned(),
                })
                .collect(),
            seed,
            error: None,
            report: None,
            expectations: Vec::new(),
        };
        match made {
            Ok((scenario, outcome)) => RunRow {
                report: Some(run_report(outcome)),
                expectations: RunExpectation::all(scenario, outcome),
                ..row
            },
            Err(error) => RunRow {
                error: Some(error),
                ..row
            },
        }
    }

    /// Reads the line of the run of this number.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn parse(header: &RowsHeader, run: u64, line: &[u8]) -> Result<RunRow, String> {
        let line = line.strip_suffix(b"\n").ok_or("the line has no end")?;
        let row: RunRow = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if row.run != run || (row.point, row.seed) != header.point_and_seed(run) {
            return Err(format!("run {run} was expected, not run {}", row.run));
        }
        if row.error.is_some() != row.report.is_some() {
            Ok(row)
        } else {
            Err("a row has either a report or an error".to_owned())
        }
    }

    /// Returns the line, with its end.
    pub fn line(&self) -> String {
        line(self)
    }
}

fn line(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).expect("keys are texts");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOptions, run_outcomes};

    const TEXT: &str = "duration = \"2 s\"\n\
        links.up = { rate = \"1 Mbit/s\", loss = 0.1, queue = \"50 ms\" }\n\
        routes.only = { forward = [\"up\"], reverse = [\"up\"] }\n\
        flows = [{ paths = [\"only\"] }]\nexpect.loss = { max = 0.01 }\n";

    fn header() -> RowsHeader {
        RowsHeader {
            schema: ROWS_SCHEMA.to_owned(),
            version: "1".to_owned(),
            code: "abc".to_owned(),
            scenario: "lossy".to_owned(),
            scenario_hash: "def".to_owned(),
            point_count: 2,
            first_seed: 5,
            seed_count: 3,
            shard: "2/4".parse().unwrap(),
        }
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let header = header();
        assert_eq!(RowsHeader::parse(header.line().as_bytes()).unwrap(), header);
        let scenario = Scenario::parse("lossy.toml", TEXT, &[]).unwrap();
        let options = RunOptions {
            seeds: vec![6],
            ..RunOptions::default()
        };
        let outcomes = run_outcomes(&scenario, &options, &|_| ()).unwrap();
        let setting = Setting {
            key: "links.up.rate".to_owned(),
            value: "1 Mbit/s".to_owned(),
            number: Some((1.0, "Mbit/s")),
        };
        let settings = [setting];
        let row = RunRow::new(&header, 4, &settings, Ok((&scenario, &outcomes[0])));
        assert_eq!((row.point, row.seed), (1, 6));
        assert_eq!(row.settings[0].number, Some(1e6));
        assert!(!row.expectations[0].is_met);
        assert_eq!(
            RunRow::parse(&header, 4, row.line().as_bytes()).unwrap(),
            row
        );
        let failed = RunRow::new(&header, 5, &settings, Err("no \"memory\"\n".to_owned()));
        let line = failed.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(RunRow::parse(&header, 5, line.as_bytes()).unwrap(), failed);
        let error = RunRow::parse(&header, 4, line.as_bytes()).unwrap_err();
        assert_eq!(error, "run 4 was expected, not run 5");
        assert!(RunRow::parse(&header, 5, &line.as_bytes()[..40]).is_err());
    }

    #[test]
    fn impossible_headers_are_refused() {
        let text = header().line();
        for (old, new) in [
            ("\"point_count\":2", "\"point_count\":18446744073709551615"),
            ("\"seed_count\":3", "\"seed_count\":0"),
            ("\"first_seed\":5", "\"first_seed\":18446744073709551615"),
            ("\"2/4\"", "\"5/4\""),
            ("runs/1", "runs/2"),
            ("{", "["),
        ] {
            let changed = text.replace(old, new);
            assert_ne!(changed, text, "{old}");
            RowsHeader::parse(changed.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn the_first_difference_of_two_parts_is_named() {
        fn changed(change: fn(&mut RowsHeader), own: &RowsHeader) -> Option<String> {
            let mut other = header();
            change(&mut other);
            own.difference(&other)
        }

        let own = header();
        assert_eq!(
            changed(|other| other.shard = "1/4".parse().unwrap(), &own),
            None
        );
        for (change, text) in [
            (
                (|h| h.version = "2".into()) as fn(&mut RowsHeader),
                "version 1 abc, not version 2 abc",
            ),
            (
                |h| h.code = "xyz".into(),
                "version 1 abc, not version 1 xyz",
            ),
            (
                |h| h.scenario_hash = "0".into(),
                "scenario \"lossy\" with hash def, not scenario \"lossy\" with hash 0",
            ),
            (|h| h.seed_count = 4, "seeds 5 to 7, not seeds 5 to 8"),
            (
                |h| h.shard = "2/5".parse().unwrap(),
                "4 shards, not 5 shards",
            ),
        ] {
            assert_eq!(changed(change, &own).as_deref(), Some(text));
        }
    }
}
