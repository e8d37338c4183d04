//! Tests of the tables in `docs/protocol-security.md`: each of our promises and bounds names tests,
//! which exist and run.

use std::fs;
use std::path::{Path, PathBuf};

/// Head of the table of promises, which compares other protocols.
const HEAD: &str = "| promise | WireGuard | QUIC | SRT | RIST | ours, test |";
/// Endings of the heads of all tables whose last cells name tests.
const TEST_HEADS: [&str; 2] = [" test |", ", test |"];
/// Number of tables: defences, memory, promises, bounds of a tunnel.
const TABLE_COUNT: usize = 4;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Cells of each row of a table.
type Rows = Vec<Vec<String>>;

/// Returns the tables whose last cells name tests, by their heads.
fn tables() -> Vec<(String, Rows)> {
    let text = fs::read_to_string(workspace().join("docs/protocol-security.md")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.iter().enumerate().filter(|(_, line)| {
        line.starts_with('|') && TEST_HEADS.iter().any(|end| line.ends_with(end))
    });
    let tables = heads.map(|(at, head)| {
        let rows = lines[at + 2..]
            .iter()
            .take_while(|line| line.starts_with('|'))
            .map(|line| {
                let cells = line.trim_matches('|').split('|');
                cells.map(|cell| cell.trim().to_owned()).collect()
            });
        ((*head).to_owned(), rows.collect())
    });
    tables.collect()
}

/// Returns the texts between backticks.
fn tests_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the files of a crate's modules, in the library and in the program's tests. If the last
/// part is the module of tests in a file, the file without it is included.
fn files(crate_name: &str, modules: &[&str]) -> Vec<PathBuf> {
    let root = workspace().join("crates").join(crate_name);
    let path = modules.join("/");
    let folders = ["src", "tests"].map(|folder| root.join(folder));
    let mut files: Vec<PathBuf> = folders
        .iter()
        .map(|folder| folder.join(format!("{path}.rs")))
        .collect();
    for tests in ["/tests", "/real_time_tests"] {
        if let Some(outer) = path.strip_suffix(tests) {
            files.push(folders[0].join(format!("{outer}.rs")));
        }
    }
    files
}

/// Returns whether a line begins the function of this name.
fn is_function(line: &str, name: &str) -> bool {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("fn ").and_then(|l| l.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with('('))
}

/// Returns the attributes of the test of this name; `None` if the file has no such test.
fn test_attributes(file: &Path, name: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let found = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_function(line, name));
    found.into_iter().find_map(|(at, _)| {
        let above = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#["));
        let attributes: Vec<String> = above.map(|line| (*line).to_owned()).collect();
        let is_test = attributes.iter().any(|line| line.contains("test"));
        is_test.then_some(attributes)
    })
}

/// Returns whether `make test-real` runs the ignored tests of a file.
fn runs_ignored(file: &Path) -> bool {
    let module = file.file_stem().unwrap().to_str().unwrap();
    let command = format!(" tests)\" {module} --ignored");
    let mut scripts = fs::read_dir(workspace().join("scripts/real-tests")).unwrap();
    scripts.any(|script| {
        let text = fs::read_to_string(script.unwrap().path());
        text.is_ok_and(|text| text.contains(&command))
    })
}

/// Checks that a cell names tests, all of which exist and run.
fn check_tests(promise: &str, cell: &str) {
    let tests = tests_in(cell);
    assert!(!tests.is_empty(), "{promise}: no test is named: {cell}");
    for test in tests {
        let parts: Vec<&str> = test.split("::").collect();
        let [crate_name, modules @ .., name] = &parts[..] else {
            panic!("{promise}: {test} is no test")
        };
        let files = files(crate_name, modules);
        let found = files
            .iter()
            .find_map(|file| Some((file, test_attributes(file, name)?)));
        let Some((file, attributes)) = found else {
            panic!("{promise}: there is no test {test}")
        };
        let is_ignored = attributes.iter().any(|line| line.starts_with("#[ignore"));
        assert!(
            !is_ignored || runs_ignored(file),
            "{promise}: nothing runs {test}"
        );
    }
}

#[test]
fn every_promise_of_ours_names_tests_that_exist_and_run() {
    let tables = tables();
    assert_eq!(tables.len(), TABLE_COUNT);
    for (head, rows) in &tables {
        let cell_count = head.trim_matches('|').split('|').count();
        assert!(rows.len() >= 5, "{head}: {}", rows.len());
        for row in rows {
            assert_eq!(row.len(), cell_count, "{row:?}");
            assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
            let (promise, ours) = (&row[0], &row[cell_count - 1]);
            // A promise that other protocols make and we do not.
            if head != HEAD || !ours.starts_with("No:") {
                check_tests(promise, ours);
            }
        }
    }
}

#[test]
fn only_tests_are_found() {
    let this = Path::new(file!()).file_stem().unwrap().to_str().unwrap();
    let files = files("cli", &[this]);
    for (name, is_test) in [
        ("only_tests_are_found", true),
        ("workspace", false),
        ("only_tests", false),
    ] {
        let mut found = files.iter().filter_map(|file| test_attributes(file, name));
        assert_eq!(found.next().is_some(), is_test, "{name}");
    }
}
