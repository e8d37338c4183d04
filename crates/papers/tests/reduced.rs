//! A part of the claims, with few seeds: that those which hold do, and that those which differ
//! still do. `data/expected.csv` has both; `make papers` runs all claims.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anabranch_papers::{Column, Columns, Finding, Study, StudyOptions, Swap, selected};

const EXPECTED: &str = include_str!("data/expected.csv");
const COLUMNS: [Column; 3] = [Column::Published, Column::PublishedOnOurs, Column::Ours];

/// The claims of the file, with two seeds.
static FINDINGS: LazyLock<Vec<Finding>> = LazyLock::new(|| {
    let ids: Vec<String> = expected().keys().map(|id| (*id).to_owned()).collect();
    let claims = selected(&ids).unwrap_or_else(|id| panic!("expected.csv: no claim {id}"));
    assert_eq!(claims.len(), ids.len(), "a name means more than one claim");
    let study = Study::new(&claims, Swap::default(), Columns::Both).unwrap();
    let options = StudyOptions {
        seed_count: 2,
        takes_all_seeds: true,
        threads: 0,
        cache: None,
    };
    study.findings(&options, &|_| ()).unwrap()
});

/// By claim, the verdict of each column; `-`: it has none.
fn expected() -> BTreeMap<&'static str, [&'static str; 3]> {
    let lines = EXPECTED.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let &[claim, published, on_ours, ours] = &cells[..] else {
            panic!("expected.csv: {line:?} has not four cells");
        };
        (claim, [published, on_ours, ours])
    };
    lines.skip(1).map(read).collect()
}

fn verdicts(finding: &Finding) -> [&'static str; 3] {
    COLUMNS.map(|column| {
        let judged = finding.column(column);
        judged.map_or("-", |judged| judged.verdict.name())
    })
}

/// What broke the expectation of a claim, for whoever has to find out why.
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
