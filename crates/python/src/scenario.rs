//! Scenarios, read and checked.

use std::sync::Arc;

use anabranch_controllers::Controller;
use anabranch_core::control::RateKind;
use anabranch_core::scheduler::SchedulerFactory;
use anabranch_lab::{Algorithms, Point, merged_text, network_text};
use pyo3::prelude::*;
use serde_json::json;

use crate::controller::{self, PyController};
use crate::errors;
use crate::scheduler::PyScheduler;
use crate::settings::SettingColumn;

/// A setting's column: its name, and its number or its text.
type PlainSetting = (String, Option<f64>, Option<String>);

/// A scenario at every point of its sweep.
#[pyclass(frozen, module = "anabranch._native")]
#[derive(Debug)]
pub(crate) struct NativeScenario {
    pub(crate) points: Vec<Point>,
    pub(crate) settings: Vec<Vec<SettingColumn>>,
    /// Whether flows use algorithms in Python.
    pub(crate) has_python: bool,
}

/// Reads the text of a file called `file`, with overrides `KEY=VALUE`. `controllers` and
/// `schedulers` are names and functions without arguments, each of which makes an instance.
#[pyfunction]
pub(crate) fn parse(
    py: Python<'_>,
    file: &str,
    text: &str,
    overrides: Vec<String>,
    controllers: Vec<(String, Py<PyAny>)>,
    schedulers: Vec<(String, Py<PyAny>)>,
) -> PyResult<NativeScenario> {
    let has_python = !controllers.is_empty() || !schedulers.is_empty();
    let controllers = controllers.into_iter().map(|(name, make)| {
        let make = Arc::new(controller::Maker::new(name.clone(), make));
        Controller::new(name, RateKind::Bandwidth, move |config| {
            Box::new(PyController::start(&make, config))
        })
    });
    let schedulers = schedulers.into_iter().map(|(name, make)| {
        let make = Arc::new(controller::Maker::new(name.clone(), make));
        SchedulerFactory::new(name, move || PyScheduler::build(&make))
    });
    let algorithms = Algorithms {
        controllers: controllers.collect(),
        schedulers: schedulers.collect(),
    };
    let points = Point::parse_with(file, text, &overrides, &algorithms)
        .map_err(|error| errors::scenario(py, &error))?;
    let settings = points.iter().map(|point| {
        let settings = point.settings.iter();
        settings.map(SettingColumn::of).collect()
    });
    Ok(NativeScenario {
        settings: settings.collect(),
        points,
        has_python,
    })
}

/// Returns the text as one TOML file, its base and the overrides merged.
#[pyfunction]
pub(crate) fn merged_toml(
    py: Python<'_>,
    file: &str,
    text: &str,
    overrides: Vec<String>,
) -> PyResult<String> {
    merged_text(file, text, &overrides).map_err(|error| errors::scenario(py, &error))
}

/// Returns the network of the text as a scenario that the emulator reads from any folder, and the
/// overrides that name its traces.
#[pyfunction]
pub(crate) fn network_toml(
    py: Python<'_>,
    file: &str,
    text: &str,
    overrides: Vec<String>,
) -> PyResult<(String, Vec<String>)> {
    let network =
        network_text(file, text, &overrides).map_err(|error| errors::scenario(py, &error))?;
    Ok((network.text, network.overrides))
}

/// Returns the text of a file, as the program reads scenarios: up to a length.
#[pyfunction]
pub(crate) fn schema() -> String {
    anabranch_lab::schema()
}

#[pymethods]
impl NativeScenario {
    /// Returns a description of the first point in JSON, for pictures and lists of names.
    fn describe(&self) -> String {
        let scenario = &self.points[0].scenario;
        let links = scenario.links.iter().map(|link| {
            json!({
                "name": link.name,
                "rate_bps": link.config.rate.map(|rate| rate.bits_per_second()),
                "delay_ms": link.config.delay.as_millis_f64(),
            })
        });
        let routes = scenario.routes.iter().map(|route| {
            let [forward, reverse] = [&route.forward, &route.reverse].map(|links| {
                let names = links.iter().map(|link| scenario.links[*link].name.clone());
                names.collect::<Vec<_>>()
            });
            json!({ "name": route.name, "forward": forward, "reverse": reverse })
        });
        let flows = scenario.flows.iter().map(|flow| {
            let paths = flow.paths.iter();
            let routes = paths.map(|path| scenario.routes[path.route].name.clone());
            json!({
                "name": flow.name,
                "controller": flow.controller(),
                "scheduler": flow.scheduler(),
                "routes": routes.collect::<Vec<_>>(),
                "is_media": flow.media().is_some(),
            })
        });
        json!({
            "name": scenario.name,
            "title": scenario.title,
            "description": scenario.description,
            "source": scenario.source,
            "duration_s": scenario.duration.as_secs_f64(),
            "points": self.points.len(),
            "links": links.collect::<Vec<_>>(),
            "routes": routes.collect::<Vec<_>>(),
            "flows": flows.collect::<Vec<_>>(),
            "expectations": scenario.expectations.len(),
        })
        .to_string()
    }

    /// Returns the settings of each point: names of columns with numbers or texts.
    fn point_settings(&self) -> Vec<Vec<PlainSetting>> {
        self.settings
            .iter()
            .map(|columns| {
                columns
                    .iter()
                    .map(|column| (column.name.clone(), column.number, column.text.clone()))
                    .collect()
            })
            .collect()
    }
}
