//! A scheduler of one's own in the laboratory: the program of `docs/tutorial/scheduler.md`.
//!
//! `cargo run --example thrifty`, with the feature `laboratory`.

use std::error::Error;

use anabranch::laboratory::{Algorithms, Point, RunOptions, run};
use anabranch::scheduler::{OneByOne, PacketView, PathCost, SchedulerFactory, transfer_cost};
use anabranch::units::{Duration, Instant};
use anabranch::{PathId, PathView};

/// Uses Wi-Fi, and LTE only for packets that Wi-Fi would deliver 50 ms later.
#[derive(Debug)]
struct Thrifty;

impl PathCost for Thrifty {
    fn cost(&mut self, _now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        let is_wifi = path.id == PathId(0);
        let price = Duration::from_millis(if is_wifi { 0 } else { 50 });
        transfer_cost(path, packet.bytes.into()) + price
    }
}

fn thrifty() -> SchedulerFactory {
    SchedulerFactory::new("thrifty", || Box::new(OneByOne::new(Thrifty)))
}

const SCENARIO: &str = r#"
duration = "60 s"

[links.wifi]
rate = "3 Mbit/s"
delay = "20 ms"
queue = "300 ms"
outages = [{ at = "20 s", for = "5 s" }]

[links.lte]
rate = "4 Mbit/s"
delay = "25 ms"
queue = "300 ms"

[links.back]
delay = "20 ms"

[routes.wifi]
forward = ["wifi"]
reverse = ["back"]

[routes.lte]
forward = ["lte"]
reverse = ["back"]

[[flows]]
name = "camera"
paths = ["wifi", "lte"]
source = { kind = "gop", fps = 25, min = "300 kbit/s", max = "2 Mbit/s" }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let algorithms = Algorithms {
        schedulers: vec![thrifty()],
        ..Algorithms::default()
    };
    for name in ["min-cost", "thrifty"] {
        let setting = format!("flows.0.scheduler={name}");
        let points = Point::parse_with("place.toml", SCENARIO, &[setting], &algorithms)?;
        let report = run(&points[0].scenario, &RunOptions::seeds(5), &|_progress| ())?;
        let median = |metric: &str, subject: &str| {
            let mut all = report.summary.iter();
            let found =
                all.find(|it| it.metric == metric && it.subject.as_deref() == Some(subject));
            found.map_or(f64::NAN, |it| it.spread.median)
        };
        println!(
            "{name}: {:.1} % of frames in time, {:.2} Mbit/s over LTE",
            100.0 * median("frames-decodable-on-time", "camera"),
            1e-6 * median("link-throughput", "lte"),
        );
    }
    Ok(())
}
