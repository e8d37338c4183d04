//! `run --runtime`: beside the simulator on the rows of the contest, and its refusals.

use anabranch_lab::RunReport;
use anabranch_lab::contest::ROWS;
use anabranch_lab::metrics::PathStatistics;

use crate::laboratory;

/// Setting of every runtime, and of no row: the search for each path's MTU.
const AS_SHIPPED: &str = "flows.0.mtu-discovery=true";
/// Seeds of each row, of a minute each.
const SEEDS: &str = "3";

/// Returns the runs of a row with these options.
fn runs(name: &str, options: &[&str]) -> Vec<RunReport> {
    let row = ROWS.iter().find(|row| row.name == name).expect("a row");
    let options = [&["--format", "json", "--set", AS_SHIPPED], options].concat();
    let output = laboratory::run(&options, row.scenario);
    let notes = String::from_utf8_lossy(&output.stderr);
    let mut report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{notes}"));
    serde_json::from_value(report["runs"].take()).expect("runs")
}

/// Returns the mean of a measure over the runs.
fn mean(runs: &[RunReport], measure: impl Fn(&RunReport) -> Option<f64>) -> f64 {
    let values = runs.iter().map(|run| measure(run).expect("a value"));
    values.sum::<f64>() / runs.len() as f64
}

/// Returns the first path's share of the sent bytes.
fn first_share(run: &RunReport) -> Option<f64> {
    fn sent(path: &PathStatistics) -> f64 {
        path.traffic.sent_bits_per_second
    }

    let paths = &run.statistics.flows[0].paths;
    Some(sent(&paths[0]) / paths.iter().map(sent).sum::<f64>())
}

/// A measure of a row, and the range of its difference, the runtime's value minus the simulator's.
struct Compared {
    name: &'static str,
    measure: fn(&RunReport) -> Option<f64>,
    range: [f64; 2],
}

/// Random losses differ, as the handshake draws from the links' random numbers too.
const COMPARED: [Compared; 5] = [
    // Row 3 loses up to 1 % of the frames. Its seeds differ by half of that.
    Compared {
        name: "frames on time",
        measure: |run| run.statistics.total.frames.complete_on_time_ratio,
        range: [-0.005, 0.005],
    },
    // In row 3, each lost frame costs up to two seconds. Its seeds differ by 8 %.
    Compared {
        name: "decodable on time",
        measure: |run| run.statistics.total.frames.decodable_on_time_ratio,
        range: [-0.08, 0.08],
    },
    // Packets carry the times of sending: 0.25 to 0.3 % of their bytes. The seeds of row 2 differ
    // by 0.6 %.
    Compared {
        name: "overhead",
        measure: |run| run.statistics.total.overhead_ratio,
        range: [-0.006, 0.012],
    },
    // The encoder of row 6a follows the paths, and its seeds differ by 1.5 %.
    Compared {
        name: "goodput, Mbit/s",
        measure: |run| Some(run.statistics.total.goodput_bits_per_second / 1e6),
        range: [-0.06, 0.06],
    },
    // The estimates of paths that are not filled stay as the first second leaves them. In the
    // simulator the first packets are frames, in the runtime the handshake's questions before them:
    // in row 8, the modem has 15 % of the bytes in the simulator, and 11 % in the runtime.
    Compared {
        name: "first path's share",
        measure: first_share,
        range: [-0.05, 0.05],
    },
];

#[test]
fn simulator_and_runtime_agree_on_the_rows_of_the_contest() {
    let mut mistakes = Vec::new();
    for of in &ROWS {
        let simulated = runs(of.name, &["--seeds", SEEDS]);
        let shipped = runs(of.name, &["--seeds", SEEDS, "--runtime"]);
        for compared in &COMPARED {
            let values = [&simulated, &shipped].map(|runs| mean(runs, compared.measure));
            let difference = values[1] - values[0];
            let [least, most] = compared.range;
            let line = format!(
                "row {}, {}: simulated {:.4}, runtime {:.4}, difference {difference:+.4}",
                of.name, compared.name, values[0], values[1]
            );
            println!("{line}");
            if !(least..=most).contains(&difference) {
                mistakes.push(line);
            }
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

const NETWORK: &str = r#"
duration = "2 s"
links.up = { rate = "4 Mbit/s", delay = "20 ms" }
links.down = { delay = "20 ms" }
links.more = { delay = "1 ms" }
routes.only = { forward = ["up"], reverse = ["down"] }
routes.same = { forward = ["up"], reverse = ["more"] }
routes.long = { forward = ["up", "more"], reverse = ["down"] }
"#;

#[test]
fn a_part_that_the_runtime_does_not_carry_is_named_with_a_remedy() {
    let camera = "[[flows]]\nname = \"camera\"\npaths = [\"only\"]\n";
    let download = "[[flows]]\nname = \"download\"\nkind = \"bulk\"\npaths = [\"only\"]\n";
    let noise =
        "[[flows]]\nname = \"noise\"\nkind = \"cbr\"\nrate = \"100 kbit/s\"\npaths = [\"only\"]\n";
    let second = "[[flows]]\nname = \"second\"\npaths = [\"only\"]\n";
    for (flows, part) in [
        (download.to_owned(), "\"download\""),
        (format!("{camera}{noise}"), "\"noise\""),
        (format!("{camera}{second}"), "\"second\""),
        (format!("{camera}scheduler = \"oracle\"\n"), "oracle"),
        (camera.replace("only", "long"), "\"long\""),
        (
            camera.replace("[\"only\"]", "[\"only\", \"same\"]"),
            "\"same\"",
        ),
    ] {
        let output = laboratory::run(&["--runtime"], &format!("{NETWORK}{flows}"));
        let refusal = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{refusal}");
        assert!(refusal.contains(part), "{refusal}");
        assert!(refusal.contains("without --runtime"), "{refusal}");
    }
}

#[test]
fn a_run_beyond_its_limits_ends_and_names_the_limit() {
    let camera = "[[flows]]\npaths = [\"only\"]\n";
    for (set, words) in [
        ("limits.steps=2000", "more than 2000 steps"),
        (
            "limits.packets-in-flight=2",
            "more than 2 packets in flight",
        ),
    ] {
        let options = ["--runtime", "--set", set];
        let output = laboratory::run(&options, &format!("{NETWORK}{camera}"));
        let refusal = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{refusal}");
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn the_same_seed_repeats_a_run_and_another_does_not() {
    let options = [
        "--runtime",
        "--seeds",
        "2",
        "--set",
        "duration=10 s",
        "--set",
        "expect={}",
    ];
    let [first, again] = [runs("2", &options), runs("2", &options)];
    assert_eq!(first, again);
    assert_ne!(first[0].trace_hash, first[1].trace_hash);
}
