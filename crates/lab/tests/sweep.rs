//! A sweep from the scenario file to the table, the JSON report and the picture.

use anabranch_lab::{Point, RunOptions, plot_sweep, run_sweep, sweep_json, sweep_table};

const GRID: &str = r#"title = "Grid"
duration = "10 s"
[links.up]
rate = "1 Mbit/s"
queue = "100 ms"
[links.down]
[routes.only]
forward = ["up"]
reverse = ["down"]
[[flows]]
name = "load"
kind = "cbr"
rate = "1 Mbit/s"
paths = ["only"]
[sweep]
"flows.0.rate" = ["500 kbit/s", "1 Mbit/s", "2 Mbit/s"]
"links.up.delay" = ["5 ms", "10 ms"]
[expect]
loss.load = { max = "1 %" }
"#;

#[test]
fn a_sweep_has_a_row_for_each_point_and_judges_each() {
    fn rows(start: &str, table: &str) -> usize {
        table.lines().filter(|line| line.starts_with(start)).count()
    }

    let points = Point::parse("grid.toml", GRID, &[]).unwrap();
    assert_eq!(points.len(), 6);
    let report = run_sweep(&points, &RunOptions::seeds(2), &|_| ()).unwrap();
    let verdicts: Vec<bool> = report
        .points
        .iter()
        .map(|point| point.report.is_as_expected)
        .collect();
    // Twice the link's rate loses half, at any delay.
    assert_eq!(verdicts, [true, true, true, true, false, false]);
    assert!(!report.is_as_expected);
    let table = sweep_table(&report);
    let heading = table
        .lines()
        .find(|line| line.starts_with("flows.0.rate"))
        .unwrap();
    for text in [
        "links.up.delay",
        "loss.load %",
        "delay-mean ms",
        "utilisation.up %",
    ] {
        assert!(heading.contains(text), "{heading}");
    }
    assert!(!heading.contains("jain"), "there is one flow: {heading}");
    assert_eq!(
        (
            rows("500 kbit/s ", &table),
            rows("1 Mbit/s ", &table),
            rows("2 Mbit/s ", &table)
        ),
        (2, 2, 2)
    );
    assert_eq!(
        rows("flows.0.rate=2 Mbit/s, links.up.delay=", &table),
        2,
        "{table}"
    );
    assert!(table.contains("<= 1.00 %"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&sweep_json(&report)).unwrap();
    assert_eq!(json["schema"], "anabranch-sweep/1");
    assert_eq!(json["points"][5]["settings"][1]["value"], "10 ms");
    assert_eq!(json["points"][5]["report"]["runs"][1]["seed"], 2);
}

#[test]
fn a_sweep_is_drawn_over_the_numeric_key_with_the_most_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.svg");
    let points = Point::parse("grid.toml", GRID, &[]).unwrap();
    let report = run_sweep(&points, &RunOptions::seeds(1), &|_| ()).unwrap();
    plot_sweep(&report, &path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    for text in ["flows.0.rate, Mbit/s", "loss.load %", "5 ms", "10 ms"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn keys_that_change_together_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.svg");
    let zip = "sweep={zip=[{\"links.up.delay\"=[\"5 ms\", \"10 ms\"], \
               \"links.down.delay\"=[\"7 ms\", \"14 ms\"]}]}";
    let points = Point::parse("grid.toml", GRID, &[zip.to_owned()]).unwrap();
    let report = run_sweep(&points, &RunOptions::seeds(1), &|_| ()).unwrap();
    plot_sweep(&report, &path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.contains("links.up.delay, ms") || svg.contains("links.down.delay, ms"));
    for name in ["7 ms", "14 ms", "5 ms", "10 ms"] {
        assert!(svg.lines().all(|line| line != name), "{name}");
    }
}

#[test]
fn a_sweep_over_names_alone_cannot_be_drawn() {
    let settings = [
        "sweep={}".to_owned(),
        "sweep.title=[\"a\", \"b\"]".to_owned(),
    ];
    let points = Point::parse("grid.toml", GRID, &settings).unwrap();
    let report = run_sweep(&points, &RunOptions::seeds(1), &|_| ()).unwrap();
    let error = plot_sweep(&report, "grid.svg".as_ref())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("grid.svg: "), "{error}");
}

fn drawn(settings: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.svg");
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let points = Point::parse("grid.toml", GRID, &settings).unwrap();
    let report = run_sweep(&points, &RunOptions::seeds(1), &|_| ()).unwrap();
    plot_sweep(&report, &path).map_err(|error| error.to_string())?;
    Ok(std::fs::read_to_string(&path).unwrap())
}

#[test]
fn more_lines_than_colours_become_panels_of_their_own() {
    fn queues(count: usize) -> String {
        let sizes: Vec<String> = (1..=count)
            .map(|size| format!("\"{} ms\"", 10 * size))
            .collect();
        format!("sweep.\"links.up.queue\"=[{}]", sizes.join(","))
    }

    let loss = r#"sweep.links.up.loss=["0 %","1 %"]"#;
    let rates = r#"sweep.flows.0.rate=["1 Mbit/s","2 Mbit/s","3 Mbit/s"]"#;
    let short = "duration=1 s";
    let one = drawn(&[short, rates, &queues(4)]).unwrap();
    assert!(!one.contains("loss.load %: "), "six lines are one panel");
    // Twelve lines: a panel for each delay, with six of rate and loss.
    let svg = drawn(&[short, rates, loss, &queues(4)]).unwrap();
    for text in ["loss.load %: 5 ms", "loss.load %: 10 ms", "3 Mbit/s, 1 %"] {
        assert!(svg.contains(text), "{text}");
    }
    fn down(key: &str, unit: &str) -> String {
        let values: Vec<String> = (1..=4).map(|value| format!("\"{value} {unit}\"")).collect();
        format!("sweep.links.down.{key}=[{}]", values.join(","))
    }
    let (delays, losses) = (down("delay", "ms"), down("loss", "%"));
    let error = drawn(&[short, rates, loss, &delays, &losses]).expect_err("too many");
    for text in ["compare fewer", "--set", "links.up.delay"] {
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn an_index_of_traces_has_settings_as_numbers_with_their_units() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["duration=1 s", "sweep.flows.0.kind=[\"cbr\"]"].map(str::to_owned);
    let points = Point::parse("grid.toml", GRID, &settings).unwrap();
    let options = RunOptions {
        seeds: vec![1, 2],
        trace: Some((
            folder.path().to_owned(),
            anabranch_lab::TraceOptions::default(),
        )),
        ..RunOptions::default()
    };
    run_sweep(&points, &options, &|_| ()).unwrap();
    let index = std::fs::read_to_string(folder.path().join("points.csv")).unwrap();
    let mut rows = index.lines();
    let heading = "point,seed,folder,flows.0.rate_bps,links.up.delay_ms,flows.0.kind";
    assert_eq!(rows.next(), Some(heading));
    assert_eq!(rows.next(), Some("1,1,point-1/seed-1,500000,5,cbr"));
    assert_eq!(rows.next(), Some("1,2,point-1/seed-2,500000,5,cbr"));
    assert_eq!(rows.last(), Some("6,2,point-6/seed-2,2000000,10,cbr"));
    for row in index.lines().skip(1) {
        let trace = row.split(',').nth(2).unwrap();
        assert!(folder.path().join(trace).join("links.csv").exists());
    }
}

#[test]
fn traces_of_a_sweep_lie_in_a_folder_for_each_point() {
    let folder = tempfile::tempdir().unwrap();
    let points = Point::parse("grid.toml", GRID, &["duration=1 s".to_owned()]).unwrap();
    let options = RunOptions {
        seeds: vec![1],
        trace: Some((
            folder.path().to_owned(),
            anabranch_lab::TraceOptions::default(),
        )),
        ..RunOptions::default()
    };
    run_sweep(&points, &options, &|_| ()).unwrap();
    for point in 1..=6 {
        assert!(
            folder
                .path()
                .join(format!("point-{point}/links.csv"))
                .exists()
        );
    }
}
