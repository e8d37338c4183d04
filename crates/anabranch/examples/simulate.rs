//! Runs a scenario with three seeds and two schedulers, and prints the share of frames in time.
//!
//! `cargo run --example simulate [SCENARIO.toml]`, with the feature `laboratory`.

use std::error::Error;
use std::{env, fs};

use anabranch::laboratory::{RunOptions, Scenario, run};

/// Live video over Wi-Fi and LTE; the Wi-Fi link fails for 2 s.
const SCENARIO: &str = r#"
title = "A camera while its Wi-Fi link fails"
duration = "10 s"

[links.wifi]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "200 ms"
outages = [{ at = "4 s", for = "2 s" }]

[links.lte]
rate = "3 Mbit/s"
delay = "50 ms"
queue = "300 ms"
loss = "1 %"

[links.return]
rate = "10 Mbit/s"
delay = "30 ms"
queue = "100 ms"

[routes.wifi]
forward = ["wifi"]
reverse = ["return"]

[routes.lte]
forward = ["lte"]
reverse = ["return"]

[[flows]]
name = "camera"
paths = ["wifi", "lte"]
source = { kind = "gop", fps = 25, min = "300 kbit/s", max = "4 Mbit/s", key-interval = "2 s" }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let (name, text) = match env::args().nth(1) {
        Some(path) => (path.clone(), fs::read_to_string(path)?),
        None => ("camera.toml".to_owned(), SCENARIO.to_owned()),
    };
    for scheduler in ["min-cost", "round-robin"] {
        let setting = format!("flows.0.scheduler={scheduler}");
        let scenario = Scenario::parse(&name, &text, &[setting])?;
        let report = run(&scenario, &RunOptions::seeds(3), &|_progress| ())?;
        let metrics = report.summary.iter();
        for metric in metrics.filter(|metric| metric.metric == "frames-decodable-on-time") {
            let (name, share) = (
                metric.subject.as_deref().unwrap_or("all"),
                metric.spread.median,
            );
            println!(
                "{scheduler}: {:.1} % of {name}'s frames in time",
                share * 100.0
            );
        }
    }
    Ok(())
}
