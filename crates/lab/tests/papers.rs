//! Published claims: that their verdicts can fail, and that runs which are kept change nothing.

use anabranch_lab::papers::{
    Cache, Claim, Finding, Study, StudyOptions, Subject, Swap, Verdict, claims, findings_html,
    findings_json, selected,
};

fn options(cache: Option<Cache>) -> StudyOptions {
    StudyOptions {
        seed_count: 1,
        threads: 0,
        cache,
    }
}

fn findings(claims: &[&'static Claim], swap: Swap<'_>, cache: Option<Cache>) -> Vec<Finding> {
    let study = Study::new(claims, swap).unwrap_or_else(|error| panic!("{error}"));
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
    no_claim_holds(is_meant, swap);
}

/// A claim about a scheduler that holds for one which only counts packets says nothing.
#[test]
fn no_claim_holds_for_a_scheduler_that_heeds_no_delay() {
    let is_meant = |claim: &Claim| matches!(claim.subject, Subject::Scheduler(_));
    for scheduler in ["wrr", "round-robin"] {
        let swap = Swap {
            controller: None,
            scheduler: Some(scheduler),
        };
        no_claim_holds(is_meant, swap);
    }
}

fn no_claim_holds(is_meant: fn(&Claim) -> bool, swap: Swap<'_>) {
    let claims: Vec<&'static Claim> = claims().filter(|claim| is_meant(claim)).collect();
    assert!(!claims.is_empty());
    for finding in findings(&claims, swap, None) {
        let expects = &finding.judgement.expects;
        assert_ne!(
            finding.verdict,
            Verdict::Holds,
            "{:?}: {expects:#?}",
            finding.claim
        );
        assert!(!expects.is_empty() || finding.verdict == Verdict::CannotBeKnown);
    }
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
