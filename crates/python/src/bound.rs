//! Frame delays beside their lower bounds.

use anabranch_lab::frame_bound;
use anabranch_lab::in_parallel;
use anabranch_units::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::builder::{Builder, Kind};
use crate::errors;
use crate::scenario::NativeScenario;
use crate::table::NativeTable;

/// Name and kind of each column.
const COLUMNS: [(&str, Kind); 9] = [
    ("seed", Kind::Integer),
    ("flow", Kind::Text),
    ("captured_s", Kind::Float),
    ("actual_ms", Kind::Float),
    ("bound_ms", Kind::Float),
    ("alone_ms", Kind::Float),
    ("propagation_ms", Kind::Float),
    ("queues_ms", Kind::Float),
    ("sender_ms", Kind::Float),
];

/// Runs the first point of a scenario with every seed, and returns a row for each frame of its main
/// flow, and whether other flows share the flow's links.
#[pyfunction]
pub(crate) fn frame_delays(
    py: Python<'_>,
    scenario: &NativeScenario,
    seeds: Vec<u64>,
    threads: usize,
) -> PyResult<(NativeTable, bool)> {
    let scenario = &scenario.points[0].scenario;
    let Some(flow) = frame_bound::main_flow(scenario) else {
        return Err(PyValueError::new_err(
            "no flow of the scenario carries media",
        ));
    };
    let delays = py.detach(|| {
        in_parallel(&seeds, threads, |seed| {
            frame_bound::frame_delays(scenario, flow, *seed)
        })
    });
    let columns = COLUMNS.map(|(name, kind)| (name.to_owned(), kind));
    let mut builder = Builder::new(columns);
    let mut has_cross_traffic = false;
    for (seed, delays) in seeds.iter().zip(delays) {
        let delays = delays.map_err(|error| errors::run(py, &error))?;
        has_cross_traffic |= delays.has_cross_traffic;
        for frame in &delays.frames {
            let millis = Duration::as_millis_f64;
            let parts = frame.parts.as_ref();
            builder.push([
                (*seed).into(),
                scenario.flows[flow].name.as_str().into(),
                frame.captured_at.as_secs_f64().into(),
                millis(frame.actual).into(),
                millis(frame.bound).into(),
                millis(frame.alone).into(),
                parts.map(|parts| millis(parts.propagation)).into(),
                parts.map(|parts| millis(parts.queues)).into(),
                parts.map(|parts| millis(parts.sender)).into(),
            ]);
        }
    }
    Ok((builder.finish(), has_cross_traffic))
}
