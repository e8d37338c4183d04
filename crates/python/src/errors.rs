//! Errors as the package's exceptions, which Python defines in `anabranch/_errors.py`.

use anabranch_lab::{RunError, ScenarioError};
use pyo3::prelude::*;

/// Returns the exception `name` of the package, made of `arguments`.
fn exception<'py, A>(py: Python<'py>, name: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let made = py
        .import("anabranch._errors")
        .and_then(|module| module.getattr(name)?.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Returns the exception of a mistake in a scenario.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let text = error.to_string();
    let (place, key, message) = match error {
        ScenarioError::Read { path, source } => (
            path.display().to_string(),
            String::new(),
            source.to_string(),
        ),
        ScenarioError::Syntax {
            file,
            line,
            message,
        } => (format!("{file}:{line}"), String::new(), message.clone()),
        ScenarioError::Mistake {
            place,
            key,
            message,
        } => (place.clone(), key.clone(), message.clone()),
        _ => (String::new(), String::new(), text.clone()),
    };
    exception(py, "scenario_error", (text, place, key, message))
}

/// Returns the exception of a run that cannot be made.
pub(crate) fn run(py: Python<'_>, error: &RunError) -> PyErr {
    exception(py, "RunError", (with_causes(error),))
}

/// Returns the exception of runs that cannot be made, with this text.
pub(crate) fn text(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "RunError", (text.to_owned(),))
}

/// Returns the exception of a run that ended in a panic.
pub(crate) fn panic(py: Python<'_>, seed: u64, message: &str) -> PyErr {
    let text = format!("the simulator panicked in the run of seed {seed}: {message}");
    exception(py, "RunError", (text,))
}

/// Returns the exception of an algorithm in Python that raised `cause`.
pub(crate) fn algorithm(py: Python<'_>, failure: &Failure, seed: u64) -> PyErr {
    let arguments = (
        failure.method.clone(),
        seed,
        failure.time_s,
        failure.cause.value(py),
    );
    let error = exception(py, "algorithm_error", arguments);
    error.set_cause(py, Some(failure.cause.clone_ref(py)));
    error
}

/// Returns the exception of a name that is not known.
pub(crate) fn unknown_name(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "unknown_name", (message,))
}

/// An exception that an algorithm in Python has raised.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Name of the class and its method.
    pub(crate) method: String,
    /// Simulated time.
    pub(crate) time_s: f64,
    pub(crate) cause: PyErr,
}

/// Returns the texts of an error and its causes.
fn with_causes(error: &dyn core::error::Error) -> String {
    let causes = core::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
