//! Contract tests of algorithms in Python: the rules of `contract.rs` in the crates of controllers
//! and schedulers, over random steps. Each function returns the first rule that is broken.

mod controller;
mod scheduler;

use std::sync::Arc;

use anabranch_units::Seed;
use pyo3::prelude::*;

use crate::controller::Maker;
use crate::errors;
use crate::failures::take_failure;

/// Plays random steps to instances of a controller; `make` makes one. Each of `cases` has steps of
/// its own.
#[pyfunction]
pub(crate) fn check_controller_steps(
    py: Python<'_>,
    name: String,
    make: Py<PyAny>,
    cases: u64,
) -> PyResult<Option<String>> {
    let maker = Arc::new(Maker::new(name, make));
    first_broken(py, cases, |seed| controller::broken_rule(&maker, seed))
}

/// Offers random packets to instances of a scheduler; as [`check_controller_steps`].
#[pyfunction]
pub(crate) fn check_scheduler_steps(
    py: Python<'_>,
    name: String,
    make: Py<PyAny>,
    cases: u64,
) -> PyResult<Option<String>> {
    let maker = Arc::new(Maker::new(name, make));
    first_broken(py, cases, |seed| scheduler::broken_rule(&maker, seed))
}

/// Returns the first rule that is broken in any of the cases.
fn first_broken(
    py: Python<'_>,
    cases: u64,
    broken_rule: impl Fn(Seed) -> Option<String>,
) -> PyResult<Option<String>> {
    for case in 1..=cases {
        let broken = broken_rule(Seed(case));
        if let Some(failure) = take_failure() {
            return Err(errors::algorithm(py, &failure, case));
        }
        if broken.is_some() {
            return Ok(broken);
        }
    }
    Ok(None)
}
