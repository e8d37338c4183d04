//! Tables of everything that can be chosen by name.

use anabranch_controllers::CONTROLLERS;
use anabranch_units::options::{AlgorithmOption, OptionValues};
use anabranch_schedulers::SCHEDULERS;
use pyo3::prelude::*;

use crate::builder::{Builder, Kind};
use crate::columns;
use crate::measured::metric_table;
use crate::recording::TRACES;
use crate::table::NativeTable;

fn texts(names: &[&str]) -> Builder {
    Builder::new(names.iter().map(|name| ((*name).to_owned(), Kind::Text)))
}

/// Returns an option with its values, as `hystart=hystart++|classic|off`. The first one, or the
/// number in brackets, is the default.
fn written(option: &AlgorithmOption) -> String {
    let name = option.name;
    match option.values {
        OptionValues::Words(words) => format!("{name}={}", words.join("|")),
        OptionValues::Number { usual, min, max } => format!("{name}={min}..{max} ({usual})"),
    }
}

/// Returns a table of all controllers: name, meaning, options.
#[pyfunction]
pub(crate) fn controllers() -> NativeTable {
    let mut builder = texts(&["name", "meaning", "options"]);
    for entry in CONTROLLERS {
        let texts: Vec<_> = entry.options.iter().map(written).collect();
        let joined = texts.join("; ");
        let options = (!joined.is_empty()).then_some(joined.as_str());
        builder.push([entry.name.into(), entry.summary.into(), options.into()]);
    }
    builder.finish()
}

/// Returns a table of all schedulers that a simulation can run: name, meaning.
#[pyfunction]
pub(crate) fn schedulers() -> NativeTable {
    let mut builder = texts(&["name", "meaning"]);
    for entry in SCHEDULERS {
        builder.push([entry.name.into(), entry.summary.into()]);
    }
    let oracle = "knows the simulated network's queues: a bound for the others";
    builder.push([anabranch_lab::ORACLE.into(), oracle.into()]);
    builder.finish()
}

/// Returns a table of all metrics: metric, column, unit, scope, meaning.
#[pyfunction]
pub(crate) fn metrics() -> NativeTable {
    metric_table().finish()
}

/// Returns a table of all columns of results: table, column, unit, meaning.
#[pyfunction]
pub(crate) fn columns_table() -> NativeTable {
    columns::documentation().finish()
}

/// Returns the names of all tables of results.
#[pyfunction]
pub(crate) fn table_names() -> Vec<&'static str> {
    columns::TABLES.to_vec()
}

/// Returns the names of all traces.
#[pyfunction]
pub(crate) fn trace_names() -> Vec<&'static str> {
    TRACES.to_vec()
}

/// Returns the probable name among `known`, if one is near.
#[pyfunction]
pub(crate) fn nearest_name(asked: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    anabranch_units::nearest_name(asked, &known).map(str::to_owned)
}
