//! A part of the claims, with few seeds: each has the verdict of `data/expected.csv`, *holds* or
//! *differs*. `make papers` runs all claims. The page of results must show the numbers of these
//! runs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anabranch_lab::metrics::Unit;
use anabranch_papers::{
    Basis, Column, Columns, Finding, Judged, Measured, Study, StudyOptions, Swap, fingerprint,
    selected,
};

const EXPECTED: &str = include_str!("data/expected.csv");
const PAGE: &str = include_str!("../../../docs/results.md");
const COLUMNS: [Column; 3] = [Column::Published, Column::PublishedOnOurs, Column::Ours];

/// Findings for the claims of the file, with three seeds.
static FINDINGS: LazyLock<Vec<Finding>> = LazyLock::new(|| {
    let ids: Vec<String> = expected().keys().map(|id| (*id).to_owned()).collect();
    let claims = selected(&ids).unwrap_or_else(|id| panic!("expected.csv: no claim {id}"));
    assert_eq!(claims.len(), ids.len(), "a name means more than one claim");
    let study = Study::new(&claims, Swap::default(), Columns::Both).unwrap();
    let options = StudyOptions {
        seed_count: 3,
        takes_all_seeds: true,
        threads: 0,
        cache: None,
    };
    study.findings(&options, &|_| ()).unwrap()
});

/// Returns the verdict of each column by claim; `-` for a column that it does not have.
fn expected() -> BTreeMap<&'static str, [&'static str; 3]> {
    let lines = EXPECTED.lines().filter(|line| !line.starts_with('#'));
    lines
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let &[claim, published, on_ours, ours] = &cells[..] else {
                panic!("expected.csv: {line:?} has not four cells");
            };
            (claim, [published, on_ours, ours])
        })
        .collect()
}

fn verdicts(finding: &Finding) -> [&'static str; 3] {
    COLUMNS.map(|column| {
        let judged = finding.column(column);
        judged.map_or("-", |judged| judged.verdict.name())
    })
}

/// Returns the expectations that a claim does not meet, for the message of a failed test.
fn broken(finding: &Finding) -> Vec<&str> {
    let judged = COLUMNS
        .into_iter()
        .filter_map(|column| finding.column(column));
    let expects = judged.flat_map(|judged| &judged.judgement.expects);
    let unmet = expects.filter(|expect| !expect.is_met);
    unmet.map(|expect| &*expect.text).collect()
}

#[test]
fn claims_hold_and_differ_as_expected() {
    let expected = expected();
    let changed: Vec<String> = FINDINGS
        .iter()
        .filter(|finding| verdicts(finding) != expected[finding.claim.id])
        .map(|finding| {
            let (id, found) = (finding.claim.id, verdicts(finding));
            format!(
                "{id}: {found:?}, expected {:?}; {:#?}",
                expected[id],
                broken(finding)
            )
        })
        .collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

/// Returns the cells of a table of the page, row by row, without its heading.
fn rows(name: &str) -> Vec<Vec<&'static str>> {
    let (begin, end) = (
        format!("<!-- begin {name} -->"),
        format!("<!-- end {name} -->"),
    );
    let (_, block) = PAGE.split_once(&begin).expect("the page has the table");
    let (block, _) = block.split_once(&end).expect("it ends");
    let lines = block.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns factor, digits and name of a unit on the page.
fn shown_in(unit: Unit) -> (f64, i32, &'static str) {
    match unit {
        Unit::Share => (100.0, 2, " %"),
        Unit::Milliseconds => (1.0, 0, " ms"),
        Unit::BitsPerSecond => (1e-3, 0, " kbit/s"),
        Unit::Bytes => (1e-3, 1, " kB"),
        Unit::Number => (1.0, 3, ""),
    }
}

/// Returns the least and the largest number of a cell such as `12 (10–13) ms`, or of one without a
/// range.
fn range(text: &str, unit: &str) -> Option<(f64, f64)> {
    let text = text.strip_suffix(unit)?;
    match text.split_once(" (") {
        Some((_, range)) => {
            let (low, high) = range.strip_suffix(')')?.split_once('–')?;
            Some((low.parse().ok()?, high.parse().ok()?))
        }
        None => text.parse().ok().map(|number| (number, number)),
    }
}

/// Returns whether all seeds lie within the range of a cell, which is of these seeds and others.
fn is_covered(text: &str, measured: &Measured) -> bool {
    fn rounding(bound: f64, digits: i32) -> f64 {
        if bound.abs() >= 100.0 {
            0.5
        } else {
            0.5 * 10_f64.powi(-digits)
        }
    }

    let (factor, digits, unit) = shown_in(measured.unit);
    let Some((low, high)) = range(text, unit) else {
        return false;
    };
    let mut values = measured
        .samples
        .0
        .iter()
        .map(|value| value * factor)
        .map(|value| {
            let slack = 1e-9;
            (low - rounding(low, digits) - slack..=high + rounding(high, digits) + slack)
                .contains(&value)
        });
    values.all(|is_covered| is_covered)
}

/// Returns the difference between a cell of the page and a run; `None` if there is none.
fn contradiction(cell: &str, judged: Option<&Judged>) -> Option<String> {
    let Some(judged) = judged else {
        return (cell != "–").then(|| format!("{cell:?}, but there is no such column"));
    };
    let verdict = judged.verdict.name();
    let Some((on_page, number)) = cell.split_once(": ") else {
        return Some(format!("{cell:?} has no verdict and number"));
    };
    let first = judged.judgement.values.first();
    let is_said = match first.filter(|value| value.samples.spread().is_some()) {
        Some(value) => is_covered(number, value),
        None => number == "–",
    };
    let found = first.map(|value| (&value.name, &value.samples.0));
    (on_page != verdict || !is_said).then(|| format!("{cell:?}, but found {verdict}: {found:?}"))
}

#[test]
fn the_page_of_results_says_what_runs_say() {
    let rows = rows("verdicts");
    let mut wrong = Vec::new();
    let measured = FINDINGS
        .iter()
        .filter(|one| one.claim.basis == Basis::Measured);
    for finding in measured {
        let id = finding.claim.id;
        let Some(row) = rows.iter().find(|row| row[0] == id) else {
            wrong.push(format!("{id} is not on the page"));
            continue;
        };
        let mut cells = [row[4], row[5], row[6]];
        if cells[1] == "=" {
            cells[1] = cells[0];
        }
        for (cell, column) in cells.into_iter().zip(COLUMNS) {
            let contradiction = contradiction(cell, finding.column(column));
            wrong.extend(contradiction.map(|text| format!("{id}, {column:?}: {text}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/results.md is behind the program; `make results` writes it:\n{}",
        wrong.join("\n")
    );
}

/// The page is of these traces and these claims, all of it.
#[test]
fn the_page_of_results_is_of_these_runs() {
    let fingerprint = fingerprint();
    assert!(
        PAGE.contains(&format!(
            "Fingerprint of the traces and claims: `{fingerprint}`"
        )),
        "docs/results.md is of other runs than {fingerprint}; `make results` writes it"
    );
}

#[test]
fn numbers_of_the_page_are_read_as_they_are_written() {
    assert_eq!(range("393 (369–402) ms", " ms"), Some((369.0, 402.0)));
    assert_eq!(range("0.95", ""), Some((0.95, 0.95)));
    assert_eq!(range("3.72 (3.53–4.22) %", " %"), Some((3.53, 4.22)));
    assert_eq!(range("12 ms", " kB"), None);
}
