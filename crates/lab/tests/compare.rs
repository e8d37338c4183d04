//! Comparisons over tiny scenarios.

use anabranch_lab::compare::{
    Column, CompareError, Comparison, Vary, compare, comparison_csv, comparison_json,
    comparison_svg, comparison_table,
};
use anabranch_lab::{Point, Scenario};

/// Two flows under test and one of cross traffic.
const TINY: &str = r#"
duration = "5 s"
links.up = { rate = "4 Mbit/s", delay = "10 ms", queue = "100 ms", loss = "1 %" }
links.down = { delay = "10 ms" }
routes.path = { forward = ["up"], reverse = ["down"] }
flow-defaults = { paths = ["path"], controller = "live-bbr", fixed-rate = "500 kbit/s" }
flows = [{ name = "ours", count = 2 }, { name = "company", controller = "new-reno" }]
"#;

/// Returns the scenario of each column.
fn of_columns(name: &str, columns: &[Column]) -> Vec<Scenario> {
    Column::scenarios(columns, |settings| Scenario::parse(name, TINY, settings)).unwrap()
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn compared(controllers: &[&str], metrics: &[&str]) -> Result<Comparison, CompareError> {
    let columns = Column::product(&texts(controllers), &[]);
    compare(
        &["a.toml", "b.toml"].map(|name| of_columns(name, &columns)),
        &columns,
        &texts(metrics),
        4,
        0,
        &|_| (),
    )
}

#[test]
fn only_the_flows_under_test_change() {
    let metrics = [
        "throughput.ours-1",
        "throughput.ours-2",
        "throughput.company",
    ];
    let comparison = compared(&["live-bbr", "fixed"], &metrics).unwrap();
    assert_eq!(comparison.rows.len(), 6);
    let mean =
        |row: usize, column: usize| comparison.rows[row].cells[column].estimate.unwrap().mean;
    // Half a Mbit/s is the rate of `fixed`; the cross traffic takes the rest.
    for row in [0, 1] {
        assert!((mean(row, 1) - 0.5e6).abs() < 0.02e6, "{}", mean(row, 1));
    }
    assert!(
        mean(2, 1) > 0.6e6,
        "the company is not fixed: {}",
        mean(2, 1)
    );
    assert_eq!(comparison.rows[3].scenario, "b");
}

#[test]
fn differences_exceed_chance() {
    // The same controller under another name differs in nothing; a fixed rate differs much.
    let controllers = ["live-bbr", "live-bbr:cycle=gentle", "fixed"];
    let comparison = compared(&controllers, &["throughput"]).unwrap();
    let row = &comparison.rows[0];
    let different: Vec<Option<bool>> = row.cells.iter().map(|cell| cell.is_different).collect();
    assert_eq!(different, [None, Some(false), Some(true)]);
    assert_eq!(row.cells[0].values, row.cells[1].values);
    let table = comparison_table(&comparison);
    let line = table.lines().find(|line| line.starts_with("a ")).unwrap();
    assert_eq!(
        (line.matches('~').count(), line.matches('±').count()),
        (1, 3),
        "{line}"
    );
}

#[test]
fn every_form_has_every_cell() {
    let comparison = compared(&["live-bbr", "fixed"], &["loss", "utilisation"]).unwrap();
    assert_eq!(comparison_csv(&comparison).lines().count(), 1 + 2 * 2 * 2);
    let json: serde_json::Value = serde_json::from_str(&comparison_json(&comparison)).unwrap();
    assert_eq!(json["schema"], "anabranch-comparison/1");
    assert_eq!(json["rows"][1]["subject"], "up");
    assert_eq!(
        json["rows"][1]["cells"][1]["values"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    assert_eq!(json["columns"][1]["controller"], "fixed");
    let svg = comparison_svg(&comparison);
    assert_eq!(svg.matches("<svg ").count(), 1 + 2);
    assert!(svg.contains("utilisation.up") && svg.contains("fixed"));
}

/// Returns the subjects of a metric's rows by scenario, and whether anything was measured.
fn subjects(metric: &str) -> Vec<(String, String, bool)> {
    let columns = Column::product(&texts(&["fixed"]), &[]);
    let other = TINY.replace("ours", "theirs").replace(
        "{ name = \"company\"",
        "{ kind = \"bulk\", name = \"company\"",
    );
    let scenarios = [
        of_columns("a", &columns),
        vec![Scenario::parse("b", &other, &[]).unwrap()],
    ];
    let comparison = compare(&scenarios, &columns, &texts(&[metric]), 2, 0, &|_| ()).unwrap();
    comparison
        .rows
        .iter()
        .map(|row| {
            let name = row.subject.clone().unwrap_or_default();
            let is_measured = row.cells[0].estimate.is_some();
            (row.scenario.clone(), name, is_measured)
        })
        .collect()
}

fn row(scenario: &str, subject: &str, is_measured: bool) -> (String, String, bool) {
    (scenario.to_owned(), subject.to_owned(), is_measured)
}

#[test]
fn flow_metrics_list_each_adaptive_flow() {
    let expected = [
        row("a", "ours-1", true),
        row("a", "ours-2", true),
        row("a", "company", true),
        row("b", "theirs-1", true),
        row("b", "theirs-2", true),
    ];
    assert_eq!(subjects("send-rate-variation"), expected);
    assert_eq!(subjects("loss"), [row("a", "", true), row("b", "", true)]);
}

#[test]
fn a_flow_that_a_scenario_lacks_has_no_value_there() {
    let expected = [row("a", "ours-2", true), row("b", "ours-2", false)];
    assert_eq!(subjects("receive-rate-variation.ours-2"), expected);
}

#[test]
fn comparison_errors_name_the_cause() {
    fn message(controllers: &[&str], metrics: &[&str]) -> String {
        compared(controllers, metrics).unwrap_err().to_string()
    }
    assert!(message(&["no"], &["loss"]).contains("\"no\""));
    assert!(message(&["fixed"], &["speed"]).contains("\"speed\""));
    let nobody = message(&["fixed"], &["loss.nobody"]);
    for part in [
        "loss.nobody: no scenario has a flow of that name",
        "a has the links down, up, and the flows ours-1, ours-2, company",
    ] {
        assert!(nobody.contains(part), "{nobody}");
    }
    assert!(!nobody.contains("known are"), "{nobody}");
    assert!(message(&["fixed"], &["utilisation.company"]).contains("has a link of that name"));
    assert!(message(&["fixed"], &["jain.company"]).contains("of all flows together"));
    let columns = Column::product(&[], &texts(&["no"]));
    let scenarios = [of_columns("a", &columns)];
    let result = compare(&scenarios, &columns, &texts(&["loss"]), 1, 0, &|_| ());
    assert!(result.unwrap_err().to_string().contains("no scheduler"));
}

#[test]
fn columns_are_every_pair() {
    let columns = Column::product(&texts(&["a", "b"]), &texts(&["x", "y"]));
    let labels: Vec<String> = columns.iter().map(Column::label).collect();
    assert_eq!(labels, ["a + x", "a + y", "b + x", "b + y"]);
}

#[test]
fn any_key_of_the_first_flow_can_vary() {
    let vary: Vary = "fixed-rate=200 kbit/s,400 kbit/s".parse().unwrap();
    let columns = vary.over(&Column::product(&texts(&["fixed"]), &[]));
    let scenarios = [of_columns("a", &columns)];
    let metrics = texts(&["throughput.ours-1", "throughput.company"]);
    let comparison = compare(&scenarios, &columns, &metrics, 2, 0, &|_| ()).unwrap();
    let means: Vec<f64> = comparison.rows[0]
        .cells
        .iter()
        .map(|cell| cell.estimate.unwrap().mean)
        .collect();
    // At 200 kbit/s frames are given up, and the receiver learns of these beside the rate.
    for (mean, rate) in means.iter().zip([200e3, 400e3]) {
        assert!((mean / rate - 1.0).abs() < 0.06, "{means:?}");
    }
    let labels: Vec<String> = columns.iter().map(Column::label).collect();
    assert_eq!(
        labels,
        [
            "fixed + fixed-rate=200 kbit/s",
            "fixed + fixed-rate=400 kbit/s"
        ]
    );
    let json: serde_json::Value = serde_json::from_str(&comparison_json(&comparison)).unwrap();
    let setting = "flows.0.fixed-rate=400 kbit/s";
    assert_eq!(json["columns"][1]["settings"][0], setting);
    assert!(comparison_csv(&comparison).contains(setting));
    let wrong: Vary = "no-key=1".parse().unwrap();
    let error = Column::scenarios(&wrong.over(&[Column::default()]), |settings| {
        Scenario::parse("a", TINY, settings)
    })
    .unwrap_err();
    assert!(error.to_string().contains("no-key"), "{error}");
}

#[test]
fn every_point_of_a_sweep_has_rows_of_its_own() {
    let columns = Column::product(&texts(&["fixed", "new-reno"]), &[]);
    let text = format!("{TINY}sweep.links.up.rate = [\"4 Mbit/s\", \"300 kbit/s\"]\n");
    let load = |settings: &[String]| Point::parse("grid.toml", &text, settings);
    let scenarios = Column::points(&columns, load).unwrap();
    let metrics = texts(&["throughput.ours-1"]);
    let comparison = compare(&scenarios, &columns, &metrics, 1, 0, &|_| ()).unwrap();
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| (row.scenario.as_str(), row.cells[0].estimate.unwrap().mean))
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].0, "grid (links.up.rate=4 Mbit/s)");
    assert_eq!(rows[1].0, "grid (links.up.rate=300 kbit/s)");
    assert!(rows[0].1 > 400e3 && rows[1].1 < 300e3, "{rows:?}");
    // A column's settings are not swept over.
    let vary: Vary = "links.up.rate=1 Mbit/s,2 Mbit/s".parse().unwrap();
    let pinned = Column::points(&vary.over(&columns), load).unwrap();
    assert_eq!((pinned.len(), pinned[0].len()), (1, 4));
    assert_eq!(pinned[0][0].name, "grid");
}
