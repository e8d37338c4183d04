//! Three TCP flows as ns-3.48 runs them: ours are near enough to have the same names.

use anabranch_papers::{Columns, Study, StudyOptions, Swap, Verdict, selected};

#[test]
fn bbr_and_cubic_share_delay_and_lose_as_in_ns3() {
    let claims = selected(&["ns3-bbr-linux", "ns3-cubic"].map(str::to_owned)).unwrap();
    assert_eq!(claims.len(), 2);
    let options = StudyOptions {
        seed_count: 2,
        takes_all_seeds: true,
        threads: 0,
        cache: None,
    };
    let study = Study::new(&claims, Swap::default(), Columns::AsNamed)
        .unwrap_or_else(|error| panic!("{error}"));
    for finding in study.findings(&options, &|_| ()).unwrap() {
        let expects = &finding.judged.judgement.expects;
        // Delay from both sides, loss from both sides, Jain's index, and each flow's share.
        assert_eq!(expects.len(), 8);
        let broken: Vec<_> = expects.iter().filter(|expect| !expect.is_met).collect();
        assert_eq!(finding.judged.verdict, Verdict::Holds, "{broken:#?}");
    }
}
