//! Index of a sweep's traces: the settings of each point, as numbers if possible.

use std::path::{Path, PathBuf};

use super::trace_folder;
use crate::scenario::Point;
use crate::trace::TraceError;

/// The file's name.
const FILE: &str = "points.csv";

/// Writes `points.csv` into the folder of a sweep's traces: a row for each run. A column of
/// quantities of one kind has numbers, and their unit at the end of its name.
///
/// # Errors
/// A folder or file that cannot be written.
pub(super) fn write(folder: &Path, points: &[Point], seeds: &[u64]) -> Result<(), TraceError> {
    let path = folder.join(FILE);
    let created = std::fs::create_dir_all(folder).map_err(csv::Error::from);
    let written = created.and_then(|()| write_rows(&path, points, seeds));
    written.map_err(|error| TraceError::new(path, error))
}

fn write_rows(path: &PathBuf, points: &[Point], seeds: &[u64]) -> Result<(), csv::Error> {
    let columns = columns(points);
    let mut file = csv::Writer::from_path(path)?;
    let names = columns.iter().map(|column| column.name());
    let fixed = ["point", "seed", "folder"].map(str::to_owned);
    file.write_record(fixed.into_iter().chain(names))?;
    for (index, point) in points.iter().enumerate() {
        for seed in seeds {
            let fixed = [
                (index + 1).to_string(),
                seed.to_string(),
                trace_folder(index, *seed, seeds),
            ];
            let cells = columns.iter().map(|column| column.cell(point));
            file.write_record(fixed.into_iter().chain(cells))?;
        }
    }
    Ok(file.flush()?)
}

/// A key of the sweep.
struct Column<'a> {
    key: &'a str,
    /// Unit of all of its values, if they are quantities.
    unit: Option<&'static str>,
}

fn columns(points: &[Point]) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for setting in points.iter().flat_map(|point| &point.settings) {
        let unit = setting.number.map(|(_, unit)| unit);
        match columns.iter_mut().find(|column| column.key == setting.key) {
            Some(column) if column.unit != unit => column.unit = None,
            Some(_) => {}
            None => columns.push(Column {
                key: &setting.key,
                unit,
            }),
        }
    }
    columns
}

/// Returns the end of a column's name, and the factor from a setting's unit to the column's.
fn in_column(unit: &str) -> (&'static str, f64) {
    match unit {
        "Mbit/s" => ("_bps", 1e6),
        "ms" => ("_ms", 1.0),
        "kB" => ("_bytes", 1e3),
        "%" => ("_percent", 1.0),
        "packets" => ("_packets", 1.0),
        _ => ("", 1.0),
    }
}

impl Column<'_> {
    fn name(&self) -> String {
        let suffix = self.unit.map_or("", |unit| in_column(unit).0);
        format!("{}{suffix}", self.key)
    }

    fn cell(&self, point: &Point) -> String {
        let setting = point
            .settings
            .iter()
            .find(|setting| setting.key == self.key);
        setting.map_or(String::new(), |setting| match (self.unit, setting.number) {
            (Some(unit), Some((number, _))) => (number * in_column(unit).1).to_string(),
            _ => setting.value.clone(),
        })
    }
}
