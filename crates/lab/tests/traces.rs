//! The shipped traces agree with their README.

use std::path::Path;

#[path = "../examples/cellular_traces/cell.rs"]
mod cell;

use anabranch_link::Trace;

fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn lines(times: impl IntoIterator<Item = u64>) -> String {
    times.into_iter().map(|time| format!("{time}\n")).collect()
}

fn mean_rate(name: &str) -> f64 {
    let trace: Trace = shipped(name).parse().unwrap();
    trace.mean_rate().megabits_per_second()
}

/// Returns a triangle between 1000, at multiples of the period, and -1000.
fn triangle(time: i64, period: i64) -> i64 {
    (4_000 * time.rem_euclid(period) / period - 2_000).abs() - 1_000
}

fn cellular() -> Vec<u64> {
    let mut earned_bits = 0;
    let mut times = Vec::new();
    for time in 1..=20_000 {
        let slow = (2_000 * triangle(time, 10_000)).div_euclid(1_000);
        let fast = (1_200 * triangle(time, 1_300)).div_euclid(1_000);
        if !(12_000..12_600).contains(&time) {
            earned_bits += 3_500 + slow + fast;
        }
        while earned_bits >= 12_032 {
            earned_bits -= 12_032;
            times.push(time as u64);
        }
    }
    times
}

/// Returns a Gauss-Markov process in steps of 100 ms.
fn gauss_markov(mean: i64, most: i64, mut state: i64) -> Vec<u64> {
    let (mut rate, mut earned_bits) = (mean, 0);
    let mut times = Vec::new();
    for time in 1..=20_000 {
        if time % 100 == 1 {
            state = (1_103_515_245 * state + 12_345) % (1 << 31);
            let noise = (state >> 16) % (2 * most + 1) - most;
            rate = (mean + (15 * (rate - mean)).div_euclid(16) + noise).max(200);
        }
        earned_bits += rate;
        while earned_bits >= 12_032 {
            earned_bits -= 12_032;
            times.push(time);
        }
    }
    times
}

#[test]
fn shipped_traces_are_what_their_formulas_give() {
    assert_eq!(shipped("constant-12-mbit.trace"), lines([1]));
    assert_eq!(shipped("wifi-aggregates.trace"), lines([5; 8]));
    assert_eq!(shipped("cellular.trace"), lines(cellular()));
    assert_eq!(shipped("walking.trace"), lines(gauss_markov(3_000, 700, 1)));
    assert_eq!(
        shipped("driving.trace"),
        lines(gauss_markov(2_500, 1_100, 2))
    );
}

#[test]
fn shipped_traces_have_the_rates_of_the_readme() {
    for (name, rate) in [
        ("constant-12-mbit.trace", 12.032),
        ("wifi-aggregates.trace", 19.251),
        ("cellular.trace", 3.415),
        ("walking.trace", 2.627),
        ("driving.trace", 2.226),
    ] {
        assert!((mean_rate(name) - rate).abs() < 0.001, "{name}");
    }
}

#[test]
fn traces_of_cells_are_what_their_model_gives() {
    for cell in cell::TRACES {
        let name = format!("{}.trace", cell.name);
        assert!(
            shipped(&name) == lines(cell.trace()),
            "{name}: run the example `cellular_traces`"
        );
        let row = format!("| `{name}` |");
        let readme = shipped("README.md");
        let row = readme.lines().find(|line| line.starts_with(&row));
        let rate = format!("| {:.2} Mbit/s |", mean_rate(&name));
        assert!(
            row.is_some_and(|row| row.ends_with(&rate)),
            "{name}: {rate}"
        );
    }
}

#[test]
fn more_users_and_worse_coverage_leave_less_of_a_cell() {
    for names in [
        ["lte-2.1-down-3.5", "lte-2.1-down-7.0", "lte-2.1-down-10.5"],
        ["lte-2.1-up-4.2", "lte-2.1-up-5.6", "lte-2.1-up-7.0"],
        ["lte-2.1-down-3.5", "lte-2.2-down-3.5", "lte-2.2-down-7.0"],
        ["lte-2.1-up-7.0", "lte-2.2-up-0.7", "lte-2.2-up-2.1"],
    ] {
        let rates = names.map(|name| mean_rate(&format!("{name}.trace")));
        assert!(
            rates[0] > rates[1] && rates[1] > rates[2],
            "{names:?}: {rates:?}"
        );
    }
}
