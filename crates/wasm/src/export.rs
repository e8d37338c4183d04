//! Reports and files of whole runs.

use anabranch_lab::trace::CsvTexts;
use anabranch_lab::{Report, RunHooks, TraceOptions, json, plot_texts, report as report_of};
use serde_json::{Value, json};

use crate::live::Planned;
use crate::request::{Experiment, Export, Failure};

/// Returns the report of a run.
pub(crate) fn report(experiment: &Experiment) -> Result<Value, Failure> {
    Ok(json!(run(experiment, RunHooks::default())?))
}

/// Returns the files of a run: names and texts.
pub(crate) fn export(experiment: &Experiment, what: Export) -> Result<Value, Failure> {
    let files = match what {
        Export::Json => {
            let report = run(experiment, RunHooks::default())?;
            vec![("report.json", json(&report))]
        }
        Export::Csv => texts(experiment)?,
        Export::Svg => {
            let picture = plot_texts(&texts(experiment)?).map_err(Failure::of)?;
            vec![("trace.svg", picture)]
        }
    };
    Ok(files
        .into_iter()
        .map(|(name, text)| json!({ "name": name, "text": text }))
        .collect())
}

fn texts(experiment: &Experiment) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut texts = CsvTexts::new(TraceOptions::default());
    let hooks = RunHooks {
        sink: Some(&mut texts),
        ..RunHooks::default()
    };
    run(experiment, hooks)?;
    Ok(texts.into_texts())
}

fn run(experiment: &Experiment, hooks: RunHooks<'_>) -> Result<Report, Failure> {
    let (scenario, outcome) = Planned::new(experiment, hooks)?.finish()?;
    Ok(report_of(&scenario, &[outcome]))
}
