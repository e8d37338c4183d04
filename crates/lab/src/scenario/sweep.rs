//! Grids: one scenario at many points.

use std::path::Path;

use anabranch_units::{ByteCount, DataRate, Duration};

use super::algorithms::Algorithms;
use super::document::{Document, SWEEP_KEY, ZIP};
use super::error::{Mistake, Place, ScenarioError};
use super::files::{Beside, Files};
use super::node::{Node, Value};
use super::reader::{Read, list, named};
use super::{Scenario, limits, named_text, read_document};

/// A scenario with the values that one point of its `[sweep]` gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Settings of the sweep, in the order of the file; empty if there is no sweep.
    pub settings: Vec<Setting>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

impl Point {
    /// Returns the scenario with a name that distinguishes the point from the sweep's others.
    pub fn into_named_scenario(self) -> Scenario {
        let mut scenario = self.scenario;
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|setting| format!("{}={}", setting.key, setting.value))
            .collect();
        if !settings.is_empty() {
            scenario.name = format!("{} ({})", scenario.name, settings.join(", "));
        }
        scenario
    }
}

/// A value that a sweep sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its key, such as `links.bottleneck.rate`.
    pub key: String,
    /// Its value as written.
    pub value: String,
    /// Its value as a number and a unit, if it is a quantity.
    pub number: Option<(f64, &'static str)>,
}

impl Setting {
    /// Returns the number in the unit of tables: rates in `bit/s`, times in `ms`, amounts in
    /// `bytes` or `packets`. Shares are 0 to 1 and have no unit, as plain numbers.
    pub fn quantity(&self) -> Option<(f64, &'static str)> {
        self.number.map(|quantity| match quantity {
            (megabits, "Mbit/s") => ((megabits * 1e6).round(), "bit/s"),
            (kilobytes, "kB") => ((kilobytes * 1e3).round(), "bytes"),
            (percent, "%") => (percent / 100.0, ""),
            other => other,
        })
    }
}

/// Largest number of points; no one would wait for more.
pub(crate) const MAX_POINTS: usize = 10_000;

/// Keys, and values for them.
type Step = Vec<(Vec<String>, Node)>;
/// Steps of keys that change together.
type Axis = Vec<Step>;

impl Point {
    /// Reads a file as [`Scenario::load`] does, and every point of its sweep. A file without one is
    /// a single point. Overrides take precedence over the sweep.
    ///
    /// # Errors
    /// A [`ScenarioError`] that names file, line and key of the first mistake at any point.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Vec<Point>, ScenarioError> {
        let (name, text) = named_text(path)?;
        Point::parse(&name, &text, overrides)
    }

    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// As [`Point::load`].
    pub fn parse(
        file: &str,
        text: &str,
        overrides: &[String],
    ) -> Result<Vec<Point>, ScenarioError> {
        Point::parse_with(file, text, overrides, Algorithms::NONE)
    }

    /// Reads the text of a file called `file`, whose flows may use `algorithms` as well.
    ///
    /// # Errors
    /// As [`Point::load`].
    pub fn parse_with(
        file: &str,
        text: &str,
        overrides: &[String],
        algorithms: &Algorithms,
    ) -> Result<Vec<Point>, ScenarioError> {
        let beside = Beside::new(file);
        let files = Files::OnDisk(&beside);
        let document = Document::parse(file, text, files, overrides)?;
        let points = points(&document, file, files, algorithms)?;
        let possible = points
            .map(|(settings, scenario)| scenario.map(|scenario| Point { settings, scenario }));
        possible.collect()
    }
}

/// Returns every point of a document's sweep: its settings, and the scenario or its mistake.
pub(super) fn points<'a>(
    document: &'a Document,
    file: &'a str,
    files: Files<'a>,
    algorithms: &'a Algorithms,
) -> Result<impl Iterator<Item = (Vec<Setting>, Result<Scenario, ScenarioError>)>, ScenarioError> {
    let sweep = match &document.root().value {
        Value::Table(entries) => entries.iter().find(|(key, _)| key == SWEEP_KEY),
        _ => None,
    };
    let axes = sweep.map_or(Ok(Vec::new()), |(_, node)| axes(node));
    let steps = axes
        .and_then(|axes| {
            let axes = without_overridden(axes, document)?;
            product(&axes, sweep.map(|(_, node)| node))
        })
        .map_err(|mistake| document.error(mistake))?;
    let point_count = steps.len();
    let scenario = move |step: &Step| {
        let mut at_point = document.clone();
        for (keys, value) in step {
            let put = at_point.put(keys, value);
            put.map_err(|mistake| document.error(mistake))?;
        }
        let mut scenario = read_document(&at_point, file, files, algorithms)?;
        scenario.limits = limits::shared(scenario.limits, point_count);
        Ok(scenario)
    };
    Ok(steps.into_iter().map(move |step| {
        let settings = step.iter().map(|(keys, value)| Setting {
            key: keys.join("."),
            value: value.value.written(),
            number: number(&value.value),
        });
        (settings.collect(), scenario(&step))
    }))
}

/// Reads all axes, in the order of the file.
fn axes(node: &Node) -> Read<Vec<Axis>> {
    let mut found: Vec<(Place, Axis)> = Vec::new();
    for (key, value) in named(node)? {
        if key == ZIP {
            for table in list(value)? {
                found.push((table.place, zipped(table)?));
            }
        } else {
            let mut lists = Vec::new();
            collect_lists(key, value, Vec::new(), &mut lists)?;
            for (keys, values) in lists {
                let place = values.place;
                let steps = list(values)?
                    .iter()
                    .map(|value| vec![(keys.clone(), value.clone())]);
                found.push((place, steps.collect()));
            }
        }
    }
    found.sort_by_key(|(place, _)| match place {
        Place::Base(line) => (0, *line),
        Place::Line(line) => (1, *line),
        Place::Override(index) => (2, *index),
    });
    Ok(found.into_iter().map(|(_, axis)| axis).collect())
}

/// Reads one axis of several keys, whose lists advance together.
fn zipped(table: &Node) -> Read<Axis> {
    let mut lists = Vec::new();
    for (key, value) in named(table)? {
        collect_lists(key, value, Vec::new(), &mut lists)?;
    }
    lists.sort_by_key(|(_, values)| match values.place {
        Place::Base(line) | Place::Line(line) | Place::Override(line) => line,
    });
    let Some(((_, first), others)) = lists.split_first() else {
        return Err(table.mistake("lists of values by key are missing"));
    };
    let count = list(first)?.len();
    for (_, values) in others {
        let other = list(values)?.len();
        if other != count {
            return Err(
                values.mistake(format!("{other} values beside {count}: they come in pairs"))
            );
        }
    }
    (0..count)
        .map(|index| {
            lists
                .iter()
                .map(|(keys, values)| Ok((keys.clone(), list(values)?[index].clone())))
                .collect()
        })
        .collect()
}

/// Collects the lists below a key, which may be written as one key in quotes or as tables in
/// tables.
fn collect_lists<'a>(
    key: &str,
    node: &'a Node,
    parents: Vec<String>,
    found: &mut Vec<(Vec<String>, &'a Node)>,
) -> Read<()> {
    let keys: Vec<String> = parents
        .into_iter()
        .chain(key.split('.').map(str::to_owned))
        .collect();
    match &node.value {
        Value::Table(entries) => entries
            .iter()
            .try_for_each(|(key, node)| collect_lists(key, node, keys.clone(), found)),
        Value::Array(values) if values.is_empty() => Err(node.mistake("no values to sweep over")),
        Value::Array(_) => {
            found.push((keys, node));
            Ok(())
        }
        other => Err(node.mistake(format!("expected a list of values, not {other}"))),
    }
}

/// Returns the axes without the keys that an override sets.
fn without_overridden(mut axes: Vec<Axis>, document: &Document) -> Result<Vec<Axis>, Mistake> {
    for step in axes.iter_mut().flatten() {
        step.retain(|(keys, _)| !document.is_overridden(keys));
    }
    axes.retain(|axis| axis.iter().all(|step| !step.is_empty()));
    Ok(axes)
}

/// Returns every combination of steps, the last axis changing fastest.
fn product(axes: &[Axis], sweep: Option<&Node>) -> Result<Vec<Step>, Mistake> {
    let count = axes
        .iter()
        .try_fold(1_usize, |count, axis| count.checked_mul(axis.len()));
    if count.is_none_or(|count| count > MAX_POINTS)
        && let Some(sweep) = sweep
    {
        return Err(sweep.mistake(format!("more than {MAX_POINTS} points")));
    }
    let mut points = vec![Vec::new()];
    for axis in axes {
        points = points
            .into_iter()
            .flat_map(|point| {
                axis.iter()
                    .map(|step| [&point[..], step].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    Ok(points)
}

/// Returns the number of a value, for axes of pictures.
fn number(value: &Value) -> Option<(f64, &'static str)> {
    let text = match value {
        Value::Integer(number) => return Some((*number as f64, "")),
        Value::Float(number) => return Some((*number, "")),
        Value::Text(text) => text.trim(),
        _ => return None,
    };
    if let Ok(rate) = text.parse::<DataRate>() {
        return Some((rate.megabits_per_second(), "Mbit/s"));
    }
    if let Ok(span) = text.parse::<Duration>() {
        return Some((span.as_millis_f64(), "ms"));
    }
    if let Ok(ByteCount(bytes)) = text.parse() {
        return Some((bytes as f64 / 1e3, "kB"));
    }
    for unit in ["%", "packets"] {
        let number = text.strip_suffix(unit).map(|number| number.trim().parse());
        if let Some(Ok(number)) = number {
            return Some((number, unit));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"duration = "10 s"
[links.up]
rate = "1 Mbit/s"
[links.down]
[routes.only]
forward = ["up"]
reverse = ["down"]
[[flows]]
paths = ["only"]
controller = "fixed"
[sweep]
"#;

    fn points(sweep: &str, overrides: &[&str]) -> Result<Vec<Point>, String> {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let text = format!("{BASE}{sweep}");
        Point::parse("folder/grid.toml", &text, &overrides).map_err(|error| error.to_string())
    }

    /// Returns the values of every point, side by side.
    fn values(points: &[Point]) -> Vec<String> {
        points
            .iter()
            .map(|point| {
                let values = point.settings.iter().map(|setting| setting.value.as_str());
                values.collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    const TWO_AXES: &str = "\"links.up.rate\" = [\"2 Mbit/s\", \"3 Mbit/s\"]\n\
                            flows.0.controller = [\"fixed\", \"new-reno\"]\n";

    #[test]
    fn points_are_the_product_of_axes_in_the_order_of_the_file() {
        let points = points(TWO_AXES, &[]).unwrap();
        let expected = [
            "2 Mbit/s fixed",
            "2 Mbit/s new-reno",
            "3 Mbit/s fixed",
            "3 Mbit/s new-reno",
        ];
        assert_eq!(values(&points), expected);
        let last = &points[3];
        assert_eq!(last.scenario.flows[0].controller(), "new-reno");
        let up = last
            .scenario
            .links
            .iter()
            .find(|link| link.name == "up")
            .unwrap();
        assert_eq!(up.config.rate, Some(DataRate::from_megabits_per_second(3)));
        assert_eq!(last.settings[0].number, Some((3.0, "Mbit/s")));
        assert_eq!(last.settings[1].number, None);
    }

    #[test]
    fn zipped_lists_change_together() {
        let zip = "zip = [{ \"links.up.rate\" = [\"2 Mbit/s\", \"3 Mbit/s\"], \
                   \"links.up.delay\" = [\"5 ms\", \"6 ms\"] }]\n\
                   \"flows.0.count\" = [1, 2]\n";
        let points = points(zip, &[]).unwrap();
        let mut rows = values(&points);
        rows.iter_mut()
            .for_each(|row| *row = row.replace(" Mbit/s", "M").replace(" ms", "ms"));
        let mut words: Vec<Vec<&str>> = rows.iter().map(|row| row.split(' ').collect()).collect();
        words.iter_mut().for_each(|row| row.sort());
        let expected = [
            ["1", "2M", "5ms"],
            ["2", "2M", "5ms"],
            ["1", "3M", "6ms"],
            ["2", "3M", "6ms"],
        ];
        assert_eq!(words, expected);
        assert_eq!(points[3].scenario.flows.len(), 2);
    }

    #[test]
    fn an_override_takes_a_key_out_of_the_sweep() {
        let pinned = points(TWO_AXES, &["links.up.rate=9 Mbit/s"]).unwrap();
        assert_eq!(values(&pinned), ["fixed", "new-reno"]);
        let up = pinned[0]
            .scenario
            .links
            .iter()
            .find(|link| link.name == "up")
            .unwrap();
        assert_eq!(up.config.rate, Some(DataRate::from_megabits_per_second(9)));
        let none = points(TWO_AXES, &["sweep={}"]).unwrap();
        assert_eq!((none.len(), none[0].settings.len()), (1, 0));
        for lists in [TWO_AXES, "links.up = { rate = [\"1 Mbit/s\"] }\n"] {
            for key in ["links.up.rate", "\"links.up.rate\"", "links.\"up\".rate"] {
                let setting = format!("sweep.{key}=[\"7 Mbit/s\"]");
                let replaced = points(lists, &[&setting]).unwrap();
                assert!(values(&replaced)[0].starts_with("7 Mbit/s"), "{key}");
                assert_eq!(replaced.len(), if lists == TWO_AXES { 2 } else { 1 });
            }
        }
        let zip = "zip = [{ \"links.up.rate\" = [\"2 Mbit/s\"], duration = [\"1 s\"] }]\n";
        let replaced = points(zip, &["sweep.links.up.rate=[\"7 Mbit/s\"]"]).unwrap();
        assert_eq!(values(&replaced), ["1 s 7 Mbit/s"]);
        let other = points("", &["sweep.links.up.delay=[\"1 ms\", \"2 ms\"]"]).unwrap();
        assert_eq!(values(&other), ["1 ms", "2 ms"]);
    }

    #[test]
    fn a_mistake_names_the_value_in_the_sweep() {
        for (sweep, start, text) in [
            (
                "\"links.up.rate\" = [\"2 Mbit/s\",\n\"3 MB\"]\n",
                ":13: links.up.rate: ",
                "Mbit/s",
            ),
            (
                "\"links.upp.rate\" = [\"2 Mbit/s\"]\n",
                ":12: links.upp: ",
                "down, up",
            ),
            (
                "\"links.up.ratte\" = [\"2 Mbit/s\"]\n",
                ":12: links.up.ratte: ",
                "unknown key",
            ),
            ("\"flows.1.count\" = [1]\n", ":12: flows.1: ", "1 elements"),
            (
                "\"flows.0.count\" = 1\n",
                ":12: sweep.flows.0.count: ",
                "a list of values",
            ),
            (
                "\"flows.0.count\" = []\n",
                ":12: sweep.flows.0.count: ",
                "no values",
            ),
            (
                "zip = [{ \"flows.0.count\" = [1, 2], duration = [\"1 s\"] }]\n",
                ":12: sweep.zip[0].",
                "in pairs",
            ),
            ("zip = [{}]\n", ":12: sweep.zip[0]: ", "missing"),
        ] {
            let error = points(sweep, &[]).expect_err(sweep);
            let start = format!("folder/grid.toml{start}");
            assert!(error.starts_with(&start), "expected {start}: {error}");
            assert!(error.contains(text), "{error}");
        }
    }
}
