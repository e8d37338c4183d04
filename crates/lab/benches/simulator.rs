//! How fast the simulator is: data packets delivered per CPU-second, and memory at its peak.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run. For orientation, on
//! such a scenario ns-2.35 delivers about 570,000 packets per CPU-second and ns-3.48 24,000 to
//! 40,000.

use anabranch_lab as lab;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that the process has had resident, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = kibibytes.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
    kibibytes.map_or(f64::NAN, |kibibytes: f64| kibibytes / 1024.0)
}

/// Zhang & Lei's case 1, changed.
fn case_1(name: &str, overrides: &[&str]) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/zhang-delay-bbr/case-1.toml"
    );
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let scenario = lab::Scenario::load(file.as_ref(), &overrides).expect("a shipped scenario");
    measure(name, &scenario, ROUNDS);
}

/// So many flows over as many Mbit/s, so many ms each way, for 10 s. Returns the CPU-seconds.
fn many_flows(name: &str, flow_count: u32, delay: u32, flow: &str) -> f64 {
    let text = format!(
        r#"
        duration = "10 s"
        [links.bottleneck]
        rate = "{flow_count} Mbit/s"
        delay = "{delay} ms"
        queue = "40 ms"
        [links.return]
        delay = "{delay} ms"
        [routes.path]
        forward = ["bottleneck"]
        reverse = ["return"]
        [[flows]]
        count = {flow_count}
        paths = ["path"]
        start-jitter = "1 s"
        {flow}
        "#
    );
    let scenario = lab::Scenario::parse("many-flows.toml", &text, &[]).expect("a scenario");
    // The more there are, the longer it takes, and the less the luck of a moment counts.
    let rounds = if flow_count > 1_000 { 2 } else { ROUNDS };
    measure(
        &format!("{flow_count} flows, {delay} ms, {name}"),
        &scenario,
        rounds,
    )
}

/// Delivered data packets per CPU-second: the best of some rounds, which is the least disturbed.
/// Returns its CPU-seconds.
fn measure(name: &str, scenario: &lab::Scenario, rounds: usize) -> f64 {
    let options = lab::RunOptions {
        threads: 1,
        ..lab::RunOptions::seeds(1)
    };
    let rounds = (0..rounds).map(|_| {
        let start = cpu_seconds();
        let outcomes = lab::run_outcomes(scenario, &options, &|_| ()).expect("it runs");
        (cpu_seconds() - start, outcomes[0].data_packets_delivered)
    });
    let (seconds, packets) = rounds.min_by(|a, b| a.0.total_cmp(&b.0)).expect("rounds");
    let best = packets as f64 / seconds;
    println!(
        "{name:<58} {best:>12.0} packets/CPU-s   peak {:>5.1} MiB",
        peak_memory()
    );
    seconds
}

fn main() {
    for controller in [
        "delay-bbr",
        "delay-bbr-text",
        "delay-bbr-v5",
        "bbr-quic",
        "bbr-linux",
        "new-reno",
        "fixed",
    ] {
        let set = format!("flow-defaults.controller=\"{controller}\"");
        case_1(
            &format!("case 1, {controller}, feedback every packet"),
            &[&set],
        );
        case_1(
            &format!("case 1, {controller}, its own feedback"),
            &[&set, "flow-defaults.feedback=\"controller\""],
        );
    }
    case_1(
        "case 1, delay-bbr, ten times as long",
        &["duration=\"3000 s\""],
    );
    for (name, flow) in [
        (
            "cubic over streams",
            r#"kind = "bulk"
            controller = "cubic""#,
        ),
        (
            "fixed, 0.95 Mbit/s of media and padding",
            r#"controller = "fixed"
            fixed-rate = "950 kbit/s"
            source = { kind = "cbr", fps = 25, rate = "500 kbit/s" }
            padding = "always""#,
        ),
    ] {
        // A small network, and that of case 1.
        for delay in [20, 100] {
            let seconds = [100, 1_000, 10_000].map(|count| many_flows(name, count, delay, flow));
            for pair in seconds.windows(2) {
                println!(
                    "ten times the flows take {:.1} times as long",
                    pair[1] / pair[0]
                );
            }
        }
    }
}
