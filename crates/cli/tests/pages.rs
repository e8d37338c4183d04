//! The tutorial's pages without running them, and the lengths of all pages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::repository;
use crate::walk::blocks;

const FIRST_STREAM: &str = include_str!("../../../docs/tutorial/first-stream.md");
const TWO_NETWORKS: &str = include_str!("../../../docs/tutorial/two-networks.md");
const SIMULATE: &str = include_str!("../../../docs/tutorial/simulate.md");
const SCHEDULER: &str = include_str!("../../../docs/tutorial/scheduler.md");

/// Returns the word that follows an option.
fn after<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

#[test]
fn installations_name_packages_and_features_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for page in [FIRST_STREAM, TWO_NETWORKS, SIMULATE, SCHEDULER] {
        let shell = blocks(page).into_iter().filter(|block| block.info == "sh");
        for line in
            shell.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(path) = after(&words, "--path") else {
                continue;
            };
            if words[0] != "cargo" {
                continue;
            }
            let path = path.trim_start_matches("../anabranch/");
            let manifest: toml::Table = std::fs::read_to_string(root.join(path).join("Cargo.toml"))
                .unwrap()
                .parse()
                .unwrap();
            for feature in after(&words, "--features").unwrap_or_default().split(',') {
                let features = manifest.get("features").and_then(|table| table.as_table());
                let exists = features.is_some_and(|features| features.contains_key(feature));
                assert!(feature.is_empty() || exists, "{line}: {feature}");
            }
            count += 1;
        }
    }
    assert_eq!(count, 3);
}

#[test]
fn commands_for_other_machines_have_options_that_exist() {
    let mut commands = BTreeSet::new();
    for page in [FIRST_STREAM, TWO_NETWORKS] {
        for block in blocks(page).into_iter().filter(|block| block.info == "sh") {
            for line in block.text.replace("\\\n", " ").lines() {
                let Some((_, command)) = line.split_once("$ anabranch ") else {
                    continue;
                };
                let words: Vec<&str> = command.split_whitespace().collect();
                let help = std::process::Command::new(env!("CARGO_BIN_EXE_anabranch"))
                    .args([words[0], "--help"])
                    .output()
                    .unwrap();
                let help = String::from_utf8(help.stdout).unwrap();
                for option in words.iter().filter(|word| word.starts_with("--")) {
                    let option = option.split('=').next().unwrap();
                    assert!(help.contains(option), "{command}: {option}");
                }
                commands.insert(words[0].to_owned());
            }
        }
    }
    assert_eq!(
        commands,
        BTreeSet::from(["recv".to_owned(), "send".to_owned()])
    );
}

#[test]
fn every_block_of_the_tutorial_is_tested() {
    // Other kinds are tested by nobody: `rust` and `text` in `crates/anabranch/tests`.
    let known = ["console", "sh", "rust", "text"];
    for page in [FIRST_STREAM, TWO_NETWORKS, SIMULATE, SCHEDULER] {
        for block in blocks(page) {
            let is_file = block.info.starts_with("toml ");
            assert!(is_file || known.contains(&&*block.info), "{}", block.info);
        }
    }
}

/// Most words of a page, tables included: half an hour of reading. The protocol and the catalogue
/// are references, in which nobody reads from the first line to the last.
const MAX_WORDS: usize = 4_000;
const REFERENCES: [&str; 3] = ["protocol.md", "protocol-security.md", "catalogue.md"];
const MAX_COLUMNS: usize = 100;

/// Returns the pages of the documentation: paths from the repository's root, and texts.
fn all_pages() -> Vec<(String, String)> {
    repository::files(".md")
        .into_iter()
        .map(|(path, text)| (path.display().to_string(), text))
        .filter(|(path, _)| !path.starts_with("web/") || path.starts_with("docs/"))
        .collect()
}

#[test]
fn no_page_has_more_than_its_reader_reads() {
    for (path, text) in all_pages() {
        let is_reference = REFERENCES.iter().any(|name| path == format!("docs/{name}"));
        if path.starts_with("docs/") && !is_reference {
            let count = text.split_whitespace().count();
            assert!(
                count <= MAX_WORDS,
                "{path}: {count} words; a page for each job has at most {MAX_WORDS}"
            );
        }
    }
}

/// Lines of tables and of code are as long as they must be.
#[test]
fn lines_of_pages_fit_an_editor() {
    for (path, text) in all_pages() {
        let mut is_code = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            let is_free = is_code
                || line.starts_with('|')
                || line.starts_with("    ")
                || line.starts_with("Status: ")
                || !line.trim().contains(' ');
            let columns = line.chars().count();
            assert!(
                is_free || columns <= MAX_COLUMNS,
                "{path}:{}: {columns} columns; wrap it at {MAX_COLUMNS}",
                index + 1
            );
        }
    }
}
