//! Lines of code of a crate: neither blank, nor comments, nor compiled for tests alone.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Comments, then literals of strings, raw strings and characters.
static MASKED: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        r#"(?s)(?P<comment>//[^\n]*|/\*.*?\*/)"#,
        r###"b?r##".*?"##|b?r#".*?"#|b?r".*?""###,
        r#""(?:\\.|[^"\\])*"|'(?:\\[^']*|[^\\'])'"#,
    ];
    Regex::new(&alternatives.join("|")).unwrap()
});
/// Attribute of an item that is compiled for tests alone.
static OF_TESTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\[cfg\([^\]]*\btest\b[^\]]*\)\]").unwrap());
/// Module in a file of its own.
static MODULE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bmod (\w+)\s*;").unwrap());

/// Returns the number of code lines of these files: their paths from `src/` on, and their texts.
pub fn code_lines(files: &[(String, &String)]) -> usize {
    let mut of_tests = BTreeSet::new();
    let mut counts = Vec::new();
    for (path, text) in files {
        let (code, modules) = without_tests(&masked(text));
        let folder = match path.trim_end_matches(".rs") {
            "lib" => String::new(),
            module => format!("{module}/"),
        };
        of_tests.extend(modules.iter().map(|module| format!("{folder}{module}")));
        let lines = code.lines().filter(|line| !line.trim().is_empty());
        counts.push((path, lines.count()));
    }
    let counted = counts
        .iter()
        .filter(|(path, _)| !is_of_tests(path, &of_tests));
    counted.map(|(_, count)| count).sum()
}

/// Returns whether a file is one of these modules, or within one.
fn is_of_tests(path: &str, of_tests: &BTreeSet<String>) -> bool {
    let module = path.trim_end_matches(".rs");
    let mut around = module.match_indices('/').map(|(end, _)| &module[..end]);
    of_tests.contains(module) || around.any(|folder| of_tests.contains(folder))
}

/// Returns the text without comments, and with nothing to be read in its literals.
fn masked(text: &str) -> String {
    MASKED
        .replace_all(text, |found: &Captures<'_>| match found.name("comment") {
            Some(_) => String::new(),
            None => {
                let letters = found[0].chars().map(|it| if it == '\n' { it } else { 'x' });
                letters.collect()
            }
        })
        .into_owned()
}

/// Returns masked code without the items of tests, and the names of their modules.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let (mut kept, mut modules) = (String::new(), Vec::new());
    let mut rest = code;
    while let Some(found) = OF_TESTS.find(rest) {
        kept.push_str(&rest[..found.start()]);
        let (item, behind) = rest[found.end()..].split_at(end_of_item(&rest[found.end()..]));
        modules.extend(MODULE.captures(item).map(|name| name[1].to_owned()));
        rest = behind;
    }
    kept.push_str(rest);
    (kept, modules)
}

/// Returns the end of the item with which this code begins: its last brace, or a semicolon.
fn end_of_item(code: &str) -> usize {
    let mut depth = 0;
    for (index, letter) in code.char_indices() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (letter == '}' || letter == ';') {
            return index + 1;
        }
    }
    code.len()
}

#[test]
fn blank_lines_comments_and_tests_are_no_code() {
    let text = r##"
//! Comment.
use a::b; // another

/* fn of_a_comment() {
} */
fn counted(quote: char) -> &'static str {
    match quote {
        '"' => "//",
        _ => r#"a
b"#,
    }
}

#[cfg(test)]
use c::d;
#[cfg(test)]
mod tests;

#[cfg(test)]
mod more_tests {
    fn of_tests() {}
}
"##;
    let [code, tests] = [text, "fn of_tests() {}"].map(str::to_owned);
    for paths in [["lib.rs", "tests.rs"], ["a.rs", "a/tests/b.rs"]] {
        let [of_code, of_tests] = paths.map(str::to_owned);
        assert_eq!(code_lines(&[(of_code, &code), (of_tests, &tests)]), 8);
    }
}
