//! The native module of the Python package `anabranch`: the laboratory, without Python's comforts.
//!
//! `python/anabranch/` is the package that users see. It checks and converts arguments, and calls
//! this module, whose functions take and return plain values. Tables pass in Arrow's format.

mod bound;
mod builder;
mod columns;
mod contest;
mod contract;
mod controller;
mod env;
mod errors;
mod failures;
mod feedback;
mod meanings;
mod measured;
mod names;
mod papers;
mod recording;
mod rows;
mod runs;
mod scenario;
mod scheduler;
mod settings;
mod table;

use pyo3::prelude::*;

/// The native module; `anabranch/_native.pyi` has its types.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", measured::VERSION)?;
    module.add_class::<table::NativeTable>()?;
    module.add_class::<scenario::NativeScenario>()?;
    module.add_class::<runs::NativeRuns>()?;
    module.add_class::<env::NativeEpisodes>()?;
    module.add_class::<controller::Control>()?;
    module.add_class::<feedback::NativeConfig>()?;
    module.add_class::<feedback::NativeFeedback>()?;
    module.add_class::<feedback::NativePackets>()?;
    module.add_class::<scheduler::NativePacket>()?;
    module.add_class::<scheduler::NativePath>()?;
    module.add_function(wrap_pyfunction!(scenario::parse, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::merged_toml, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::network_toml, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::schema, module)?)?;
    module.add_function(wrap_pyfunction!(rows::read_rows, module)?)?;
    module.add_function(wrap_pyfunction!(runs::run, module)?)?;
    module.add_function(wrap_pyfunction!(env::episode_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(bound::frame_delays, module)?)?;
    module.add_function(wrap_pyfunction!(papers::claims, module)?)?;
    module.add_function(wrap_pyfunction!(papers::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(papers::study_seconds, module)?)?;
    module.add_function(wrap_pyfunction!(contest::contest_rows, module)?)?;
    module.add_function(wrap_pyfunction!(contract::check_controller_steps, module)?)?;
    module.add_function(wrap_pyfunction!(contract::check_scheduler_steps, module)?)?;
    module.add_function(wrap_pyfunction!(names::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(names::schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(names::metrics, module)?)?;
    module.add_function(wrap_pyfunction!(names::columns_table, module)?)?;
    module.add_function(wrap_pyfunction!(names::table_names, module)?)?;
    module.add_function(wrap_pyfunction!(names::trace_names, module)?)?;
    module.add_function(wrap_pyfunction!(names::nearest_name, module)?)?;
    Ok(())
}
