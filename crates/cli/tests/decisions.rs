//! The decisions in `docs/decisions`: their form, their length, their index and the
//! sources that name them.

use std::collections::BTreeMap;
use std::fs;

use crate::repository::{files, workspace};

/// Maximum number of words of a decision, tables, code blocks and headings left out: a page.
const MAX_WORDS: usize = 400;
const FOLDER: &str = "docs/decisions";

/// Head of a decision, or its row of the index.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    number: u32,
    title: String,
    status: String,
}

/// Returns the text of each decision by its file name.
fn decisions() -> BTreeMap<String, String> {
    let folder = fs::read_dir(workspace().join(FOLDER)).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let texts: BTreeMap<String, String> = paths
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            (name != "README.md").then(|| (name, fs::read_to_string(&path).unwrap()))
        })
        .collect();
    assert!(!texts.is_empty(), "no decision in {FOLDER}");
    texts
}

/// Parses `# NUMBER. Title`, an empty line and `Status: …`.
fn head(text: &str) -> Option<Entry> {
    let mut lines = text.lines();
    let (number, title) = lines.next()?.strip_prefix("# ")?.split_once(". ")?;
    let status = lines.nth(1)?.strip_prefix("Status: ")?;
    Some(Entry {
        number: number.parse().ok()?,
        title: title.to_owned(),
        status: status.to_owned(),
    })
}

/// Parses a row `| [NUMBER](file) | title | status | about |` of the index.
fn row(line: &str) -> Option<(String, Entry)> {
    let cells: Vec<&str> = line
        .strip_prefix("| ")?
        .strip_suffix(" |")?
        .split(" | ")
        .collect();
    let [link, title, status, _about] = cells[..] else {
        return None;
    };
    let (number, file) = link
        .strip_prefix('[')?
        .strip_suffix(')')?
        .split_once("](")?;
    let entry = Entry {
        number: number.parse().ok()?,
        title: title.to_owned(),
        status: status.to_owned(),
    };
    Some((file.to_owned(), entry))
}

/// Counts the words outside of tables, code blocks and headings.
fn word_count(text: &str) -> usize {
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with('#') && !line.trim_start().starts_with('|')
    });
    prose.map(|line| line.split_whitespace().count()).sum()
}

/// Returns the paths of decisions that a source file names, as links and in plain text.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "()[]<>`\"',;".contains(c));
    words.filter_map(|word| {
        let end = word.find(".md")? + ".md".len();
        word.contains("docs/decisions/").then_some(&word[..end])
    })
}

#[test]
fn a_decision_has_a_number_a_title_and_a_status() {
    for (file, text) in decisions() {
        let entry =
            head(&text).unwrap_or_else(|| panic!("{file}: not `# N. Title` and `Status: …`"));
        let number = file.split('-').next().unwrap();
        assert_eq!(number, format!("{:04}", entry.number), "{file}");
        let known = ["accepted", "superseded by ["];
        let is_known = known.iter().any(|known| entry.status.starts_with(known));
        assert!(is_known, "{file}: {}", entry.status);
    }
}

#[test]
fn the_index_has_each_decision_once_with_its_title_and_status() {
    let index = fs::read_to_string(workspace().join(FOLDER).join("README.md")).unwrap();
    let mut rows = BTreeMap::new();
    for (file, entry) in index.lines().filter_map(row) {
        let before = rows.insert(file.clone(), entry);
        assert!(before.is_none(), "{file} is in the index twice");
    }
    let decisions = decisions().into_iter();
    let heads: BTreeMap<_, _> = decisions
        .filter_map(|(file, text)| Some((file, head(&text)?)))
        .collect();
    for (file, entry) in &heads {
        assert_eq!(rows.get(file), Some(entry), "{file} in {FOLDER}/README.md");
    }
    assert_eq!(
        rows.len(),
        heads.len(),
        "the index has files that do not exist"
    );
}

#[test]
fn a_decision_is_short_and_its_tables_follow_the_text() {
    for (file, text) in decisions() {
        let count = word_count(&text);
        assert!(count <= MAX_WORDS, "{file}: {count} words of {MAX_WORDS}");
        let body = text.split("\n## ").next().unwrap();
        let has_table = body.lines().any(|line| line.trim_start().starts_with('|'));
        assert!(
            !has_table,
            "{file}: tables follow under `## Measurements` or the like"
        );
    }
}

#[test]
fn tables_code_and_headings_do_not_count_as_words() {
    let text =
        "# 1. Title\n\nOne two.\n\n```\ncode code\n```\n\n## Measurements\n\n| a | b |\n\nThree.";
    assert_eq!(word_count(text), 3);
}

#[test]
fn paths_of_decisions_in_sources_lead_to_files() {
    let root = workspace();
    let mut count = 0;
    for (path, text) in files(".rs") {
        for target in named_paths(&text) {
            let from = if target.starts_with("docs/") {
                root.clone()
            } else {
                root.join(path.parent().unwrap())
            };
            let exists = from.join(target).exists();
            assert!(exists, "{}: {target} does not exist", path.display());
            count += 1;
        }
    }
    assert!(count > 2, "{count} paths are too few");
}
