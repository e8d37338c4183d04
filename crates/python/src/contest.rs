//! The cases in which other transports were measured.

use anabranch_lab::contest::{BAR_SPAN, ROWS};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the rows of the contest as dictionaries, and the shortest run in seconds that can be
/// compared with a bar.
#[pyfunction]
pub(crate) fn contest_rows(py: Python<'_>) -> PyResult<(Vec<Bound<'_, PyDict>>, f64)> {
    let rows = ROWS.iter().map(|row| {
        let entry = PyDict::new(py);
        let texts = [
            ("row", row.name),
            ("case", row.case),
            ("scenario", row.scenario),
            ("srt", row.srt),
            ("rist", row.rist),
            ("srtla", row.srtla),
            ("noq", row.noq),
        ];
        for (name, text) in texts {
            entry.set_item(name, text)?;
        }
        Ok(entry)
    });
    Ok((rows.collect::<PyResult<_>>()?, BAR_SPAN.as_secs_f64()))
}
