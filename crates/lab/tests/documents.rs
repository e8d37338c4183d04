//! The report that docs/scenarios.md shows is that of a run.

use std::path::Path;

use anabranch_lab::{RunOptions, Scenario, json, run};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/scenarios.md");
/// Mark of an omitted part on the page.
const LEFT_OUT: &str = "…";

#[test]
fn the_report_on_the_page_is_that_of_a_run() {
    let start = PAGE.find("{\n  \"schema\": \"anabranch-report/1\"");
    let shown = &PAGE[start.expect("the page shows a report")..];
    let shown = &shown[..shown.find("```").expect("the report ends")];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-paths.toml");
    let scenario = Scenario::load(&path, &[]).unwrap();
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let report: Value = serde_json::from_str(&json(&report)).unwrap();
    serde_json::from_str::<Value>(shown).expect("the report on the page is JSON");
    let mut page = Page::default();
    let expected = page.filled(shown, &report);
    assert_eq!(
        page.differences,
        Vec::<String>::new(),
        "the page becomes:\n{expected}"
    );
}

/// Walks over the text of a report, and writes another report's values into it.
#[derive(Default)]
struct Page {
    /// Keys and indices of the value, the innermost last.
    place: Vec<String>,
    differences: Vec<String>,
}

impl Page {
    fn filled(&mut self, text: &str, report: &Value) -> String {
        let mut filled = String::new();
        let mut rest = text;
        // Whether the next scalar is a key, by container from the outside in.
        let mut is_key: Vec<bool> = Vec::new();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' => rest[1..].find('"').expect("a string ends") + 2,
                '-' | '0'..='9' | 'a'..='z' => rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
                    .unwrap_or(rest.len()),
                other => other.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            rest = after;
            match first {
                '{' | '[' => {
                    is_key.push(first == '{');
                    let start = if first == '{' { "" } else { "0" };
                    self.place.push(start.to_owned());
                }
                '}' | ']' => {
                    is_key.pop();
                    self.place.pop();
                }
                ':' => *is_key.last_mut().unwrap() = false,
                ',' => self.next(is_key.last_mut().unwrap()),
                c if c.is_whitespace() => {}
                _ if is_key.last() == Some(&true) => {
                    *self.place.last_mut().unwrap() = token.trim_matches('"').to_owned();
                }
                _ => {
                    filled.push_str(&self.value(token, report));
                    continue;
                }
            }
            filled.push_str(token);
        }
        filled
    }

    /// Goes to the next entry of the innermost table or list.
    fn next(&mut self, is_key: &mut bool) {
        let place = self.place.last_mut().unwrap();
        match place.parse::<usize>() {
            Ok(index) => *place = (index + 1).to_string(),
            Err(_) => *is_key = true,
        }
    }

    /// Returns a value of the run, with as many digits as on the page.
    fn value(&mut self, token: &str, report: &Value) -> String {
        let is_left_out =
            token.contains(LEFT_OUT) || self.place.last().is_some_and(|key| key == LEFT_OUT);
        if is_left_out {
            return token.to_owned();
        }
        let pointer = format!("/{}", self.place.join("/"));
        let found = match report.pointer(&pointer) {
            Some(Value::Number(number)) => match token.split_once('.') {
                Some((_, digits)) => format!("{:.*}", digits.len(), number.as_f64().unwrap()),
                None => number.to_string(),
            },
            Some(other) => other.to_string(),
            None => "missing".to_owned(),
        };
        if found != token {
            self.differences
                .push(format!("{pointer}: {token}, found {found}"));
        }
        found
    }
}
