//! Scenarios made of others, and numbers that depend on a single one.

use std::path::Path;

use anabranch_lab::{Point, Scenario};
use anabranch_units::Duration;

const BASE: &str = r#"title = "Base"
duration = "10 s"
[links.up]
rate = "1 Mbit/s"
queue = "100 ms"
discipline = "drop-tail"
[links.down]
[routes.only]
forward = ["up"]
reverse = ["down"]
[[flows]]
name = "video"
paths = ["only"]
[sweep]
"links.up.rate" = ["1 Mbit/s", "2 Mbit/s"]
[expect]
loss = { max = "1 %" }
"#;

/// Returns the points of a file that builds on [`BASE`].
fn built(own: &str, settings: &[&str]) -> Result<Vec<Point>, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), BASE).unwrap();
    let path = folder.path().join("own.toml");
    std::fs::write(&path, own).unwrap();
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    Point::load(&path, &settings).map_err(|error| {
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    })
}

#[test]
fn derived_file_lists_only_differences() {
    let own = "base = \"base.toml\"\ntitle = \"Own\"\nlinks.up.delay = \"5 ms\"\n\
               links.up.discipline = { kind = \"codel\", ecn = true }\nflow-defaults.ecn = true\n";
    let points = built(own, &[]).unwrap();
    assert_eq!(points.len(), 2);
    let scenario = &points[1].scenario;
    let same = BASE
        .replace("\"Base\"", "\"Own\"")
        .replace(
            "\"drop-tail\"",
            "{ kind = \"codel\", ecn = true }\ndelay = \"5 ms\"",
        )
        .replace("[[flows]]", "[flow-defaults]\necn = true\n[[flows]]");
    let same = &Point::parse("own.toml", &same, &[]).unwrap()[1].scenario;
    assert_eq!(scenario, same);
    let without = built("base = \"base.toml\"\nsweep = {}\nexpect = {}\n", &[]).unwrap();
    assert_eq!(without.len(), 1);
    assert!(without[0].scenario.expectations.is_empty());
    let flows = "base = \"base.toml\"\n[[flows]]\nname = \"a\"\npaths = [\"only\"]\n";
    let set = built(flows, &["duration=3 s"]).unwrap();
    let names: Vec<&str> = set[0]
        .scenario
        .flows
        .iter()
        .map(|flow| &flow.name[..])
        .collect();
    assert_eq!(
        (names, set[0].scenario.duration),
        (vec!["a"], Duration::from_secs(3))
    );
}

#[test]
fn errors_of_a_base_name_the_place() {
    for (own, settings, expected) in [
        (
            "base = \"no.toml\"\n",
            &[][..],
            "own.toml:1: base: no.toml: ",
        ),
        (
            "base = \"own.toml\"\n",
            &[],
            "own.toml:1: base: own.toml has a base itself",
        ),
        (
            "base = \"base.toml\"\n[links]\ndown.queue = \"0 B\"\nup.rate = \"2 Mbit/s\"\n\
             [routes]\nonly.forward = [\"up\", \"far\"]\n",
            &[],
            "own.toml:3: links.down.queue: ",
        ),
        (
            "base = \"base.toml\"\nflows = []\n",
            &[],
            "own.toml:2: flows: ",
        ),
        (
            "base = \"base.toml\"\nlinks = {}\n",
            &[],
            "base.toml:15 (base of own.toml): links.up: there is no such name",
        ),
        (
            "duration = \"1 s\"\n",
            &["base=base.toml"],
            "--set base=base.toml: base: only a file",
        ),
    ] {
        let error = built(own, settings).expect_err(own);
        assert!(error.starts_with(expected), "expected {expected}: {error}");
    }
}

fn multihop(settings: &[&str]) -> Result<Scenario, String> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/grieco-arc/multihop.toml");
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(&path, &settings).map_err(|error| error.to_string())
}

/// Returns the propagation delay along a flow's path, in both directions.
fn round_trip(scenario: &Scenario, flow: usize) -> Duration {
    let route = &scenario.routes[scenario.flows[flow].paths[0].route];
    let links = route.forward.iter().chain(&route.reverse);
    links.map(|link| scenario.links[*link].config.delay).sum()
}

#[test]
fn one_number_sets_the_chain_length() {
    for hops in [1, 3, 5, 12] {
        let setting = format!("links.hop.count={hops}");
        let scenario = multihop(&[&setting]).unwrap();
        assert_eq!(scenario.flows.len(), 1 + 2 * hops);
        assert_eq!(scenario.routes.len(), 1 + 2 * hops);
        assert_eq!(round_trip(&scenario, 0), Duration::from_millis(250));
        assert_eq!(round_trip(&scenario, hops), Duration::from_millis(50));
    }
    assert_eq!(multihop(&["links.hop.count=3"]), multihop(&[]));
}

#[test]
fn numbers_that_go_by_nothing_are_mistakes() {
    let error = multihop(&["links.hop.count=13"]).unwrap_err();
    assert!(
        error.contains("less than nothing is left of 62.5 ms for 13 links"),
        "{error}"
    );
    let error = multihop(&["links.back.count={ each = \"hops\" }"]).unwrap_err();
    assert!(error.contains("known are hop; did you mean"), "{error}");
    let error = multihop(&["links.hop.count={ each = \"back\" }"]).unwrap_err();
    assert!(error.contains("known are none"), "{error}");
    let error = multihop(&["links.entry.delay.more=1 ms"]).unwrap_err();
    assert!(error.contains("unknown key"), "{error}");
}
