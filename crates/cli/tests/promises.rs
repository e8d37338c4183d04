//! The tables of `docs/protocol-security.md`: each of our promises and bounds names tests, which
//! exist.

use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "| promise | WireGuard | QUIC | SRT | RIST | ours, test |";
const HEAD_OF_BOUNDS: &str = "| bound of a tunnel | value | test |";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of each row below this head.
fn rows(head: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(workspace().join("docs/protocol-security.md")).unwrap();
    let lines = text.lines().skip_while(|line| *line != head).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    rows.collect()
}

/// What stands between backticks.
fn tests_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Where a crate's modules are: of the library, of the program's tests, and of both if their last
/// part is the module of tests in a file.
fn files(crate_name: &str, modules: &[&str]) -> Vec<PathBuf> {
    let root = workspace().join("crates").join(crate_name);
    let path = modules.join("/");
    let file = |folder: &str, path: &str| root.join(folder).join(format!("{path}.rs"));
    let mut files = vec![file("src", &path), file("tests", &path)];
    if let Some(outer) = path.strip_suffix("/tests") {
        files.push(file("src", outer));
    }
    files
}

/// Whether the file has a test of this name.
fn has_test(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("fn ").and_then(|l| l.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    };
    let places = lines.iter().enumerate().filter(|(_, line)| is_it(line));
    places.into_iter().any(|(at, _)| {
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|line| line.starts_with("#["));
        above.any(|line| line.contains("test"))
    })
}

#[test]
fn every_promise_of_ours_names_tests_that_exist() {
    let rows = rows(HEAD);
    assert!(rows.len() >= 20, "the table is there: {}", rows.len());
    for row in &rows {
        let [promise, others @ .., ours] = &row[..] else {
            panic!("{row:?}")
        };
        assert_eq!(others.len(), 4, "{promise}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        let tests = tests_in(ours);
        assert!(
            !tests.is_empty() || ours.starts_with("No:"),
            "{promise}: no test is named, and it does not say No: {ours}"
        );
        check_tests(promise, &tests);
    }
}

#[test]
fn every_bound_of_a_tunnel_names_tests_that_exist() {
    let rows = rows(HEAD_OF_BOUNDS);
    assert!(!rows.is_empty(), "the table is there");
    for row in &rows {
        let [bound, _, tests] = &row[..] else {
            panic!("{row:?}")
        };
        let tests = tests_in(tests);
        assert!(!tests.is_empty(), "{bound}: no test is named");
        check_tests(bound, &tests);
    }
}

fn check_tests(promise: &str, tests: &[&str]) {
    for test in tests {
        let parts: Vec<&str> = test.split("::").collect();
        let [crate_name, modules @ .., name] = &parts[..] else {
            panic!("{promise}: {test} is no test")
        };
        let files = files(crate_name, modules);
        assert!(
            files.iter().any(|file| has_test(file, name)),
            "{promise}: there is no test {test}"
        );
    }
}

#[test]
fn what_is_no_test_is_not_taken_for_one() {
    let this = Path::new(file!()).file_stem().unwrap().to_str().unwrap();
    let files = files("cli", &[this]);
    let has = |name| files.iter().any(|file| has_test(file, name));
    assert!(has("what_is_no_test_is_not_taken_for_one"));
    assert!(!has("workspace") && !has("what_is_no_test"));
}
