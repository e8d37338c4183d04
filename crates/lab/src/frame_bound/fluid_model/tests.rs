//! Frames poured over hand-made networks.

use super::*;

/// Returns the basin of a flow over links `a`, `b`, … with these keys, and over routes of these
/// links.
fn model(links: &[&str], routes: &[&[&str]]) -> FluidModel {
    model_with(links, routes, &[])
}

/// Returns such a basin with other values of its keys.
fn model_with(links: &[&str], routes: &[&[&str]], overrides: &[String]) -> FluidModel {
    let mut text = String::from("duration = \"1 s\"\n[links.back]\n");
    for (name, keys) in ('a'..).zip(links) {
        text += &format!("[links.{name}]\n{keys}\n");
    }
    for (name, route) in ('a'..).zip(routes) {
        text += &format!("[routes.{name}]\nforward = {route:?}\nreverse = [\"back\"]\n");
    }
    let names = ('a'..).zip(routes).map(|(name, _)| name.to_string());
    text += &format!("[[flows]]\npaths = {:?}\n", names.collect::<Vec<_>>());
    let scenario = Scenario::parse("test.toml", &text, overrides)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    FluidModel::of(&scenario, &scenario.flows[0])
}

/// Returns the arrivals of frames, given by microsecond of capture and bytes on the wire, in
/// microseconds.
fn arrivals_of(model: FluidModel, frames: &[(u64, u64)]) -> Vec<Option<u64>> {
    let loads: Vec<Load> = frames
        .iter()
        .map(|(micros, wire_bytes)| Load {
            captured_at: Instant::from_micros(*micros),
            wire_bytes: *wire_bytes,
        })
        .collect();
    let arrivals = model.arrivals(&loads).into_iter();
    arrivals.map(|at| at.map(Instant::as_micros)).collect()
}

// At 8 Mbit/s a byte takes a microsecond.

#[test]
fn over_one_path_a_frame_takes_its_size_over_the_rate_behind_those_before_it() {
    let model = model(&["rate = \"8 Mbit/s\"\ndelay = \"20 ms\""], &[&["a"]]);
    let frames = [(0, 1_000), (10_000, 3_000), (11_000, 500), (13_500, 1)];
    let expected = [21_000, 33_000, 33_500, 33_501].map(Some);
    assert_eq!(arrivals_of(model, &frames), expected);
}

#[test]
fn over_two_paths_a_frame_fills_both_to_the_same_level() {
    fn alone(bytes: u64, model: &FluidModel) -> Option<u64> {
        arrivals_of(model.clone(), &[(0, bytes)])[0]
    }

    let links = [
        "rate = \"8 Mbit/s\"\ndelay = \"20 ms\"",
        "rate = \"4 Mbit/s\"\ndelay = \"50 ms\"",
    ];
    let model = model(&links, &[&["a"], &["b"]]);
    // (T - 20 ms) + (T - 50 ms) / 2 = 60 ms.
    assert_eq!(
        alone(60_000, &model),
        Some((60_000 + 20_000 + 25_000) * 2 / 3)
    );
    // A frame this short gains nothing from the far path.
    assert_eq!(alone(20_000, &model), Some(40_000));
}

#[test]
fn a_frame_begins_only_where_the_one_before_it_has_left() {
    let links = [
        "rate = \"8 Mbit/s\"\ndelay = \"20 ms\"",
        "rate = \"8 Mbit/s\"\ndelay = \"50 ms\"",
    ];
    let model = model(&links, &[&["a"], &["b"]]);
    // The first arrives at 60 ms: 40 kB on the near path and 10 kB on the far one, which is free
    // from 10 ms on. The second has (T - 50 ms - 15 ms) there from its capture on, and on the near
    // path, free from 40 ms on, (T - 20 ms - 40 ms).
    let both = arrivals_of(model, &[(0, 50_000), (15_000, 25_000)]);
    assert_eq!(both, [60_000, 75_000].map(Some));
}

#[test]
fn a_rate_to_come_and_an_outage_are_known() {
    let slow = "rate = \"8 Mbit/s\"\nrate-schedule = [{ at = \"5 ms\", rate = \"800 kbit/s\" }]";
    // 5 ms, and the rest at a tenth.
    let arrivals = arrivals_of(model(&[slow], &[&["a"]]), &[(0, 6_000)]);
    assert_eq!(arrivals, [Some(15_000)]);

    let out = "rate = \"8 Mbit/s\"\ndelay = \"2 ms\"\n\
               outages = [{ at = \"5 ms\", for = \"10 ms\" }]";
    // Bytes sent from 3 ms to 15 ms are lost.
    let frames = [(0, 3_000), (0, 1_000), (9_000, 500)];
    let arrivals = arrivals_of(model(&[out], &[&["a"]]), &frames);
    assert_eq!(arrivals, [5_000, 18_000, 18_500].map(Some));
}

#[test]
fn what_never_arrives_takes_nothing() {
    let gone = "rate = \"8 Mbit/s\"\nrate-schedule = [{ at = \"5 ms\", rate = \"0\" }]";
    let arrivals = arrivals_of(model(&[gone], &[&["a"]]), &[(0, 6_000), (1_000, 2_000)]);
    assert_eq!(arrivals, [None, Some(3_000)]);
}

#[test]
fn the_rest_of_an_opportunity_is_for_a_frame_that_waits() {
    fn alone(at: u64, bytes: u64, model: &FluidModel) -> Option<u64> {
        arrivals_of(model.clone(), &[(at, bytes)])[0]
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.trace");
    std::fs::write(&file, "2\n5\n").unwrap();
    let trace = format!("links.a.trace={}", file.display());
    let model = model_with(&["delay = \"10 ms\""], &[&["a"]], &[trace]);
    // Opportunities at 2, 5, 7, 10, 12, 15, … ms.
    assert_eq!(alone(0, 1_504, &model), Some(12_000));
    assert_eq!(alone(0, 1_505, &model), Some(15_000));
    assert_eq!(alone(0, 4 * 1_504, &model), Some(20_000));
    // A frame that comes at the very instant has missed it.
    assert_eq!(alone(2_000, 1, &model), Some(15_000));
    let waits = arrivals_of(model.clone(), &[(0, 1_000), (1_000, 504), (1_500, 1)]);
    assert_eq!(waits, [12_000, 12_000, 15_000].map(Some));
    let comes_later = arrivals_of(model, &[(0, 1_000), (2_000, 504)]);
    assert_eq!(comes_later, [12_000, 15_000].map(Some));
}

#[test]
fn a_shared_link_counts_once_and_from_its_nearer_path() {
    let links = [
        "delay = \"5 ms\"",
        "delay = \"15 ms\"",
        "rate = \"8 Mbit/s\"\ndelay = \"20 ms\"",
    ];
    let shared = model(&links, &[&["a", "c"], &["b", "c"]]);
    let frames = [(0, 30_000), (1_000, 30_000)];
    assert_eq!(arrivals_of(shared, &frames), [55_000, 85_000].map(Some));
}

#[test]
fn route_is_limited_by_its_slowest_link() {
    let narrow_first = [
        "rate = \"4 Mbit/s\"\ndelay = \"5 ms\"",
        "rate = \"8 Mbit/s\"",
    ];
    let chain = model(&narrow_first, &[&["a", "b"]]);
    assert_eq!(arrivals_of(chain, &[(0, 10_000)]), [Some(25_000)]);

    // Two branches of 4 and 8 Mbit/s into a link of 10 Mbit/s.
    let links = [
        "rate = \"4 Mbit/s\"",
        "rate = \"8 Mbit/s\"",
        "rate = \"10 Mbit/s\"",
    ];
    let tree = model(&links, &[&["a", "c"], &["b", "c"]]);
    assert_eq!(tree.cuts, [vec![1], vec![0, 2]]);
    assert_eq!(arrivals_of(tree, &[(0, 12_500)]), [Some(10_000)]);
}

#[test]
fn a_frame_begins_on_the_first_link_while_the_one_before_it_is_on_the_second() {
    let stands_still = "rate = \"8 Mbit/s\"\nrate-schedule = [\
                        { at = \"2 ms\", rate = \"0\" }, \
                        { at = \"100 ms\", rate = \"8 Mbit/s\" }]";
    let chain = model(&[stands_still, "rate = \"4 Mbit/s\""], &[&["a", "b"]]);
    let frames = [(0, 1_000), (0, 500), (0, 500), (0, 500)];
    let expected = [2_000, 3_000, 4_000, 100_500].map(Some);
    assert_eq!(arrivals_of(chain, &frames), expected);
}

#[test]
fn a_path_without_rates_takes_nothing_but_its_delay() {
    let open = model(
        &["delay = \"5 ms\"", "rate = \"8 kbit/s\""],
        &[&["a"], &["b"]],
    );
    // Unlimited is 2^64 - 1 bit/s: within a nanosecond some gigabytes.
    assert_eq!(arrivals_of(open, &[(7_000, 1_000_000)]), [Some(12_000)]);
}
