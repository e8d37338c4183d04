//! Tests of the laboratory's commands.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const GRID: &str = r#"duration = "1 s"
[links.up]
rate = "1 Mbit/s"
[links.down]
[routes.only]
forward = ["up"]
reverse = ["down"]
[[flows]]
kind = "cbr"
rate = "500 kbit/s"
paths = ["only"]
[sweep]
"links.up.rate" = ["1 Mbit/s", "2 Mbit/s"]
"#;

/// Runs a scenario from standard input with these options.
pub(crate) fn run(options: &[&str], scenario: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-lab"));
    let mut child = command
        .args(["run", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(scenario.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

#[test]
fn a_scenario_from_standard_input_is_run_and_its_swept_list_replaced() {
    let list = r#"sweep."links.up.rate"=["3 Mbit/s", "4 Mbit/s", "5 Mbit/s"]"#;
    let output = run(&["--set", list], GRID);
    let said = String::from_utf8(output.stdout).unwrap();
    let rates = ["3 Mbit/s", "4 Mbit/s", "5 Mbit/s"];
    assert!(output.status.success(), "{said}");
    assert!(said.contains("3 points"), "{said}");
    for rate in rates {
        assert!(said.contains(&format!("\n{rate} ")), "{rate}: {said}");
    }
}

#[test]
fn a_mistake_on_standard_input_names_its_line() {
    let output = run(
        &[],
        "duration = \"1 s\"\n[links.up]\nratte = \"1 Mbit/s\"\n",
    );
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{notes}");
    assert!(
        notes.contains("standard input:3: links.up.ratte"),
        "{notes}"
    );
}
