//! Habits of Rust that other well-kept projects do not have. Each crate has a limit for each of
//! them, which may only fall. In 10,000 lines, quinn, noq, s2n-quic, str0m and ripgrep have 0 to 7
//! matches on a bool, 1 to 5 named closures and 0 to 1 unused parameters of `filter`.

use std::collections::BTreeMap;

use regex::Regex;

use crate::repository;

const LIMITS: &str = include_str!("dialect.txt");
const HEADING: &str =
    "# crate, matches on a bool, closures with names, filter(|_| …), names bound again\n";

/// Matches on a bool, closures with names, and conditions that ignore the value.
const PATTERNS: [&str; 3] = [
    r"(?m)^\s*(?:true|false)(?: if [^=]*)? => ",
    r"(?m)^\s*let (?:mut )?[a-z_]+ = (?:move )?\|",
    r"\.filter\(\|_\|",
];
/// Distance in lines within which a name is bound again.
const NEAR: usize = 5;

/// Returns the lines `let x = x…` that follow another `let x = …`.
fn rebound(text: &str, binding: &Regex) -> usize {
    let mut last: Vec<(&str, usize)> = Vec::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let Some(found) = binding.captures(line) else {
            continue;
        };
        let (name, value) = (found.get(1).unwrap().as_str(), &line[found[0].len()..]);
        let value = value.strip_prefix("Some(").unwrap_or(value);
        let goes_on = value.strip_prefix(name).is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
        });
        let is_near = last
            .iter()
            .rev()
            .find(|(known, _)| *known == name)
            .is_some_and(|(_, at)| number - at <= NEAR);
        count += usize::from(goes_on && is_near);
        last.push((name, number));
    }
    count
}

/// Returns the number of each habit in a text.
fn habits(text: &str, patterns: &[Regex; 3], binding: &Regex) -> [usize; 4] {
    let [matches, closures, conditions] = patterns;
    [
        matches.find_iter(text).count(),
        closures.find_iter(text).count(),
        conditions.find_iter(text).count(),
        rebound(text, binding),
    ]
}

/// Returns the numbers of a line of the list.
fn numbers(line: &str) -> Vec<u64> {
    line.split(' ')
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[test]
fn habits_only_become_fewer() {
    let patterns = PATTERNS.map(|pattern| Regex::new(pattern).unwrap());
    let binding = Regex::new(r"^\s*let (?:mut )?(\w+)(?:: [^=]+)? = ").unwrap();
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for (path, text) in repository::files(".rs") {
        let Ok(below) = path.strip_prefix("crates") else {
            continue;
        };
        let name = below.iter().next().unwrap().to_string_lossy().into_owned();
        let of_crate = counts.entry(name).or_default();
        for (sum, count) in of_crate.iter_mut().zip(habits(&text, &patterns, &binding)) {
            *sum += count;
        }
    }
    let mut found = HEADING.to_owned();
    for (name, [matches, closures, conditions, again]) in counts {
        found += &format!("{name} {matches} {closures} {conditions} {again}\n");
    }
    for (limit, now) in LIMITS.lines().zip(found.lines()) {
        let pairs = numbers(now).into_iter().zip(numbers(limit));
        assert!(
            pairs.into_iter().all(|(now, limit)| now <= limit),
            "{now}, where {limit} are allowed: write if and else, a function or a block, and new \
             names for new values"
        );
    }
    assert_eq!(
        found, LIMITS,
        "there are fewer: dialect.txt becomes\n{found}"
    );
}
