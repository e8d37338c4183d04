//! How fast the simulator is: data packets delivered per CPU-second, and memory at its peak.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run. For orientation, on
//! such a scenario ns-2.35 delivers about 570,000 packets per CPU-second and ns-3.48 24,000 to
//! 40,000.

use anabranch_lab as lab;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 3;

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

/// Delivered data packets per CPU-second: the best of some rounds, which is the least disturbed.
fn measure(name: &str, overrides: &[&str]) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/zhang-delay-bbr/case-1.toml"
    );
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let scenario = lab::Scenario::load(file.as_ref(), &overrides).expect("a shipped scenario");
    let options = lab::RunOptions {
        threads: 1,
        ..lab::RunOptions::seeds(1)
    };
    let rounds = (0..ROUNDS).map(|_| {
        let start = cpu_seconds();
        let outcomes = lab::run_outcomes(&scenario, &options, &|_| ()).expect("it runs");
        outcomes[0].data_packets_delivered as f64 / (cpu_seconds() - start)
    });
    let best = rounds.fold(0.0, f64::max);
    println!(
        "{name:<44} {best:>12.0} packets/CPU-s   peak {:>5.1} MiB",
        peak_memory()
    );
}

fn main() {
    for controller in [
        "delay-bbr",
        "delay-bbr-text",
        "delay-bbr-v5",
        "new-reno",
        "fixed",
    ] {
        let set = format!("flow-defaults.controller=\"{controller}\"");
        measure(
            &format!("case 1, {controller}, feedback every packet"),
            &[&set],
        );
    }
    measure(
        "case 1, delay-bbr, its own feedback",
        &["flow-defaults.feedback=\"controller\""],
    );
    measure(
        "case 1, delay-bbr, ten times as long",
        &["duration=\"3000 s\""],
    );
}
