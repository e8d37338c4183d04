//! Names that a page offers.

use anabranch_controllers::CONTROLLERS;
use anabranch_lab::metrics::{METRICS, Unit};
use anabranch_schedulers::SCHEDULERS;
use serde_json::{Value, json};

/// Returns the controllers, the schedulers and the metrics, each with its description or unit.
pub(crate) fn names() -> Value {
    let controllers = CONTROLLERS.iter().map(|entry| {
        json!({
            "name": entry.name,
            "summary": entry.summary,
            "options": entry.options.iter().map(|option| option.name).collect::<Vec<_>>(),
        })
    });
    let schedulers = SCHEDULERS
        .iter()
        .map(|entry| json!({ "name": entry.name, "summary": entry.summary }));
    let oracle = json!({
        "name": anabranch_lab::ORACLE,
        "summary": "knows the links' queues: a bound, not an algorithm",
    });
    let metrics = METRICS
        .iter()
        .map(|metric| json!({ "name": metric.name, "unit": unit(metric.unit) }));
    json!({
        "controllers": controllers.collect::<Vec<_>>(),
        "schedulers": schedulers.chain([oracle]).collect::<Vec<_>>(),
        "metrics": metrics.collect::<Vec<_>>(),
    })
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "share",
        Unit::Milliseconds => "ms",
        Unit::BitsPerSecond => "bit/s",
        Unit::Bytes => "bytes",
        Unit::Number => "",
    }
}
