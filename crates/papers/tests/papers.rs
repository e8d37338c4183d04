//! Published claims: that their verdicts can fail, and that runs which are kept change nothing.

use anabranch_papers::{
    Cache, Claim, Column, Columns, Expect, Finding, Study, StudyOptions, Subject, Swap, Verdict,
    claims, findings_html, findings_json, findings_table, selected,
};

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

fn named(id: &str) -> Vec<&'static Claim> {
    selected(&[id.to_owned()]).unwrap()
}

/// A claim about a controller that holds for one which hears nothing says nothing.
#[test]
fn no_claim_holds_for_a_controller_at_a_fixed_rate() {
    let is_meant = |claim: &Claim| matches!(claim.subject, Subject::Controller(_));
    let swap = Swap {
        controller: Some("fixed"),
        scheduler: None,
    };
    no_claim_holds(is_meant, &[swap]);
}

/// A claim about a scheduler that holds for one which only counts packets says nothing.
#[test]
fn no_claim_holds_for_a_scheduler_that_heeds_no_delay() {
    let is_meant = |claim: &Claim| matches!(claim.subject, Subject::Scheduler(_));
    let swaps = ["wrr", "round-robin"].map(|scheduler| Swap {
        controller: None,
        scheduler: Some(scheduler),
    });
    no_claim_holds(is_meant, &swaps);
}

/// With none of what is swapped in a claim holds; and with some of it something is not as expected
/// any more that was: what differs anyway proves nothing.
fn no_claim_holds(is_meant: fn(&Claim) -> bool, swaps: &[Swap<'_>]) {
    let folder = tempfile::tempdir().unwrap();
    let claims: Vec<&'static Claim> = claims().filter(|claim| is_meant(claim)).collect();
    assert!(!claims.is_empty());
    // The runs of those that a claim compares with are the same in all.
    let of = |swap| findings(&claims, swap, Cache::open(folder.path()).ok());
    let ours = of(Swap::default());
    let swapped: Vec<Vec<Finding>> = swaps.iter().map(|swap| of(*swap)).collect();
    for (place, ours) in ours.iter().enumerate() {
        let unmoved = swapped
            .iter()
            .map(|swapped| not_moved(ours, &swapped[place]));
        let unmoved: Vec<Pairs> = unmoved.flatten().collect();
        let has_moved = unmoved.len() < swaps.len();
        assert!(has_moved, "{:?}: {unmoved:#?}", ours.claim);
    }
}

/// What a claim expected of the one that it is about, and of the one in its place.
type Pairs = Vec<(Expect, Expect)>;

/// What the claim expects, if nothing of it was met and is not any more.
fn not_moved(ours: &Finding, swapped: &Finding) -> Option<Pairs> {
    let (id, verdict) = (swapped.claim.id, swapped.judged.verdict);
    let [before, after] = [ours, swapped].map(|finding| &finding.judged.judgement.expects);
    assert_ne!(verdict, Verdict::Holds, "{id}: {after:#?}");
    assert_eq!(before.len(), after.len(), "{id}");
    assert!(
        !after.is_empty() || verdict == Verdict::CannotBeKnown,
        "{id}"
    );
    let pairs: Pairs = before.iter().cloned().zip(after.iter().cloned()).collect();
    let has_moved = pairs
        .iter()
        .any(|(ours, other)| ours.is_met && !other.is_met);
    // Of what nobody can know there is nothing to expect.
    (!has_moved && verdict != Verdict::CannotBeKnown).then_some(pairs)
}

#[test]
fn runs_from_the_cache_give_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    let cache = || Cache::open(folder.path()).ok();
    let claims = named("S0-m10");
    let fresh = findings(&claims, Swap::default(), None);
    let written = findings(&claims, Swap::default(), cache());
    // What an interrupted run leaves: some entries whole, one half.
    let entries = || {
        let version = std::fs::read_dir(folder.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let entries = std::fs::read_dir(version.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    assert_eq!(entries().len(), 3);
    std::fs::remove_file(&entries()[0]).unwrap();
    let text = std::fs::read(&entries()[0]).unwrap();
    std::fs::write(&entries()[0], &text[..100]).unwrap();
    let resumed = findings(&claims, Swap::default(), cache());
    assert_eq!(entries().len(), 3);
    let read = findings(&claims, Swap::default(), cache());
    for other in [written, resumed, read] {
        assert_eq!(findings_json(&other, 1), findings_json(&fresh, 1));
        assert_eq!(findings_html(&other, 1, ""), findings_html(&fresh, 1, ""));
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
    for key in ["figure", "claim", "controller", "paper_value", "why"] {
        assert!(finding.get(key).is_some(), "no {key}");
    }
    for key in ["median", "min", "max"] {
        assert!(finding["ours"][key].is_f64(), "no {key}");
    }
    assert_eq!(finding["values"][0]["unit"], "ms");
    assert_eq!(finding["expects"][0]["is_met"], true);
}

/// What the paper's algorithm does stands beside what ours does, and is something else.
#[test]
fn a_claim_about_a_controller_of_ours_is_also_judged_as_published() {
    let study = Study::new(&named("S0-m11"), Swap::default(), Columns::Both);
    let study = study.unwrap_or_else(|error| panic!("{error}"));
    let findings = study.findings(&options(None), &|_| ()).unwrap();
    let [finding] = &findings[..] else {
        panic!("one claim")
    };
    let published = finding.as_published.as_ref().unwrap();
    assert_eq!(published.controller, "delay-bbr");
    let of = |column| finding.column(column).unwrap().judgement.values[0].samples.clone();
    assert_ne!(of(Column::Published), of(Column::Ours));
    let value: serde_json::Value = serde_json::from_str(&findings_json(&findings, 1)).unwrap();
    assert_eq!(
        value["findings"][0]["as_published"]["controller"],
        "delay-bbr"
    );
}

/// ARC is run as its paper has it, so there is one column; our own experiments have the other.
#[test]
fn what_is_published_or_ours_alone_has_one_column() {
    let columns = |id: &str| {
        let study = Study::new(&named(id), Swap::default(), Columns::Both).unwrap();
        let findings = study.findings(&options(None), &|_| ()).unwrap();
        [Column::Published, Column::Ours].map(|column| findings[0].column(column).is_some())
    };
    assert_eq!(columns("S0-T1"), [true, false]);
    assert_eq!(columns("own-stall"), [false, true]);
}

/// A spread of zero over many seeds is no precision where chance has no part.
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
            findings_html(&findings, seed_count, ""),
        ];
        for text in texts {
            assert_eq!(text.contains(SENTENCE), is_said, "{id}, {seed_count} seeds");
        }
    }
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = findings_html(
        &findings(&named("S0-F7"), Swap::default(), None),
        1,
        "<program>",
    );
    for foreign in ["<script", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // A name space is no address.
    let addresses =
        page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(addresses, 0);
    assert!(page.contains("<svg ") && page.contains("&lt;program&gt;"));
    assert!(page.contains("sending rate, kbit/s") && page.contains("id=\"S0-F7\""));
}
