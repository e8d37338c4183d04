//! Libraries have typed errors and report to their callers. Only the programs print.

use std::path::Path;

use regex::Regex;
use toml::{Table, Value};

use crate::repository::{files, workspace};

/// Folder and file of a library's help for tests. It may print for the reader of a failed test.
const TEST_HELP: [&str; 2] = ["testing", "testing.rs"];

/// Libraries that neither depend on `anyhow` nor print. The list only grows.
const CLEAN: &[&str] = &[
    "units",
    "core",
    "controllers",
    "schedulers",
    "link",
    "sim",
    "emu",
    "mux",
    "srt",
    "srtla",
    "secure",
    "video",
    "viewers",
    "lab",
    "papers",
    "net",
    "bond",
    "tunnel",
    "anabranch",
    "embed",
    "capi",
    "mobile",
    "python",
    "wasm",
    "mpegts-io",
    "observe",
];

/// Returns whether the manifest's library depends on `anyhow`, on any system. Its tests may.
fn depends_on_anyhow(manifest: &Table) -> bool {
    let targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = targets.into_iter().flat_map(Table::values);
    let tables = of_targets.filter_map(Value::as_table);
    let mut dependencies = [manifest]
        .into_iter()
        .chain(tables)
        .filter_map(|table| table.get("dependencies").and_then(Value::as_table));
    dependencies.any(|named| named.contains_key("anyhow"))
}

/// Calls that print.
const PRINTING: &str = r"\b(e?print(ln)?!|dbg!|print::)";

/// Returns the lines of a source that print, without comments.
fn printing_lines<'a>(source: &'a str, printing: &Regex) -> Vec<&'a str> {
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.filter(|line| printing.is_match(line)).collect()
}

#[test]
fn libraries_have_errors_with_types() {
    for name in CLEAN {
        let path = workspace().join("crates").join(name).join("Cargo.toml");
        let manifest: Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        assert!(!depends_on_anyhow(&manifest), "{name} depends on anyhow");
    }
}

#[test]
fn libraries_do_not_print() {
    let sources = files(".rs");
    let printing = Regex::new(PRINTING).unwrap();
    for name in CLEAN {
        let folder = Path::new("crates").join(name).join("src");
        let mut ours = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&folder))
            .filter(|(path, _)| {
                !TEST_HELP
                    .iter()
                    .any(|help| path.starts_with(folder.join(help)))
            })
            .peekable();
        assert!(ours.peek().is_some(), "{name} has no source");
        for (path, text) in ours {
            let lines = printing_lines(text, &printing);
            assert!(lines.is_empty(), "{}: {lines:#?}", path.display());
        }
    }
}

#[test]
fn a_library_that_prints_is_found() {
    let source =
        "//! println!(\"an example\");\nprint::note(1);\n    eprintln!(\"2\");\nlet print = 3;";
    assert_eq!(
        printing_lines(source, &Regex::new(PRINTING).unwrap()),
        ["print::note(1);", "    eprintln!(\"2\");"]
    );
    for manifest in [
        "[dependencies]\nanyhow = \"1\"",
        "[target.'cfg(unix)'.dependencies]\nanyhow.workspace = true",
    ] {
        assert!(depends_on_anyhow(&manifest.parse().unwrap()), "{manifest}");
    }
    let tests_only = "[dev-dependencies]\nanyhow = \"1\"";
    assert!(!depends_on_anyhow(&tests_only.parse().unwrap()));
}
