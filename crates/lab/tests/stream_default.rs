//! The default scheduler of streams over several paths, through whole simulated sessions.

use crate::only_flow::{measured, scenario};

/// Returns a stream over two paths, of these rates and ms each way, with queues of a round-trip
/// time but at least 50 ms.
fn bed(controller: &str, near: (&str, u64), far: (&str, u64)) -> String {
    let paths = [("near", near), ("far", far)].map(|(name, (rate, delay))| {
        let queue = (2 * delay).max(50);
        format!(
            r#"
[links.{name}]
rate = "{rate}"
delay = "{delay} ms"
queue = "{queue} ms"
[links.{name}-return]
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
controller = "{controller}"
paths = ["near", "far"]
"#
    )
}

/// Returns the time of an object over both paths, relative to the better one alone.
fn slowdown(text: &str, bytes: &str) -> f64 {
    let bytes = format!("flows.0.bytes={bytes}");
    let [near, far, both] = ["\"near\"", "\"far\"", "\"near\", \"far\""].map(|paths| {
        let paths = format!("flows.0.paths=[{paths}]");
        measured(text, &[&paths, &bytes], "transfer-time-mean")
    });
    both / near.min(far)
}

#[test]
fn it_is_for_streams_over_several_paths_where_none_is_named() {
    let text = bed("cubic", ("3 Mbit/s", 10), ("3 Mbit/s", 25));
    for (settings, expected) in [
        (&[][..], "earliest-completion"),
        (&["flows.0.scheduler=spd"], "spd"),
        (&["flows.0.kind=media"], "min-cost"),
        // One path leaves nothing to choose.
        (&["flows.0.paths=[\"near\"]"], "min-cost"),
    ] {
        let scenario = scenario(&text, settings);
        assert_eq!(scenario.flows[0].scheduler(), expected, "{settings:?}");
    }
}

#[test]
fn two_paths_of_3_mbits_carry_what_both_have() {
    for controller in ["cubic", "bbr-linux"] {
        let text = bed(controller, ("3 Mbit/s", 10), ("3 Mbit/s", 10));
        let settings = ["statistics={ from = \"5 s\" }"];
        let share = measured(&text, &settings, "throughput") / 6e6;
        assert!(share >= 0.97, "{controller}: {share}");
    }
}

#[test]
fn a_slow_path_never_makes_a_transfer_slower() {
    for controller in ["cubic", "bbr-linux", "bbr3"] {
        for far in [("1 Mbit/s", 150), ("5 Mbit/s", 50)] {
            let text = bed(controller, ("20 Mbit/s", 10), far);
            for bytes in ["10 kB", "100 kB", "300 kB", "1 MB", "10 MB"] {
                let slowdown = slowdown(&text, bytes);
                assert!(slowdown <= 1.05, "{controller} {far:?} {bytes}: {slowdown}");
            }
        }
    }
}

#[test]
fn a_far_path_that_carries_more_is_not_kept_waiting_for_the_near_one() {
    for controller in ["cubic", "bbr-linux"] {
        let text = bed(controller, ("5 Mbit/s", 10), ("20 Mbit/s", 75));
        let slowdown = slowdown(&text, "10 MB");
        assert!(slowdown <= 1.0, "{controller}: {slowdown}");
    }
}
