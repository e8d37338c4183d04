//! Schedulers of streams over two paths, through whole simulated sessions.

use crate::only_flow::measured;

/// The schedulers that wait for a window, and the kernel's.
const ALL: [&str; 12] = [
    "bbr-earliest",
    "bbr-sticky",
    "blest",
    "ecf",
    "largest-bdp",
    "let",
    "let-delivered",
    "linux",
    "lpc",
    "spd",
    "sticky",
    "tcp-state",
];

/// Returns a stream by `cubic` over two paths, of these ms each way, with queues of a round-trip
/// time but at least 50 ms.
fn bed(near: (&str, u64), far: (&str, u64)) -> String {
    let paths = [("near", near), ("far", far)].map(|(name, (rate, delay))| {
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
    });
    let paths = paths.concat();
    format!(
        r#"duration = "40 s"
{paths}
[[flows]]
name = "transfer"
kind = "bulk"
controller = "cubic"
reinjection = "linux"
paths = ["near", "far"]
"#
    )
}

/// Returns the time of an object over both paths, relative to the better one alone.
fn slowdown(text: &str, scheduler: &str, bytes: &str, settings: &[&str]) -> f64 {
    let bytes = format!("flows.0.bytes={bytes}");
    let scheduler = format!("flows.0.scheduler={scheduler}");
    let first = [
        "flows.0.paths=[\"near\"]",
        "flows.0.paths=[\"far\"]",
        &scheduler,
    ];
    let [near, far, both] = first.map(|first| {
        let settings = [&[first, &bytes], settings].concat();
        measured(text, &settings, "transfer-time-mean")
    });
    both / near.min(far)
}

/// Returns a bed of 20 Mbit/s with a round-trip time of 20 ms, and 1 Mbit/s with 300 ms.
fn fast_and_slow() -> String {
    bed(("20 Mbit/s", 10), ("1 Mbit/s", 150))
}

#[test]
fn two_paths_of_3_mbits_carry_what_both_have() {
    let text = bed(("3 Mbit/s", 10), ("3 Mbit/s", 25));
    for name in ALL {
        let scheduler = format!("flows.0.scheduler={name}");
        let settings = [scheduler.as_str(), "statistics={ from = \"5 s\" }"];
        let share = measured(&text, &settings, "throughput") / 6e6;
        assert!(share >= 0.97, "{name}: {share}");
    }
}

#[test]
fn short_objects_take_as_long_as_alone() {
    for name in ALL {
        for bytes in ["10 kB", "30 kB", "100 kB", "300 kB"] {
            let slowdown = slowdown(&fast_and_slow(), name, bytes, &[]);
            assert!(slowdown <= 1.05, "{name} {bytes}: {slowdown}");
        }
    }
}

#[test]
fn ecf_is_never_slowed_down_by_a_slow_path() {
    for bytes in ["10 kB", "100 kB", "1 MB", "3 MB", "10 MB"] {
        let slowdown = slowdown(&fast_and_slow(), "ecf", bytes, &[]);
        assert!(slowdown <= 1.05, "{bytes}: {slowdown}");
    }
    // Of 21 Mbit/s it uses more than 20.
    assert!(slowdown(&fast_and_slow(), "ecf", "10 MB", &[]) < 0.97);
}

#[test]
fn blest_avoids_blocking_the_window() {
    for (window, bytes) in [("256 KiB", "1 MB"), ("256 KiB", "3 MB"), ("1 MiB", "3 MB")] {
        let window = format!("flows.0.receive-window={window}");
        let [blest, spd] =
            ["blest", "spd"].map(|name| slowdown(&fast_and_slow(), name, bytes, &[&window]));
        assert!(blest <= 1.05, "{window} {bytes}: {blest}");
        assert!(spd > 1.15, "{window} {bytes}: {spd}");
    }
}

// As docs/catalogue.md describes them: the last packets are on the slow path.
#[test]
fn others_give_a_slow_path_what_then_comes_last() {
    for name in ["spd", "blest", "linux"] {
        let slowdown = slowdown(&fast_and_slow(), name, "1 MB", &[]);
        assert!(slowdown > 1.2, "{name}: {slowdown}");
    }
}
