//! Instructions and cache misses per data packet, counted by valgrind.
//!
//! Counts hardly depend on the machine or on its load. The same scenario runs for a short and a
//! long time; the difference between both runs excludes the cost of starting. The simulated caches
//! hold 32 KiB each of instructions and data, and 1 MiB behind them.
//!
//! On case 1 with three streams of TCP, ns-2.35 executes about 9,300 instructions a packet.

use std::process::Command;

use anabranch_lab as lab;

/// A scenario of which instructions and misses are counted.
struct Case {
    name: &'static str,
    /// Simulated seconds of the short and the long run.
    seconds: [u64; 2],
    /// Bars, if any: instructions per packet, and misses of the instruction cache per packet.
    bars: [Option<f64>; 2],
}

const CASES: [Case; 5] = [
    Case {
        name: "case 1, live-bbr",
        seconds: [100, 200],
        bars: [Some(5_500.0), Some(90.0)],
    },
    Case {
        name: "3 cubic streams",
        seconds: [50, 200],
        bars: [Some(4_500.0), None],
    },
    Case {
        name: "1000 cubic streams",
        seconds: [5, 8],
        bars: [None, None],
    },
    Case {
        name: "3 fixed media",
        seconds: [50, 200],
        bars: [None, None],
    },
    Case {
        name: "1000 fixed media",
        seconds: [5, 8],
        bars: [None, None],
    },
];

/// Counts of a run, or per packet of it.
#[derive(Clone, Copy, Debug)]
struct Cost {
    packets: f64,
    instructions: f64,
    instruction_misses: f64,
    data_misses: f64,
    /// Misses of instructions and data in the second-level cache.
    memory_misses: f64,
}

fn scenario(name: &str, seconds: u64) -> lab::Scenario {
    let duration = format!("duration=\"{seconds} s\"");
    if name.starts_with("case 1") {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../scenarios/zhang-delay-bbr/case-1.toml"
        );
        // All flows from the beginning, so that short runs resemble long ones.
        let overrides = [
            duration,
            "expect={}".to_owned(),
            "flows.0.stagger=\"1 s\"".to_owned(),
        ];
        return lab::Scenario::load(file.as_ref(), &overrides).expect("a shipped scenario");
    }
    let (count, _) = name.split_once(' ').expect("a count of flows");
    let flow = if name.ends_with("streams") {
        r#"kind = "bulk"
            controller = "cubic""#
    } else {
        r#"controller = "fixed"
            fixed-rate = "950 kbit/s"
            source = { kind = "cbr", fps = 25, rate = "500 kbit/s" }
            padding = "always""#
    };
    let text = format!(
        r#"
        duration = "10 s"
        [links.bottleneck]
        rate = "{count} Mbit/s"
        delay = "100 ms"
        queue = "40 ms"
        [links.return]
        delay = "100 ms"
        [routes.path]
        forward = ["bottleneck"]
        reverse = ["return"]
        [[flows]]
        count = {count}
        paths = ["path"]
        start-jitter = "1 s"
        {flow}
        "#
    );
    lab::Scenario::parse("flows.toml", &text, &[duration]).expect("a scenario")
}

/// Simulates, and prints the number of delivered data packets.
fn simulate(name: &str, seconds: u64, threads: usize) {
    let options = lab::RunOptions {
        threads,
        ..lab::RunOptions::seeds(1)
    };
    let scenario = scenario(name, seconds);
    let outcomes = lab::run_outcomes(&scenario, &options, &|_| ()).expect("it runs");
    println!("{}", outcomes[0].data_packets_delivered);
}

/// Runs a case under valgrind; `None`: there is no valgrind.
fn count(name: &str, seconds: u64) -> Option<Cost> {
    fn value(label: &str, counts: &str) -> f64 {
        let line = counts.lines().find(|line| line.contains(label));
        let value = line
            .and_then(|line| line.split(label).nth(1))
            .and_then(|rest| rest.split_whitespace().next());
        value.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
    }

    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes"])
        .args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"])
        .arg("--cachegrind-out-file=/dev/null")
        .arg(program)
        .args(["--simulate", name, &seconds.to_string(), "1"])
        .output()
        .ok()?;
    let [result, counts] = [output.stdout, output.stderr].map(|bytes| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.replace(',', "")
    });
    Some(Cost {
        packets: result.trim().parse().unwrap_or(f64::NAN),
        instructions: value("I   refs:", &counts),
        instruction_misses: value("I1  misses:", &counts),
        data_misses: value("D1  misses:", &counts),
        memory_misses: value("LL misses:", &counts),
    })
}

impl Cost {
    /// Returns the counts per packet by which `self` exceeds `short`.
    fn per_packet(self, short: Cost) -> Cost {
        let packets = self.packets - short.packets;
        Cost {
            packets,
            instructions: (self.instructions - short.instructions) / packets,
            instruction_misses: (self.instruction_misses - short.instruction_misses) / packets,
            data_misses: (self.data_misses - short.data_misses) / packets,
            memory_misses: (self.memory_misses - short.memory_misses) / packets,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, option, name, seconds, threads] = &arguments[..]
        && option == "--simulate"
    {
        let threads = threads.parse().expect("a count of threads");
        return simulate(name, seconds.parse().expect("seconds"), threads);
    }
    println!("a data packet costs (by valgrind)  instructions  I1 misses  D1 misses  LL misses");
    println!("{:<33} {:>13}", "TCP in ns-2.35", 9_300);
    for case in &CASES {
        let [short, long] = case.seconds.map(|seconds| count(case.name, seconds));
        let (Some(short), Some(long)) = (short, long) else {
            println!("not counted: valgrind is missing (Debian: apt-get install valgrind)");
            return;
        };
        let cost = long.per_packet(short);
        println!(
            "{:<33} {:>13.0} {:>10.1} {:>10.1} {:>10.1}",
            case.name,
            cost.instructions,
            cost.instruction_misses,
            cost.data_misses,
            cost.memory_misses
        );
        if let Some(bar) = case.bars[0] {
            let misses = case.bars[1].map_or(String::new(), |bar| format!("{bar:>11.0}"));
            println!("{:<33} {bar:>13.0}{misses}", "  at most");
        }
    }
}
