//! Hashes of record: a change that alters packets on the wire has to update its line in
//! `hashes.txt`. The scenarios' expectations check that the behaviour is right.

use std::path::Path;

use anabranch_lab::{RunOptions, Scenario, run};

const OF_RECORD: &str = include_str!("hashes.txt");

#[test]
fn runs_have_the_hashes_of_record() {
    let mut found = String::new();
    for line in OF_RECORD.lines() {
        let [scenario, seed, _] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("a line holds a scenario, a seed and a hash: {line:?}");
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../scenarios")
            .join(scenario);
        let scenario_file = Scenario::load(&path, &[]).unwrap();
        let seeds = vec![seed.parse().unwrap()];
        let options = RunOptions {
            seeds,
            ..RunOptions::default()
        };
        let report = run(&scenario_file, &options, &|_| ()).unwrap();
        found.push_str(&format!(
            "{scenario} {seed} {}\n",
            report.runs[0].trace_hash
        ));
    }
    assert_eq!(
        found, OF_RECORD,
        "if the change is meant, hashes.txt becomes:\n{found}"
    );
}
