//! Speed of the simulator: data packets delivered per CPU-second, and peak memory.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run. For orientation, on
//! such a scenario ns-2.35 delivers about 570,000 packets per CPU-second and ns-3.48 24,000 to
//! 40,000.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_lab as lab;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;

fn seconds_of(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn cpu_seconds() -> f64 {
    seconds_of(ClockId::ProcessCPUTime)
}

/// Resets the peak of resident memory (proc(5), `clear_refs`).
fn forget_peak_memory() {
    // If this fails, the peak is that of all rounds until then.
    _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak of resident memory, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
    kibibytes.map_or(f64::NAN, |kibibytes: f64| kibibytes / 1024.0)
}

/// Runs Zhang & Lei's case 1 with overrides.
fn case_1(name: &str, overrides: &[&str]) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/zhang-delay-bbr/case-1.toml"
    );
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let scenario = lab::Scenario::load(file.as_ref(), &overrides).expect("a shipped scenario");
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| Round::run(&scenario)).collect();
    report(name, &rounds);
}

/// Returns a scenario of `flow_count` flows over as many Mbit/s, `delay` ms each way, for 10 s.
fn many_flows(flow_count: u32, delay: u32, flow: &str) -> lab::Scenario {
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
    lab::Scenario::parse("many-flows.toml", &text, &[]).expect("a scenario")
}

/// Prints the growth of the time with the number of flows. All counts take turns, and are compared
/// by their means: the best of many short rounds would be luckier than that of a few long ones.
fn compare_counts(name: &str, delay: u32, flow: &str) {
    const TURNS: usize = 2;
    const COUNTS: [(u32, usize); 3] = [(100, ROUNDS), (1_000, ROUNDS), (10_000, 1)];
    let mut rounds: [Vec<Round>; COUNTS.len()] = Default::default();
    for _ in 0..TURNS {
        for ((count, times), rounds) in COUNTS.into_iter().zip(&mut rounds) {
            let scenario = many_flows(count, delay, flow);
            rounds.extend((0..times).map(|_| Round::run(&scenario)));
        }
    }
    for ((count, _), rounds) in COUNTS.into_iter().zip(&rounds) {
        report(&format!("{count} flows, {delay} ms, {name}"), rounds);
    }
    let means = rounds.map(|rounds| {
        let seconds: f64 = rounds.iter().map(|round| round.seconds).sum();
        seconds / rounds.len() as f64
    });
    for pair in means.windows(2) {
        println!(
            "ten times the flows take {:.1} times as long",
            pair[1] / pair[0]
        );
    }
}

/// Prints the gain of two threads for one run. It compares the processor time of one thread with
/// the time of the critical thread, which carries the links as well as its share of the flows while
/// the other one waits. On a quiet machine the run takes no longer than that.
fn compare_threads(name: &str, flow: &str) {
    for count in [100, 1_000] {
        let scenario = many_flows(count, 100, flow);
        let mut seconds = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            for (seconds, threads) in seconds.iter_mut().zip([1, 2]) {
                seconds.push(critical_seconds(&scenario, threads));
            }
        }
        let [by_one, by_two] = seconds.map(|mut seconds: Vec<f64>| {
            seconds.sort_by(f64::total_cmp);
            seconds[ROUNDS / 2]
        });
        println!(
            "{count} flows, {name}: {by_one:.2} CPU-s by one thread, {by_two:.2} on the critical \
             path by two: {:.2} times as fast",
            by_one / by_two
        );
    }
}

/// Returns the busy time of the busiest thread.
fn critical_seconds(scenario: &lab::Scenario, threads: usize) -> f64 {
    let options = lab::RunOptions {
        threads,
        ..lab::RunOptions::seeds(1)
    };
    let before = cpu_seconds();
    let nanos = AtomicU64::new(0);
    // That thread reports progress, and has done nothing before.
    lab::run_outcomes(scenario, &options, &|_| {
        let seconds = seconds_of(ClockId::ThreadCPUTime);
        nanos.store((seconds * 1e9) as u64, Ordering::Relaxed);
    })
    .expect("it runs");
    let first = nanos.into_inner() as f64 / 1e9;
    let others = cpu_seconds() - before - first;
    first.max(others)
}

/// Kinds of flows of which many run.
const FLOWS: [(&str, &str); 2] = [
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
];

/// A run of a scenario.
struct Round {
    /// Processor time.
    seconds: f64,
    /// Data packets delivered.
    packets: u64,
    /// Peak of resident memory, in MiB.
    peak_memory: f64,
}

impl Round {
    fn run(scenario: &lab::Scenario) -> Round {
        let options = lab::RunOptions {
            threads: 1,
            ..lab::RunOptions::seeds(1)
        };
        forget_peak_memory();
        let start = cpu_seconds();
        let outcomes = lab::run_outcomes(scenario, &options, &|_| ()).expect("it runs");
        Round {
            seconds: cpu_seconds() - start,
            packets: outcomes[0].data_packets_delivered,
            peak_memory: peak_memory(),
        }
    }
}

/// Prints the rate of the best round, which is the least disturbed.
fn report(name: &str, rounds: &[Round]) {
    let rates = rounds
        .iter()
        .map(|round| round.packets as f64 / round.seconds);
    let best = rates.fold(0.0, f64::max);
    let peaks = rounds.iter().map(|round| round.peak_memory);
    let peak = peaks.fold(0.0, f64::max);
    println!("{name:<58} {best:>12.0} packets/CPU-s   peak {peak:>5.1} MiB");
}

fn main() {
    for (name, flow) in FLOWS {
        compare_threads(name, flow);
    }
    if std::env::args().any(|argument| argument == "threads") {
        return;
    }
    for controller in [
        "live-bbr",
        "delay-bbr-text",
        "delay-bbr",
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
        "case 1, live-bbr, ten times as long",
        &["duration=\"3000 s\""],
    );
    for (name, flow) in FLOWS {
        // A small network, and that of case 1.
        for delay in [20, 100] {
            compare_counts(name, delay, flow);
        }
    }
}
