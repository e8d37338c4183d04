//! Negative controls: the verdicts of claims can fail.
//!
//! These are the weakest controls, algorithms that ignore the network. The strongest control of our
//! controller is the published form, whose verdicts stand beside ours in every report, and in
//! `data/expected.csv`.

use anabranch_papers::{
    Cache, Claim, Columns, Expect, Finding, Study, StudyOptions, Subject, Swap, Verdict, claims,
};

const EXPECTED: &str = include_str!("data/expected.csv");

fn findings(claims: &[&'static Claim], swap: Swap<'_>, cache: Option<Cache>) -> Vec<Finding> {
    let options = StudyOptions {
        seed_count: 1,
        takes_all_seeds: true,
        threads: 0,
        cache,
    };
    let study =
        Study::new(claims, swap, Columns::AsNamed).unwrap_or_else(|error| panic!("{error}"));
    study.findings(&options, &|_| ()).unwrap()
}

/// Returns whether `make test` runs a claim.
fn is_reduced(claim: &Claim) -> bool {
    let mut ids = EXPECTED.lines().filter_map(|line| line.split(',').next());
    ids.any(|id| id == claim.id)
}

#[test]
fn few_claims_fail_at_a_fixed_rate() {
    fails_at_a_fixed_rate(is_reduced);
}

#[test]
#[ignore = "takes minutes: make papers"]
fn all_claims_fail_at_a_fixed_rate() {
    fails_at_a_fixed_rate(|_| true);
}

#[test]
fn few_claims_fail_with_a_scheduler_that_only_counts() {
    fails_with_a_scheduler_that_only_counts(is_reduced);
}

#[test]
#[ignore = "takes minutes: make papers"]
fn all_claims_fail_with_a_scheduler_that_only_counts() {
    fails_with_a_scheduler_that_only_counts(|_| true);
}

/// Asserts that claims about a controller fail for one that ignores reports.
fn fails_at_a_fixed_rate(is_meant: fn(&Claim) -> bool) {
    let of_controllers = claims().filter(|claim| matches!(claim.subject, Subject::Controller(_)));
    let swap = Swap {
        controller: Some("fixed"),
        scheduler: None,
    };
    no_claim_holds(of_controllers.filter(|claim| is_meant(claim)), &[swap]);
}

/// Asserts that claims about a scheduler fail for one that only counts packets.
fn fails_with_a_scheduler_that_only_counts(is_meant: fn(&Claim) -> bool) {
    let of_schedulers = claims().filter(|claim| matches!(claim.subject, Subject::Scheduler(_)));
    let swaps = ["wrr", "round-robin"].map(|scheduler| Swap {
        controller: None,
        scheduler: Some(scheduler),
    });
    no_claim_holds(of_schedulers.filter(|claim| is_meant(claim)), &swaps);
}

/// Asserts that no claim holds with a swapped algorithm. At least one swap must also break an
/// expectation that was met: expectations that differ anyway prove nothing.
fn no_claim_holds(claims: impl Iterator<Item = &'static Claim>, swaps: &[Swap<'_>]) {
    let folder = tempfile::tempdir().unwrap();
    let claims: Vec<&'static Claim> = claims.collect();
    assert!(!claims.is_empty());
    // All swaps share the runs of the algorithms that a claim compares with.
    let of = |swap| findings(&claims, swap, Cache::open(folder.path()).ok());
    let ours = of(Swap::default());
    let swapped: Vec<Vec<Finding>> = swaps.iter().map(|swap| of(*swap)).collect();
    for (place, ours) in ours.iter().enumerate() {
        let unmoved: Vec<Pairs> = swapped
            .iter()
            .filter_map(|swapped| not_moved(ours, &swapped[place]))
            .collect();
        let has_moved = unmoved.len() < swaps.len();
        assert!(has_moved, "{:?}: {unmoved:#?}", ours.claim);
    }
}

/// Expectations of the claim's subject, and of its substitute.
type Pairs = Vec<(Expect, Expect)>;

/// Returns the claim's expectations, unless one was met and is not met any more.
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
    // A claim that cannot be known has no expectations to break.
    (!has_moved && verdict != Verdict::CannotBeKnown).then_some(pairs)
}
