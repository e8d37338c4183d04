//! The simulator for web pages: requests and answers as JSON.
//!
//! A page holds a [`Playground`] in a web worker and [calls](Playground::call) it. The crate knows
//! no file, clock, socket or thread, so that it compiles to `wasm32-unknown-unknown`; there,
//! `interface.rs` exports a playground to JavaScript. A run has the trace hash that the program
//! `anabranch-lab run` prints for the same scenario and seed. `web/playground` is the page.
//!
//! | `op` | answer |
//! |---|---|
//! | `names` | the controllers, schedulers and metrics |
//! | `schema` | the JSON schema of scenario files |
//! | `check` | the [summary] of a scenario, or its first mistake |
//! | `run` | the report of a whole run, as by `anabranch-lab run --format json` |
//! | `export` | a run's report, its tables as CSV, or its picture as SVG |
//! | `start` | the number of a live run, and the scenario's summary |
//! | `advance` | the events of a live run up to a time |
//! | `change` | the time at which a link of a live run was changed |
//! | `stop` | nothing; the live run has ended |
//!
//! [summary]: summary::Summary

mod catalogue;
mod export;
mod interface;
mod live;
mod packets;
mod picture;
mod request;
pub mod summary;

use std::collections::BTreeMap;

use anabranch_lab::schema;
use serde_json::{Value, json};

use live::Live;
use request::{Failure, Request};

/// Largest number of live runs: two side by side, while the next two start.
const MAX_RUNS: usize = 4;

/// State of a page: its live runs.
#[derive(Debug, Default)]
pub struct Playground {
    runs: BTreeMap<u32, Live>,
    /// Number of the next run.
    next: u32,
}

impl Playground {
    /// Answers a request. The answer is `{"ok": …}`, or `{"error": …}` with a `message` and, for a
    /// mistake in a scenario, its `line` and `key`. No request panics.
    ///
    /// ```
    /// use anabranch_wasm::Playground;
    ///
    /// let mut playground = Playground::default();
    /// let answer = playground.call(r#"{"op": "check", "text": "duraton = 1"}"#);
    /// assert!(answer.contains(r#""line":1"#), "{answer}");
    /// ```
    pub fn call(&mut self, request: &str) -> String {
        let request = serde_json::from_str(request).map_err(Failure::of);
        let answer = match request.and_then(|request| self.answer(request)) {
            Ok(value) => json!({ "ok": value }),
            Err(failure) => json!({ "error": failure }),
        };
        answer.to_string()
    }

    fn answer(&mut self, request: Request) -> Result<Value, Failure> {
        match request {
            Request::Names => Ok(catalogue::names()),
            Request::Schema => Ok(json!(schema())),
            Request::Check(experiment) => {
                let scenario = experiment.scenario()?;
                Ok(json!(summary::Summary::of(&scenario)))
            }
            Request::Run(experiment) => export::report(&experiment),
            Request::Export { experiment, what } => export::export(&experiment, what),
            Request::Start(experiment) => {
                if self.runs.len() >= MAX_RUNS {
                    return Err(Failure::of("there are four live runs: stop one of them"));
                }
                let live = Live::start(&experiment)?;
                let run = self.next;
                self.next += 1;
                let summary = json!(live.summary());
                self.runs.insert(run, live);
                Ok(json!({ "run": run, "summary": summary }))
            }
            Request::Advance { run, until_ms } => Ok(json!(self.run(run)?.advance(until_ms)?)),
            Request::Change { run, change } => {
                let at_ms = self.run(run)?.change(&change)?;
                Ok(json!({ "at_ms": at_ms }))
            }
            Request::Stop { run } => {
                let stopped = self.runs.remove(&run);
                Ok(json!({ "was_live": stopped.is_some() }))
            }
        }
    }

    fn run(&mut self, run: u32) -> Result<&mut Live, Failure> {
        let found = self.runs.get_mut(&run);
        found.ok_or_else(|| Failure::of(format!("there is no live run {run}: start one")))
    }
}
