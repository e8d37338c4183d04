//! Tests that receivers send reports as the sender's controller requests, over real sockets.
//!
//! Needs a clock: one of the worlds has real sockets.

use anabranch_lab::{RunOptions, Scenario, run_outcomes};
use anabranch_units::{Instant, Seed};

use super::run::{self, Network, Run, Sample};
use super::{ensure, twice};

const SCENARIO: &str = r#"
duration = "5 s"

[links.there]
rate = "4 Mbit/s"
delay = "25 ms"
queue = "200 ms"
loss = "0.5 %"

[links.back]
delay = "25 ms"

[routes.only]
forward = ["there"]
reverse = ["back"]

[[flows]]
name = "camera"
paths = ["only"]
source = { kind = "ideal", fps = 50, min = "300 kbit/s", max = "3 Mbit/s" }
"#;

/// Counts from the second second on.
#[derive(Debug)]
struct Counted {
    seconds: f64,
    /// Reports that left the receiver.
    reports: f64,
    reports_arrived: f64,
    packets: f64,
    lost: f64,
    /// Sum of time divided by smoothed round-trip time.
    round_trips: f64,
}

fn counted(run: &Run) -> Counted {
    let first = run.sample_at(Instant::from_secs(2));
    let last = run.samples.last().expect("a sample");
    let since = |count: fn(&Sample) -> u64| (count(last) - count(first)) as f64;
    let pairs = run.samples.windows(2).filter(|pair| pair[0].at >= first.at);
    let round_trips = pairs.map(|pair| {
        let rtt = pair[0].sender.paths[0].view.rtt.smoothed.expect("known");
        (pair[1].at - pair[0].at).as_secs_f64() / rtt.as_secs_f64()
    });
    Counted {
        seconds: (last.at - first.at).as_secs_f64(),
        reports: since(|look| look.receiver.paths[0].counters.control_packets),
        reports_arrived: since(|look| look.sender.paths[0].counters.received_packets),
        packets: since(|look| look.receiver.paths[0].counters.received_packets),
        lost: since(|look| look.sender.paths[0].counters.lost_packets),
        round_trips: round_trips.sum(),
    }
}

fn scenario(controller: &str) -> Scenario {
    let setting = format!("flows.0.controller={controller}");
    Scenario::parse("feedback.toml", SCENARIO, &[setting]).expect("it is a scenario")
}

/// Checks that frames arrive at the simulator's rate for the same links, whatever the controller's
/// rate is. Random losses differ, so the rate may be within the range of four seeds, and 30 %
/// beyond.
fn check_media(controller: &str, scenario: &Scenario, run: &Run) -> Result<(), String> {
    let outcomes = run_outcomes(scenario, &RunOptions::seeds(4), &|_| {}).expect("it can be run");
    let flows = outcomes.iter().map(|outcome| &outcome.statistics.flows[0]);
    let rates = flows
        .clone()
        .map(|flow| flow.traffic.throughput_bits_per_second);
    let (least, most) = rates.fold((f64::MAX, 0.0_f64), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    });
    let last = run.samples.last().expect("a sample");
    let bits = last.receiver.paths[0].counters.received_bytes as f64 * 8.0;
    let rate = bits / scenario.duration.as_secs_f64();
    ensure(
        (0.7 * least..=1.3 * most).contains(&rate),
        format_args!("{controller}: {rate} bit/s, simulated {least} to {most}"),
    )?;
    let simulated = flows.map(|flow| flow.frames.complete).min().expect("four");
    let complete = run.in_time_count as f64;
    ensure(
        complete >= 0.9 * simulated as f64,
        format_args!("{controller}: {complete} frames complete, simulated {simulated}"),
    )
}

/// Minimum and maximum number of reports for these counts.
type Expected = fn(&Counted) -> (f64, f64);

fn check(controller: &str, expected: Expected) -> Result<(), String> {
    let scenario = scenario(controller);
    let run = run::run(&scenario, Network::Emulated, Seed(1));
    let counted = counted(&run);
    let (least, most) = expected(&counted);
    let message = format!("{controller}: {counted:?}, expected {least} to {most} reports");
    ensure((least..=most).contains(&counted.reports), &message)?;
    // The way back loses nothing; some reports are in flight when the counters are read.
    let missing = (counted.reports - counted.reports_arrived).abs();
    ensure(missing <= 5.0 + 0.05 * counted.reports, &message)?;
    check_media(controller, &scenario, &run)
}

/// Expects one report per smoothed round-trip time, and another for each gap. The sender does not
/// announce changes below an eighth; a report is some milliseconds late on a busy machine.
fn once_per_round_trip(counted: &Counted) -> (f64, f64) {
    let round_trips = counted.round_trips;
    (
        0.75 * round_trips,
        8.0 / 7.0 * round_trips + counted.lost + 3.0,
    )
}

/// Expects one report per 100 ms, independently of losses.
fn ten_a_second(counted: &Counted) -> (f64, f64) {
    (8.0 * counted.seconds, 10.0 * counted.seconds + 2.0)
}

/// Expects a report at most 8 packets, and at most 10 ms, after a packet. That is at least one for
/// nearly each of 50 frames a second, which arrive 20 ms apart.
fn eight_packets_or_ten_milliseconds(counted: &Counted) -> (f64, f64) {
    let by_count = counted.packets / 8.0;
    let by_time = counted.seconds / 0.010;
    (
        by_count.max(40.0 * counted.seconds),
        by_count + by_time + counted.lost,
    )
}

#[test]
fn receivers_follow_the_schedule_that_the_controller_asks_for() {
    let checks: [(&str, Expected); 4] = [
        ("tfrc", once_per_round_trip),
        ("arc", once_per_round_trip),
        ("gcc", ten_a_second),
        ("live-bbr", eight_packets_or_ten_milliseconds),
    ];
    std::thread::scope(|scope| {
        for (controller, expected) in checks {
            scope.spawn(move || twice(|| check(controller, expected)));
        }
    });
}

#[test]
fn ecn_marks_of_emulation_reach_the_controller() {
    let settings = [
        "flows.0.controller=cubic",
        "flows.0.ecn=true",
        "links.there.discipline={ kind = \"codel\", ecn = true }",
        "links.there.rate=2 Mbit/s",
        "links.there.loss=0 %",
    ];
    let scenario = Scenario::parse("ecn.toml", SCENARIO, &settings.map(str::to_owned))
        .expect("it is a scenario");
    twice(|| {
        let run = run::run(&scenario, Network::Emulated, Seed(1));
        let link = &run.links[0].forward.link;
        let last = run.samples.last().expect("a sample");
        let counters = &last.sender.paths[0].counters;
        let (marked, heard) = (link.queue.marked_packets, counters.marked_packets);
        let message = format!("{marked} marked, {heard} heard of, {counters:?}");
        ensure(marked >= 3, &message)?;
        // The link's marks are counted after the session has drained, the controller's before.
        ensure(heard <= marked && heard + 10 >= marked, &message)?;
        ensure(link.dropped.total() == 0, &message)?;
        check_media("cubic", &scenario, &run)
    });
}
