//! TFRC and Reno beside ns-2.35 itself. The reference numbers are in `data/ns2.csv`, with their
//! source; the claims `S2-ns2-…` have the bounds. The mean of twenty seeds counts here: that of
//! ten, over ten hops, has a standard error of a twelfth, and the bounds are a fifth off.

use anabranch_papers::{Columns, Study, StudyOptions, Swap, Verdict, selected};

#[test]
#[ignore = "takes minutes: make papers"]
fn tfrc_and_reno_match_ns_2() {
    let claims = selected(&["S2-ns2".to_owned()]).unwrap();
    assert_eq!(claims.len(), 13);
    let study = Study::new(&claims, Swap::default(), Columns::AsNamed)
        .unwrap_or_else(|error| panic!("{error}"));
    let options = StudyOptions {
        seed_count: 20,
        takes_all_seeds: true,
        threads: 0,
        cache: None,
    };
    for finding in study.findings(&options, &|_| ()).unwrap() {
        let expects = &finding.judged.judgement.expects;
        assert_eq!(
            finding.judged.verdict,
            Verdict::Holds,
            "{}: {expects:#?}",
            finding.claim.id
        );
    }
}
