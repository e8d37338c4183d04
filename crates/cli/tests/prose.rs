//! Wording of comments and documents. Each part of the repository has a limit, which may only fall.
//! Names of tests and texts of programs have no such wording at all.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::repository;

const LIMITS: &str = include_str!("prose.txt");
const HEADING: &str =
    "# part, findings, doc comments that begin with What, How, Who, Those, So or Of\n";

/// Wording that well-kept projects do not use, and better wording.
const PATTERNS: [(&str, &str); 9] = [
    (
        // Spaces and line breaks do not count.
        r"(?x) \b[Ww]hat[\ ](?:
            is|was|were|are|has|have|had|waits?|comes?|came|flies|leaves?|left|arrives?|
            arrived|goes|does|it|they|others?|remains?|lies|stands|follows?|makes?|gives?|
            carries|takes?|needs?|would|will|can|cannot|could|may|must|counts?|an?|the|
            this|that|each|one|to|still|only|nothing|fits|happens?|holds?|belongs|depends|
            differs|users|people|senders?|receivers?
        )\b",
        "name the thing: packets in flight, the backlog",
    ),
    (
        r"\b[Ss]o (?:many|much|long|few|often)\b",
        "give the number or a name",
    ),
    (
        r"\b(?:[Tt]ells?|[Tt]old|[Tt]elling)\b",
        "report, notify, indicate, distinguish",
    ),
    (r"\b(?:be|is|are|was|were) there\b", "arrives, exists"),
    (
        r"(?:^|[.;:,(] |\bfor |\bto |\bof )(?:[Ww]ho|[Ww]hoever) ",
        "a noun before it: a sender that",
    ),
    (
        r"(?x) \b(?: anew|of\ late|in\ the\ mean|for\ want\ of|at\ the\ soonest|at\ a\ glance|
            heeds?|hence|thus|besides|in\ company )\b",
        "again, recently, on average, at the earliest, follows, so, also",
    ),
    (r"\b[Mm]end(?:s|ed|ing)?\b", "fix, repair"),
    (
        r"(?x) (?:^|[.:;]\ )
            (?: Has\ (?:the|a|an|what|each|it|them|all|one|its|every)|Lets\ \w+\ be )\b",
        "an active verb",
    ),
    (
        r"\bof (?:the |an? |its |their )?\w+ of (?:the |an? |its |their )?\w+ of\b",
        "a compound noun",
    ),
];
const FIRST_WORDS: [&str; 6] = ["What", "How", "Who", "Those", "So", "Of"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The parts of the repository: each crate, and folders and files beside them.
fn parts() -> Vec<String> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<String> = names.map(|name| format!("crates/{name}")).collect();
    parts.sort();
    let others = [
        "docs",
        "fuzz",
        "gst",
        "python",
        "scripts",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    parts.extend(others.map(str::to_owned));
    parts
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        let is_read = path
            .extension()
            .is_some_and(|end| ["rs", "md", "py"].iter().any(|it| end == *it));
        found.extend(is_read.then(|| path.to_owned()));
        return;
    }
    if path.ends_with("target") {
        return;
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries.iter().for_each(|entry| files(entry, found));
}

/// Prose of a file by line number: comments of a program, and a document outside of code.
fn prose(path: &Path, text: &str) -> Vec<(usize, String)> {
    let code = Regex::new("`[^`]*`").unwrap();
    let is_document = path.extension().is_some_and(|end| end == "md");
    let mut is_fenced = false;
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let start = line.trim_start();
        if is_document {
            let is_fence = start.starts_with("```");
            is_fenced ^= is_fence;
            return (!is_fence && !is_fenced)
                .then(|| (index + 1, code.replace_all(line, "`x`").into_owned()));
        }
        let comment = ["///", "//!", "//", "# "]
            .iter()
            .find_map(|sign| start.strip_prefix(sign));
        comment.map(|comment| (index + 1, comment.trim_start().to_owned()))
    });
    lines.collect()
}

/// Whether a line begins a doc comment with a word that no function or thing is described by.
fn begins_badly(line: &str, before: Option<&str>) -> bool {
    let is_first = before.and_then(doc).is_none_or(str::is_empty);
    let text = doc(line).unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or_default();
    is_first && FIRST_WORDS.contains(&first)
}

/// Returns the text of a doc comment's line.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["///", "//!"]
        .iter()
        .find_map(|sign| line.strip_prefix(sign))
        .map(str::trim)
}

/// Returns the parts of a list, with their findings and their beginnings.
fn counts(text: &str) -> Vec<(String, u64, u64)> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (
            words[0].to_owned(),
            words[1].parse().unwrap(),
            words[2].parse().unwrap(),
        )
    })
    .collect()
}

#[test]
fn wording_only_becomes_plainer() {
    let patterns = PATTERNS.map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead));
    let mut found = HEADING.to_owned();
    let mut reports = Vec::new();
    for part in parts() {
        let mut paths = Vec::new();
        files(&root().join(&part), &mut paths);
        let (mut findings, mut beginnings) = (0, 0);
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            for (number, line) in prose(&path, &text) {
                for (pattern, instead) in &patterns {
                    let count = pattern.find_iter(&line).count();
                    if count > 0 {
                        findings += count;
                        reports
                            .push((part.clone(), format!("{name}:{number}: {line} ({instead})")));
                    }
                }
            }
            let lines: Vec<&str> = text.lines().collect();
            for (index, line) in lines.iter().enumerate() {
                let before = index.checked_sub(1).map(|index| lines[index]);
                if begins_badly(line, before) {
                    beginnings += 1;
                    reports.push((
                        part.clone(),
                        format!("{name}:{}: {}", index + 1, line.trim()),
                    ));
                }
            }
        }
        found.push_str(&format!("{part} {findings} {beginnings}\n"));
    }
    for (limit, now) in counts(LIMITS).into_iter().zip(counts(&found)) {
        assert_eq!(limit.0, now.0, "prose.txt becomes:\n{found}");
        let is_above = now.1 > limit.1 || now.2 > limit.2;
        let of_part: Vec<&str> = reports
            .iter()
            .filter(|(part, _)| *part == now.0)
            .map(|(_, place)| place.as_str())
            .collect();
        assert!(
            !is_above,
            "{}: {} and {} findings where {} and {} are allowed; see CONTRIBUTING.md\n{}",
            now.0,
            now.1,
            now.2,
            limit.1,
            limit.2,
            of_part.join("\n")
        );
    }
    assert_eq!(
        found, LIMITS,
        "the wording is plainer than its limits: prose.txt becomes:\n{found}"
    );
}

/// Names of the tests of a program's text.
fn names_of_tests(text: &str) -> Vec<String> {
    let attributes = r"#\[(?:tokio::)?test[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:async )?fn (\w+)";
    let name = Regex::new(attributes).unwrap();
    name.captures_iter(text)
        .map(|found| found[1].replace('_', " "))
        .collect()
}

/// Strings of at least four words outside of a file's tests, without the breaks of their lines.
fn sentences(text: &str) -> Vec<String> {
    let comment = Regex::new(r"(?m)^\s*//.*$").unwrap();
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let line_break = Regex::new(r"\\\n\s*").unwrap();
    let program = text.split("#[cfg(test)]").next().unwrap();
    literal
        .captures_iter(&comment.replace_all(program, ""))
        .map(|found| line_break.replace_all(&found[1], "").into_owned())
        .filter(|sentence| sentence.split_whitespace().count() >= 4)
        .collect()
}

#[test]
fn names_of_tests_and_messages_are_plain() {
    let patterns = PATTERNS.map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead));
    let mut reports = Vec::new();
    let mut name_count = 0;
    for (path, text) in repository::files(".rs") {
        let name = path.display().to_string();
        let names = names_of_tests(&text);
        name_count += names.len();
        let is_program = name.contains("/src/") && !name.contains("tests");
        let messages = if is_program {
            sentences(&text)
        } else {
            Vec::new()
        };
        for text in names.into_iter().chain(messages) {
            for (pattern, instead) in &patterns {
                if let Some(found) = pattern.find(&text) {
                    reports.push(format!(
                        "{name}: {:?} in {text:?} ({instead})",
                        found.as_str()
                    ));
                }
            }
        }
    }
    assert!(name_count > 3_000, "only {name_count} tests were found");
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[test]
fn tests_and_messages_are_found() {
    let text = "#[test]\n#[ignore]\nasync fn what_is_left() {}\nfn told() {}\n";
    assert_eq!(names_of_tests(text), ["what is left"]);
    let text = "f(\"one two three\");\n// \"not in a comment at all\"\ng(\"one \\\n   two \
                \\\"three\\\" four\");\n#[cfg(test)]\nh(\"not in tests at all\");";
    assert_eq!(sentences(text), [r#"one two \"three\" four"#]);
}
