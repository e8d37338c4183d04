//! Rows that `anabranch-lab run --output` has written, as tables.

use std::path::Path;

use anabranch_lab::{RowError, RowReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::builder::{Builder, Kind};
use crate::columns::{ColumnDoc, TABLES};
use crate::measured::{Measured, OneRun};
use crate::settings::{Index, SettingColumn, names};
use crate::table::Tables;

/// Name of the table of failed runs.
const FAILED: &str = "failed";

/// A file of rows: the scenario's name, names of the columns of settings, the number of runs,
/// failed ones included, and the tables by name.
type Read<'py> = (String, Vec<String>, usize, Bound<'py, PyDict>);

/// Reads a file of rows: a whole sweep, or one shard of it.
#[pyfunction]
pub(crate) fn read_rows<'py>(py: Python<'py>, path: &str) -> PyResult<Read<'py>> {
    let path = Path::new(path);
    let rows = py
        .detach(|| Rows::read(path))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let names = rows.columns.iter().map(|(name, _)| name.clone()).collect();
    Ok((rows.name, names, rows.run_count, rows.tables.into_dict(py)?))
}

struct Rows {
    name: String,
    columns: Vec<(String, Kind)>,
    run_count: usize,
    tables: Tables,
}

impl Rows {
    fn read(path: &Path) -> Result<Rows, RowError> {
        let settings = settings(path)?;
        let columns = names(&settings);
        let mut reader = RowReader::open(path)?;
        let header = reader.header()?;
        let index = Index {
            point: 0,
            seed: 0,
            settings: &[],
            names: &columns,
        };
        let mut measured = Measured::new(&index);
        let mut failed = failures(&index);
        for (run, settings) in header.runs().zip(&settings) {
            let row = reader.row(&header, run)?;
            let index = Index {
                point: row.point as usize,
                seed: row.seed,
                settings,
                names: &columns,
            };
            match OneRun::of_row(&header.version, &row) {
                Some(made) => measured.push(&index, &made),
                None => failed.push(index.cells().chain([row.error.as_deref().into()])),
            }
        }
        let mut tables = measured.into_tables();
        tables.insert(FAILED, failed);
        let in_order = TABLES
            .into_iter()
            .chain([FAILED])
            .filter_map(|name| Some((name, tables.remove(name)?.finish())));
        let tables = Tables(in_order.collect());
        Ok(Rows {
            name: header.scenario,
            run_count: settings.len(),
            columns,
            tables,
        })
    }
}

/// Returns the settings of each row, and checks all rows: the columns of tables depend on them.
fn settings(path: &Path) -> Result<Vec<Vec<SettingColumn>>, RowError> {
    let mut reader = RowReader::open(path)?;
    let header = reader.header()?;
    let mut settings = Vec::new();
    for run in header.runs() {
        let row = reader.row(&header, run)?;
        settings.push(row.settings.iter().map(SettingColumn::of_row).collect());
    }
    reader.end()?;
    Ok(settings)
}

/// Returns an empty table of failed runs.
fn failures(index: &Index<'_>) -> Builder {
    index.builder(vec![ColumnDoc {
        name: "error".to_owned(),
        kind: Kind::Text,
        unit: "",
        about: "reason why the run failed",
    }])
}
