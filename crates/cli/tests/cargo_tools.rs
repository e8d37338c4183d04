//! `scripts/cargo-tool.sh`, the one list of versions of cargo's tools, with an invented cargo.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::repository::{files, workspace};

/// Writes the first argument as cargo, and runs the others as a script.
const WRITE_AND_RUN: &str = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$CARGO\" && \
    chmod +x \"$CARGO\" && shift && exec sh \"$@\"";

/// Runs the script with a cargo that has `installed` as its tools' version, and writes the
/// installations that are asked of it to its output.
fn run(installed: &str, tools: &[&str]) -> Output {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    let text = format!(
        "if [ \"$1\" = install ]; then echo \"$@\"; exit; fi\n\
         [ -n \"{installed}\" ] && echo \"cargo-$1 {installed}\""
    );
    // Another process makes it executable: a file that a test has open for writing could not run.
    Command::new("sh")
        .args(["-c", WRITE_AND_RUN, "sh"])
        .arg(text)
        .arg(workspace().join("scripts/cargo-tool.sh"))
        .args(tools)
        .env("CARGO", cargo)
        .output()
        .unwrap()
}

fn said(installed: &str, tools: &[&str]) -> String {
    String::from_utf8(run(installed, tools).stdout).unwrap()
}

#[test]
fn a_missing_or_other_version_is_installed_and_no_present_one() {
    let fuzz = "install cargo-fuzz --locked --version 0.13.2\n";
    assert_eq!(said("", &["cargo-fuzz"]), fuzz);
    assert_eq!(said("0.13.20", &["cargo-fuzz"]), fuzz);
    assert_eq!(said("0.13.2", &["cargo-fuzz"]), "");
    let both = said("0.13.2", &["cargo-fuzz", "cargo-deny"]);
    assert_eq!(both.lines().count(), 1);
    assert!(both.starts_with("install cargo-deny --locked --version "));
}

#[test]
fn an_unlisted_tool_is_refused() {
    let ended = run("1.0.0", &["cargo-none"]);
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("no version of cargo-none"), "{said}");
}

#[test]
fn no_other_file_installs_a_tool_of_cargo() {
    for ending in [".sh", ".yml", "Makefile", ".md"] {
        for (path, text) in files(ending) {
            let is_list = path.ends_with("scripts/cargo-tool.sh");
            let line = text.lines().find(|line| {
                ["cargo install cargo-", "cargo\" install", "CARGO) install"]
                    .iter()
                    .any(|words| line.contains(words))
            });
            assert!(is_list || line.is_none(), "{}: {line:?}", path.display());
        }
    }
}
