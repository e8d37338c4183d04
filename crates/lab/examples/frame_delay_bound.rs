//! Prints, scenario by scenario, the 95th percentile of the frame delay beyond the fastest path's
//! propagation, its lower bound, and the parts of such frames' delays, in milliseconds:
//!
//! `cargo run --release -p anabranch-lab --example frame_delay_bound -- scenarios/multipath/*.toml`
//!
//! `--seeds N`: medians of `N` runs; `--scheduler NAME`: in place of `min-cost`.

use std::error::Error;
use std::path::Path;

use anabranch_lab::Scenario;
use anabranch_lab::frame_bound::{FrameDelays, frame_delays, main_flow};
use anabranch_units::Duration;

struct Options {
    seed_count: u64,
    scheduler: String,
    files: Vec<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            seed_count: 1,
            scheduler: "min-cost".to_owned(),
            files: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--seeds" | "--scheduler" => {
                    let Some(value) = arguments.next() else {
                        return Err(format!("{argument} needs a value").into());
                    };
                    if argument == "--seeds" {
                        options.seed_count = value.parse()?;
                    } else {
                        options.scheduler = value;
                    }
                }
                other if other.starts_with("--") => {
                    return Err(format!("{other}: known are --seeds and --scheduler").into());
                }
                _ => options.files.push(argument),
            }
        }
        if options.files.is_empty() || options.seed_count == 0 {
            return Err("which scenarios' files, and with how many seeds?".into());
        }
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let titles = ["p95", "bound", "propagation", "queues", "sender"];
    println!(
        "{:<20}{}",
        "scenario",
        titles.map(|title| format!("{title:>13}")).concat()
    );
    for file in &options.files {
        println!("{}", row(file, &options)?);
    }
    Ok(())
}

fn row(file: &str, options: &Options) -> Result<String, Box<dyn Error>> {
    let scheduler = format!("flow-defaults.scheduler={}", options.scheduler);
    let scenario = Scenario::load(Path::new(file), &[scheduler])?;
    let flow = main_flow(&scenario).ok_or(format!("{file}: no flow carries media"))?;
    let runs: Vec<FrameDelays> = (1..=options.seed_count)
        .map(|seed| frame_delays(&scenario, flow, seed))
        .collect::<Result<_, _>>()?;
    let parts: Vec<_> = runs
        .iter()
        .filter_map(FrameDelays::parts_about_p95)
        .collect();
    let columns = [
        median(runs.iter().filter_map(FrameDelays::actual_p95)),
        median(runs.iter().filter_map(FrameDelays::bound_p95)),
        median(parts.iter().map(|parts| parts.propagation)),
        median(parts.iter().map(|parts| parts.queues)),
        median(parts.iter().map(|parts| parts.sender)),
    ];
    Ok(format!("{:<20}{}", scenario.name, columns.concat()))
}

/// Returns the median in milliseconds; a dash if there is none.
fn median(spans: impl Iterator<Item = Duration>) -> String {
    let mut millis: Vec<f64> = spans.map(Duration::as_millis_f64).collect();
    match anabranch_units::median(&mut millis) {
        Some(median) => format!("{median:>13.0}"),
        None => format!("{:>13}", "–"),
    }
}
