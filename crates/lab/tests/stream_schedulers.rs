//! Schedulers of streams over two paths, through whole simulated sessions.

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{RunOptions, Scenario, run};

/// The schedulers that wait for a window, and the kernel's.
const ALL: [&str; 11] = [
    "bbr-earliest",
    "bbr-sticky",
    "blest",
    "ecf",
    "largest-bdp",
    "let",
    "linux",
    "lpc",
    "spd",
    "sticky",
    "tcp-state",
];

/// A stream by `cubic` over two paths with queues of one bandwidth-delay product or 50 ms.
fn bed(near: (&str, u64), far: (&str, u64)) -> String {
    let path = |name: &str, (rate, delay): (&str, u64)| {
        let queue = (2 * delay).max(50);
        format!(
            r#"
[links.{name}]
rate = "{rate}"
delay = "{delay} ms"
queue = "{queue} ms"
[links.{name}-return]
rate = "{rate}"
delay = "{delay} ms"
[routes.{name}]
forward = ["{name}"]
reverse = ["{name}-return"]
"#
        )
    };
    let paths = [path("near", near), path("far", far)].concat();
    format!(
        r#"duration = "40 s"
{paths}
[[flows]]
name = "transfer"
kind = "bulk"
controller = "cubic"
paths = ["near", "far"]
"#
    )
}

/// A metric of the only flow, by the first seed.
fn measured(text: &str, settings: &[&str], metric: &str) -> f64 {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("test.toml", text, &settings);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let metric = METRICS.iter().find(|known| known.name == metric).unwrap();
    let value = metric.of(&report.runs[0].statistics, Subject::Flow(0));
    value.unwrap_or(f64::INFINITY)
}

#[test]
fn two_paths_of_3_mbits_carry_what_both_have() {
    let text = bed(("3 Mbit/s", 10), ("3 Mbit/s", 25));
    for name in ALL {
        let scheduler = format!("flows.0.scheduler={name}");
        let settings = [scheduler.as_str(), "statistics={ from = \"5 s\" }"];
        let throughput = measured(&text, &settings, "throughput");
        println!("{name} {}", throughput / 6e6);
    }
}

#[test]
fn table() {
    for (near, far) in [
        (("20 Mbit/s", 10), ("1 Mbit/s", 150)),
        (("20 Mbit/s", 10), ("5 Mbit/s", 50)),
        (("5 Mbit/s", 20), ("20 Mbit/s", 150)),
        (("8 Mbit/s", 20), ("8 Mbit/s", 40)),
    ] {
        println!("{near:?} {far:?}");
        let text = bed(near, far);
        for bytes in ["100 kB", "300 kB", "1 MB", "3 MB", "10 MB"] {
            let bytes = format!("flows.0.bytes={bytes}");
            let alone = |path: &str| {
                let path = format!("flows.0.paths=[\"{path}\"]");
                measured(&text, &[&path, &bytes], "transfer-time-mean")
            };
            let alone = alone("near").min(alone("far"));
            let mut row = format!("{bytes} alone {alone:.0}:");
            for name in [
                "spd",
                "blest",
                "ecf",
                "linux",
                "lpc",
                "let",
                "sticky",
                "tcp-state",
                "bbr-earliest",
                "min-cost",
                "anabranch",
            ] {
                let scheduler = format!("flows.0.scheduler={name}");
                let took = measured(&text, &[&bytes, &scheduler], "transfer-time-mean");
                row += &format!(" {name} {:.2}", took / alone);
            }
            println!("{row}");
        }
    }
}
