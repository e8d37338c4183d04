//! The layout of tests: one program for a crate, and few tests that need a clock.

use std::path::Path;

use crate::repository::{files, workspace};

/// Most tests in real time. The number only falls: a slow machine breaks them, and they wait.
const MAX_IN_REAL_TIME: usize = 151;
/// Beginning of the comment that justifies tests in real time.
const REASON: &str = "Needs a clock: ";
/// Calls that wait for real time, or for another program.
const WAITS: [&str; 7] = [
    "thread::sleep(",
    "park_timeout(",
    ".recv_timeout(",
    "tokio::time::sleep(",
    "tokio::time::timeout(",
    "set_read_timeout(",
    "Running::",
];

/// Attribute of tests whose clock stands still while a task can run: their waits take no time.
const PAUSED: &str = "#[tokio::test(start_paused = true)]";

/// Helper of tests in real time that has a test of its own, which does not wait.
const HELPER: &str = "crates/cli/tests/walk/mod.rs";

/// Files of Rust in `crates`, without this one, with their texts.
fn sources() -> impl Iterator<Item = (String, String)> {
    files(".rs")
        .into_iter()
        .map(|(path, text)| (path.to_str().expect("UTF-8").to_owned(), text))
        .filter(|(path, _)| path.starts_with("crates/") && !path.ends_with("/test_programs.rs"))
}

fn test_count(text: &str) -> usize {
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
        .count()
}

/// Returns the part of a file that is compiled for tests alone, if it is in this file.
fn tests_of<'a>(path: &str, text: &'a str) -> Option<&'a str> {
    if path.contains("/tests/") || path.ends_with("tests.rs") {
        return Some(text);
    }
    let mut heads = text.match_indices("#[cfg(test)]\nmod ");
    let (at, _) = heads.find(|(at, head)| {
        let module = text[at + head.len()..].lines().next();
        module.is_some_and(|module| module.ends_with('{'))
    })?;
    Some(&text[at..])
}

fn is_in_real_time(path: &str, tests: &str) -> bool {
    path.contains("real_time") || tests.contains("mod real_time_tests {")
}

#[test]
fn each_crate_has_one_program_of_tests() {
    for (path, manifest) in files("Cargo.toml") {
        let folder = workspace().join(path.parent().expect("a folder"));
        if !path.starts_with("crates") || !folder.join("tests").is_dir() {
            continue;
        }
        let program_count = manifest.matches("[[test]]").count();
        let is_listed = program_count == 1 && manifest.contains("autotests = false");
        let is_alone = folder.join("tests/libsrt/main.rs").is_file() && program_count == 0;
        assert!(
            is_listed || is_alone,
            "{}: list one [[test]]",
            path.display()
        );
    }
}

/// Cargo compiles no file of `tests` that no module names, and says nothing.
#[test]
fn each_file_of_tests_is_a_module() {
    let sources: Vec<(String, String)> = sources().collect();
    for (path, _) in &sources {
        let path = Path::new(path);
        let (name, folder) = (path.file_stem().expect("a name"), path.parent());
        let folder = folder.expect("a folder").to_str().expect("UTF-8");
        if !folder.contains("/tests") || ["tests", "mod", "main"].map(Some).contains(&name.to_str())
        {
            continue;
        }
        let parents = ["/tests.rs", "/mod.rs", "/main.rs", ".rs"];
        let declaration = format!("mod {};", name.to_str().expect("UTF-8"));
        let is_module = parents
            .iter()
            .map(|parent| format!("{folder}{parent}"))
            .filter_map(|path| sources.iter().find(|(known, _)| *known == path))
            .any(|(_, text)| text.contains(&declaration));
        assert!(is_module, "{} is in no program", path.display());
    }
}

#[test]
fn tests_that_need_a_clock_are_few_and_say_why() {
    let mut count = 0;
    for (path, text) in sources() {
        let Some(tests) = tests_of(&path, &text) else {
            continue;
        };
        if !is_in_real_time(&path, tests) || test_count(tests) == 0 {
            continue;
        }
        count += test_count(tests);
        let is_own_file = path.contains("/tests/real_time/");
        let has_reason = !is_own_file || text.contains(REASON);
        assert!(
            has_reason,
            "{path}: say why it needs a clock: //! {REASON}…"
        );
    }
    println!("tests in real time: {count}");
    assert!(count <= MAX_IN_REAL_TIME, "{count} tests in real time");
}

/// The declaration of a module in real time is where its reason stands.
#[test]
fn modules_that_need_a_clock_say_why() {
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.starts_with("mod real_time_") {
                continue;
            }
            let above = lines[..at].iter().rev();
            let has_reason = above
                .take_while(|line| line.starts_with('#') || line.starts_with("//"))
                .any(|line| line.contains(REASON));
            assert!(has_reason, "{path}: say above {line:?}: // {REASON}…");
        }
    }
}

#[test]
fn no_other_test_waits() {
    for (path, text) in sources() {
        let Some(tests) = tests_of(&path, &text) else {
            continue;
        };
        if test_count(tests) == 0 || is_in_real_time(&path, tests) || path == HELPER {
            continue;
        }
        let is_paused = tests.contains(PAUSED) && !tests.contains("#[tokio::test]");
        for wait in WAITS {
            let is_virtual = is_paused && wait.starts_with("tokio::");
            assert!(
                is_virtual || !tests.contains(wait),
                "{path}: {wait}…) belongs into real_time"
            );
        }
    }
}
