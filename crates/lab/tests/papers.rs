//! Published claims: that their verdicts can fail, and that runs which are kept change nothing.

use anabranch_lab::papers::{
    Cache, Claim, Finding, Study, StudyOptions, Verdict, claims, findings_html, findings_json,
    selected,
};

fn options(cache: Option<Cache>) -> StudyOptions {
    StudyOptions {
        seed_count: 1,
        threads: 0,
        cache,
    }
}

fn findings(claims: &[&'static Claim], swap: Option<&str>, cache: Option<Cache>) -> Vec<Finding> {
    let study = Study::new(claims, swap).unwrap_or_else(|error| panic!("{error}"));
    study.findings(&options(cache), &|_| ()).unwrap()
}

fn named(id: &str) -> Vec<&'static Claim> {
    selected(&[id.to_owned()]).unwrap()
}

/// A claim about a controller that holds for one which hears nothing says nothing.
#[test]
fn no_claim_holds_for_a_controller_at_a_fixed_rate() {
    let about_controllers: Vec<&'static Claim> = claims()
        .filter(|claim| claim.controller.is_some())
        .collect();
    for finding in findings(&about_controllers, Some("fixed"), None) {
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
    let fresh = findings(&claims, None, None);
    let written = findings(&claims, None, cache());
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
    let resumed = findings(&claims, None, cache());
    assert_eq!(entries().len(), 3);
    let read = findings(&claims, None, cache());
    for other in [written, resumed, read] {
        assert_eq!(findings_json(&other, 1), findings_json(&fresh, 1));
        assert_eq!(findings_html(&other, 1, ""), findings_html(&fresh, 1, ""));
    }
}

#[test]
fn the_findings_keep_their_contract() {
    let findings = findings(&named("S0-m10"), None, None);
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
    let page = findings_html(&findings(&named("S0-F7"), None, None), 1, "<program>");
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
