//! Use of seeds: each part of a scenario has its chance by its name, so that an additional part
//! changes no other. If chance has no influence, reports say so.

use anabranch_lab::compare::{Column, compare, comparison_table};
use anabranch_lab::{Report, RunOptions, Scenario, run, table};

/// Returns two flows over networks of their own; `first` comes before them.
fn scenario(first: &str, more: &[&str]) -> Scenario {
    let text = format!(
        r#"
duration = "10 s"
[links.up]
count = 3
rate = "3 Mbit/s"
delay = "20 ms"
queue = "200 ms"
loss = "1 %"
[links.down]
delay = "20 ms"
[routes.way]
count = 3
forward = ["up-#"]
reverse = ["down"]
{first}
[[flows]]
name = "camera"
paths = ["way-1"]
source = {{ kind = "gop", min = "300 kbit/s", max = "2 Mbit/s" }}
[[flows]]
name = "noise"
kind = "poisson"
rate = "1 Mbit/s"
paths = ["way-2"]
"#
    );
    let more: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
    Scenario::parse("test.toml", &text, &more).unwrap_or_else(|error| panic!("{error}"))
}

fn report(scenario: &Scenario, seeds: u64) -> Report {
    run(scenario, &RunOptions::seeds(seeds), &|_| ()).unwrap()
}

#[test]
fn a_flow_more_at_the_front_changes_no_other_under_the_same_seed() {
    let newcomers = [
        "",
        "[[flows]]\nname = \"new\"\npaths = [\"way-3\"]\nsource = \"ideal\"",
        "[[flows]]\nname = \"new\"\nkind = \"poisson\"\nrate = \"1 Mbit/s\"\npaths = [\"way-3\"]",
    ];
    let of_flows = newcomers.map(|newcomer| {
        let report = report(&scenario(newcomer, &[]), 1);
        let flows = report.runs[0]
            .statistics
            .flows
            .iter()
            .filter(|flow| flow.name != "new");
        flows.map(|flow| format!("{flow:?}")).collect::<Vec<_>>()
    });
    assert_eq!(of_flows[0].len(), 2);
    assert_eq!(of_flows[0], of_flows[1], "a session first");
    assert_eq!(of_flows[0], of_flows[2], "raw traffic first");
}

#[test]
fn where_all_seeds_give_the_same_result_it_is_said() {
    const SENTENCE: &str = "all seeds gave the same result";
    let by_chance = scenario("", &[]);
    let without = scenario(
        "",
        &[
            "links.up.loss=0",
            "flows.0.source=\"ideal\"",
            "flows.0.controller=\"cubic\"",
            "flows.1={name=\"noise\",kind=\"cbr\",rate=\"1 Mbit/s\",paths=[\"way-2\"]}",
        ],
    );
    for (scenario, is_said) in [(&by_chance, false), (&without, true)] {
        assert_eq!(table(&report(scenario, 2)).contains(SENTENCE), is_said);
        assert!(!table(&report(scenario, 1)).contains(SENTENCE), "one seed");
        let scenarios = [vec![scenario.clone()]];
        let columns = [Column::default()];
        let metrics = ["throughput".to_owned()];
        let compared = compare(&scenarios, &columns, &metrics, 2, 1, &|_| ()).unwrap();
        assert_eq!(comparison_table(&compared).contains(SENTENCE), is_said);
    }
}
