//! Reports of claims: their contents, and that kept runs change nothing.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anabranch_lab::{RunOptions, Scenario};
use anabranch_papers::{
    Basis, Cache, Case, Claim, Column, Columns, Expect, Finding, Judgement, PageOptions, Samples,
    Study, StudyOptions, Swap, claims, findings_html, findings_json, findings_table, selected,
};
use tempfile::TempDir;

fn options(cache: Option<Cache>) -> StudyOptions {
    StudyOptions {
        seed_count: 1,
        takes_all_seeds: false,
        threads: 0,
        cache,
    }
}

fn findings(claims: &[&'static Claim], swap: Swap<'_>, cache: Option<Cache>) -> Vec<Finding> {
    let study =
        Study::new(claims, swap, Columns::AsNamed).unwrap_or_else(|error| panic!("{error}"));
    study.findings(&options(cache), &|_| ()).unwrap()
}

fn html(findings: &[Finding], seed_count: u64) -> String {
    let options = PageOptions {
        seed_count,
        ..PageOptions::default()
    };
    findings_html(findings, &options)
}

fn named(id: &str) -> Vec<&'static Claim> {
    selected(&[id.to_owned()]).unwrap()
}

#[test]
fn runs_from_the_cache_give_the_same_report() {
    fn entries(folder: &TempDir) -> Vec<PathBuf> {
        let version = std::fs::read_dir(folder.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let entries = std::fs::read_dir(version.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    }

    fn cache(folder: &TempDir) -> Option<Cache> {
        Cache::open(folder.path()).ok()
    }

    let folder = tempfile::tempdir().unwrap();
    let claims = named("S0-m10");
    let fresh = findings(&claims, Swap::default(), None);
    let written = findings(&claims, Swap::default(), cache(&folder));
    // Leftovers of an interrupted run: some whole entries, and one half.
    assert_eq!(entries(&folder).len(), 3);
    std::fs::remove_file(&entries(&folder)[0]).unwrap();
    let text = std::fs::read(&entries(&folder)[0]).unwrap();
    std::fs::write(&entries(&folder)[0], &text[..100]).unwrap();
    let resumed = findings(&claims, Swap::default(), cache(&folder));
    assert_eq!(entries(&folder).len(), 3);
    let read = findings(&claims, Swap::default(), cache(&folder));
    for other in [written, resumed, read] {
        assert_eq!(findings_json(&other, 1), findings_json(&fresh, 1));
        assert_eq!(html(&other, 1), html(&fresh, 1));
    }
}

#[test]
fn the_findings_keep_their_contract() {
    let findings = findings(&named("S0-m10"), Swap::default(), None);
    let value: serde_json::Value = serde_json::from_str(&findings_json(&findings, 1)).unwrap();
    assert_eq!(value["schema"], "anabranch-findings/1");
    let finding = &value["findings"][0];
    assert_eq!(finding["id"], "S0-m10");
    assert_eq!(finding["paper"], "zhang-delay-bbr");
    assert_eq!(finding["verdict"], "holds");
    assert_eq!(finding["basis"], "by construction");
    assert_eq!(finding["seed_count"], 1);
    for key in [
        "figure",
        "claim",
        "criterion",
        "controller",
        "paper_value",
        "why",
    ] {
        assert!(finding.get(key).is_some(), "no {key}");
    }
    for key in ["median", "min", "max"] {
        assert!(finding["ours"][key].is_f64(), "no {key}");
    }
    assert_eq!(finding["values"][0]["unit"], "ms");
    assert_eq!(finding["expects"][0]["is_met"], true);
}

/// Few seeds suffice where all runs are equal; with the option, all are taken.
#[test]
fn a_clear_verdict_takes_few_seeds_unless_all_are_asked_for() {
    for (takes_all_seeds, expected) in [(false, 4), (true, 8)] {
        let study = Study::new(&named("S2-C7"), Swap::default(), Columns::AsNamed).unwrap();
        let options = StudyOptions {
            seed_count: 8,
            takes_all_seeds,
            ..options(None)
        };
        let findings = study.findings(&options, &|_| ()).unwrap();
        assert_eq!(findings[0].judged.seed_count, expected);
        assert_eq!(
            findings[0].judged.judgement.values[0].samples.0.len(),
            expected as usize
        );
    }
}

/// Claims about the set-up and by construction are not counted as measured.
#[test]
fn claims_are_counted_by_their_kind() {
    let claims = [
        named("S0-T1"),
        named("S0-m10"),
        named("S2-C7"),
        named("S2-F1"),
    ]
    .concat();
    let text = findings_table(&findings(&claims, Swap::default(), None), 1);
    for line in [
        "measured, as published, bare endpoint: 1 hold, 0 differ",
        "set-up: 1 hold, 0 differ",
        "by construction: 2 hold, 0 differ",
    ] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

/// Claims without a number in the paper state our bounds as a criterion.
#[test]
fn measured_claims_state_a_criterion() {
    for claim in claims() {
        let says_all = ["ns3-order", "own-aim", "own-aim-fec"].contains(&claim.id);
        let is_checked = claim.basis == Basis::SetUp;
        assert!(
            !claim.criterion.is_empty() || says_all || is_checked,
            "{claim:?}"
        );
    }
}

#[path = "../build.rs"]
#[allow(dead_code, reason = "the test asks for a part of it")]
mod build;

/// Kept runs are valid for the code that they execute, whatever the program and the claims.
#[test]
fn the_code_of_a_run_is_that_of_the_laboratory() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates: Vec<String> = build::crates(&root).into_iter().collect();
    let expected = [
        "controllers",
        "core",
        "fec",
        "lab",
        "link",
        "schedulers",
        "sim",
        "units",
        "video",
    ];
    assert_eq!(crates, expected);
}

/// The verdict on the paper's algorithm stands beside the different one on ours.
#[test]
fn a_claim_about_a_controller_of_ours_is_also_judged_as_published() {
    fn of(column: Column, finding: &Finding) -> Samples {
        finding.column(column).unwrap().judgement.values[0]
            .samples
            .clone()
    }

    let study = Study::new(&named("S0-m11"), Swap::default(), Columns::Both)
        .unwrap_or_else(|error| panic!("{error}"));
    let findings = study.findings(&options(None), &|_| ()).unwrap();
    let [finding] = &findings[..] else {
        panic!("one claim")
    };
    let published = finding.as_published.as_ref().unwrap();
    assert_eq!(published.controller, "delay-bbr");
    assert_ne!(of(Column::Published, finding), of(Column::Ours, finding));
    let value: serde_json::Value = serde_json::from_str(&findings_json(&findings, 1)).unwrap();
    assert_eq!(
        value["findings"][0]["as_published"]["controller"],
        "delay-bbr"
    );
}

/// ARC runs as published, so it has one column; our own experiments have the other.
#[test]
fn published_or_own_claims_have_one_column() {
    fn columns(id: &str) -> [bool; 2] {
        let study = Study::new(&named(id), Swap::default(), Columns::Both).unwrap();
        let findings = study.findings(&options(None), &|_| ()).unwrap();
        [Column::Published, Column::Ours].map(|column| findings[0].column(column).is_some())
    }
    assert_eq!(columns("S0-T1"), [true, false]);
    assert_eq!(columns("own-stall"), [false, true]);
}

/// A spread of zero over many seeds is no precision if chance has no part.
#[test]
fn where_all_seeds_of_a_claim_give_the_same_result_it_is_said() {
    const SENTENCE: &str = "all seeds gave the same result";
    for (id, seed_count, is_said) in [
        ("S0-m10", 2, true),
        ("S0-m10", 1, false),
        ("own-stall", 2, false),
    ] {
        let study = Study::new(&named(id), Swap::default(), Columns::AsNamed).unwrap();
        let options = StudyOptions {
            seed_count,
            ..options(None)
        };
        let findings = study.findings(&options, &|_| ()).unwrap();
        let texts = [
            findings_table(&findings, seed_count),
            html(&findings, seed_count),
        ];
        for text in texts {
            assert_eq!(text.contains(SENTENCE), is_said, "{id}, {seed_count} seeds");
        }
    }
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let findings = findings(&named("S0-F7"), Swap::default(), None);
    let options = PageOptions {
        seed_count: 1,
        program: "<program>",
        site: None,
    };
    let page = findings_html(&findings, &options);
    for foreign in ["<script", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // A name space is no address.
    let addresses =
        page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(addresses, 0);
    assert!(page.contains("<svg ") && page.contains("&lt;program&gt;"));
    assert!(page.contains("sending rate, kbit/s") && page.contains("id=\"S0-F7\""));
    assert_eq!(page.matches("<h1>").count(), 1);
    for level in ["<h2 ", "<h3>", "<h4>"] {
        assert!(page.contains(level), "{level}");
    }
}

#[test]
fn each_claim_names_its_scenarios_and_command_and_opens_them_in_a_site() {
    fn of_site(site: Option<&str>, findings: &[Finding]) -> String {
        let options = PageOptions {
            site,
            ..PageOptions::default()
        };
        findings_html(findings, &options)
    }

    let findings = findings(&named("S0-F7"), Swap::default(), None);
    let page = of_site(None, &findings);
    for part in [
        "<code>anabranch-lab reproduce S0-F7</code>",
        "<code>anabranch-lab reproduce zhang-delay-bbr</code>",
        "<code>scenarios/zhang-delay-bbr/reno.toml</code>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("playground"));
    for (site, start) in [
        (".", "."),
        ("https://example.com/a/", "https://example.com/a"),
    ] {
        let link = format!("href=\"{start}/playground/#scenario=zhang-delay-bbr/reno\"");
        assert!(of_site(Some(site), &findings).contains(&link), "{link}");
    }
}

#[test]
fn the_scenarios_of_all_claims_are_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for claim in claims() {
        for file in claim.files() {
            assert!(folder.join(&file).is_file(), "{}: {file}", claim.id);
        }
    }
}

/// A reader repeats a run with the command of the report, and finds its hash.
#[test]
fn the_commands_of_the_report_repeat_its_runs() {
    for (id, least) in [("S0-F7", 2), ("S2-F4", 1), ("own-stall", 1)] {
        let study = Study::new(&named(id), Swap::default(), Columns::Both).unwrap();
        let findings = study.findings(&options(None), &|_| ()).unwrap();
        let columns = [Column::Published, Column::PublishedOnOurs, Column::Ours];
        let judged = columns
            .into_iter()
            .filter_map(|column| findings[0].column(column));
        let runs = judged
            .flat_map(|judged| &judged.runs)
            .filter(|run| run.is_exact);
        let mut count = 0;
        for run in runs {
            let mut words = run
                .command
                .strip_prefix("anabranch-lab run scenarios/")
                .unwrap()
                .split(" --set ");
            let file = words.next().unwrap();
            let settings: Vec<String> = words
                .map(|word| word.trim_matches('\'').to_owned())
                .collect();
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
            let scenario = Scenario::load(&folder.join(file), &settings).unwrap();
            let report = anabranch_lab::run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
            assert_eq!(report.runs[0].trace_hash, run.trace_hash, "{}", run.command);
            count += 1;
        }
        assert!(count >= least, "{id}: {count} exact commands");
    }
}

#[test]
fn outages_are_shaded_in_pictures_over_time() {
    fn of_id(id: &str) -> String {
        html(&findings(&named(id), Swap::default(), None), 1)
    }
    let shade = "fill-opacity=\"0.25\"";
    assert!(of_id("own-outage").contains(shade) && !of_id("S0-F7").contains(shade));
}

/// A claim whose cases take one seed is judged by one, and makes no more runs.
#[test]
fn a_case_takes_no_more_seeds_than_it_says() {
    static CLAIM: LazyLock<Claim> = LazyLock::new(|| Claim {
        cases: |_| {
            let text = "duration = \"1 s\"\nlinks.l = { rate = \"1 Mbit/s\" }\n\
                        routes.r = { forward = [\"l\"], reverse = [\"l\"] }\n\
                        flows = [{ paths = [\"r\"] }]";
            vec![Case::new("one", "one.toml", text).seeds(2)]
        },
        judge: |evidence| {
            let mut judgement = Judgement::new();
            let runs = evidence.runs("one").len();
            judgement.expect(Expect::that(format!("{runs} runs"), true));
            judgement
        },
        ..*named("S0-m10")[0]
    });
    let study = Study::new(&[&CLAIM], Swap::default(), Columns::AsNamed).unwrap();
    for (seed_count, expected) in [(1, 1), (2, 2), (9, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let options = StudyOptions {
            seed_count,
            ..options(Cache::open(folder.path()).ok())
        };
        let findings = study.findings(&options, &|_| ()).unwrap();
        let judged = &findings[0].judged;
        assert_eq!(judged.seed_count, expected);
        assert_eq!(judged.judgement.expects[0].text, format!("{expected} runs"));
    }
}
