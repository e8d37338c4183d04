//! One scenario by several threads: events and measurements are the same.

use anabranch_lab::{RunOptions, Scenario, run};

/// Returns flows of all kinds that meet on a bottleneck, some of them behind another link;
/// `reverse` leads back.
fn scenario(flows: &str, reverse: &str) -> Scenario {
    let text = format!(
        r#"
duration = "6 s"
[links.bottleneck]
rate = "20 Mbit/s"
delay = "30 ms"
queue = "100 ms"
loss = "1 %"
[links.tail]
rate = "8 Mbit/s"
delay = "10 ms"
queue = "50 ms"
[links.back]
delay = "25 ms"
loss = "0.5 %"
[routes.short]
forward = ["bottleneck"]
reverse = ["{reverse}"]
[routes.long]
forward = ["bottleneck", "tail"]
reverse = ["{reverse}"]
{flows}
"#
    );
    Scenario::parse("shards.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

const MEDIA: &str = r#"
[[flows]]
name = "camera"
count = 40
start-jitter = "1 s"
paths = ["short", "long"]
source = { kind = "gop", min = "100 kbit/s", max = "1 Mbit/s" }
"#;

const STREAMS: &str = r#"
[[flows]]
name = "bulk"
count = 40
start-jitter = "1 s"
kind = "bulk"
controller = "cubic"
paths = ["long"]
"#;

const NOISE: &str = r#"
[[flows]]
name = "noise"
count = 7
kind = "poisson"
rate = "300 kbit/s"
paths = ["long"]
"#;

const SHORT: &str = r#"
[[flows]]
name = "short"
count = 20
kind = "short"
loss-detection = "tcp-sack"
controller = "new-reno"
min-bytes = "5 kB"
max-bytes = "20 kB"
mean-idle = "500 ms"
paths = ["short"]
"#;

/// Returns all results of a run by `threads` threads.
fn outcome_of(scenario: &Scenario, threads: usize) -> String {
    let options = RunOptions {
        threads,
        ..RunOptions::seeds(1)
    };
    let report = run(scenario, &options, &|_| ()).unwrap();
    format!("{:?}", report.runs)
}

#[test]
fn by_any_number_of_threads_a_run_is_the_same() {
    for (flows, reverse) in [
        ([MEDIA, STREAMS, NOISE].concat(), "back"),
        // Both ends of a flow in one turn: an object ends at the receiver and begins at the sender.
        ([MEDIA, SHORT, STREAMS].concat(), "back"),
        // Both directions pass the same link.
        ([STREAMS, NOISE, MEDIA].concat(), "tail"),
    ] {
        let scenario = scenario(&flows, reverse);
        let by_one = outcome_of(&scenario, 1);
        for threads in [2, 3] {
            assert!(
                by_one == outcome_of(&scenario, threads),
                "{threads} threads"
            );
        }
    }
}

#[test]
fn oracle_runs_on_one_thread() {
    let oracle = MEDIA.replace("count = 40", "count = 60\nscheduler = \"oracle\"");
    let scenario = scenario(&oracle, "back");
    assert_eq!(outcome_of(&scenario, 1), outcome_of(&scenario, 2));
}
