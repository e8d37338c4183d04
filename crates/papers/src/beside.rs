//! Pictures of a paper's numbers beside ours, if it prints several of one kind.

use anabranch_lab::metrics::Unit;
use anabranch_lab::{Bar, BarKind, Bars, Chart};

use super::judgement::Measured;

/// Minimum of numbers for a picture: a single number is read faster than a picture of it.
const LEAST_NUMBERS: usize = 2;

/// Returns a picture for each unit in which the paper prints several numbers.
pub(super) fn charts(values: &[Measured]) -> Vec<Chart> {
    let units = [
        Unit::Milliseconds,
        Unit::BitsPerSecond,
        Unit::Share,
        Unit::Bytes,
        Unit::Number,
    ];
    let charts = units.into_iter().filter_map(|unit| chart(values, unit));
    charts.collect()
}

fn chart(values: &[Measured], unit: Unit) -> Option<Chart> {
    fn kind(label: &str, bars: Vec<Option<Bar>>) -> BarKind {
        BarKind {
            label: label.to_owned(),
            bars,
        }
    }

    fn bar(value: f64, low: f64, high: f64, scale: f64) -> Option<Bar> {
        Some(Bar {
            value: value * scale,
            low: low * scale,
            high: high * scale,
        })
    }

    let printed = values.iter().filter(|value| value.unit == unit);
    let pairs: Vec<_> = printed
        .filter_map(|value| Some((value, value.published?, value.samples.spread()?)))
        .collect();
    if pairs.len() < LEAST_NUMBERS {
        return None;
    }
    let (scale, label) = match unit {
        Unit::Milliseconds => (1.0, "ms"),
        Unit::BitsPerSecond => (1e-3, "kbit/s"),
        Unit::Share => (100.0, "%"),
        Unit::Bytes => (1e-3, "kB"),
        Unit::Number => (1.0, ""),
    };
    let (subject, groups) = named(pairs.iter().map(|(value, ..)| value.name.as_str()));
    let paper = pairs
        .iter()
        .map(|(_, printed, _)| bar(*printed, *printed, *printed, scale));
    let ours = pairs
        .iter()
        .map(|(.., ours)| bar(ours.median, ours.min, ours.max, scale));
    let kinds = vec![
        kind("the paper's number", paper.collect()),
        kind("measured: median and range", ours.collect()),
    ];
    Some(Chart::Bars(Bars {
        title: subject.unwrap_or("Beside the paper").to_owned(),
        y: label.to_owned(),
        groups,
        kinds,
    }))
}

/// Returns the common end of all names behind their last colon, and the names without it.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> (Option<&'a str>, Vec<String>) {
    let names: Vec<&str> = names.collect();
    let ends: Option<Vec<(&str, &str)>> = names.iter().map(|name| name.rsplit_once(": ")).collect();
    match ends {
        Some(ends) if ends.iter().all(|(_, end)| *end == ends[0].1) => {
            let starts = ends.iter().map(|(start, _)| (*start).to_owned());
            (Some(ends[0].1), starts.collect())
        }
        _ => (None, names.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::Samples;

    fn value(name: &str, unit: Unit, published: Option<f64>) -> Measured {
        let measured = Measured::new(name, unit, Samples(vec![1.0, 2.0, 3.0]));
        Measured {
            published,
            ..measured
        }
    }

    #[test]
    fn several_numbers_of_one_kind_are_drawn_beside_ours() {
        fn heights(kind: usize, kinds: &[BarKind]) -> Vec<f64> {
            kinds[kind]
                .bars
                .iter()
                .flatten()
                .map(|bar| bar.value)
                .collect()
        }

        let values = [
            value("case 1: delay", Unit::Milliseconds, Some(5.0)),
            value("case 2: delay", Unit::Milliseconds, Some(6.0)),
            value("case 3: delay", Unit::Milliseconds, None),
            value("case 1: loss", Unit::Share, Some(0.1)),
        ];
        let [Chart::Bars(bars)] = &charts(&values)[..] else {
            panic!("one picture, of delays");
        };
        assert_eq!((bars.title.as_str(), bars.y.as_str()), ("delay", "ms"));
        assert_eq!(bars.groups, ["case 1", "case 2"]);
        assert_eq!(
            (heights(0, &bars.kinds), heights(1, &bars.kinds)),
            (vec![5.0, 6.0], vec![2.0, 2.0])
        );
    }
}
