//! The tutorial's pages about streams, followed step by step.
//!
//! Needs a clock: the pages run real programs side by side.

use std::path::Path;

use crate::walk::{Numbers, Outputs, follow};

const FIRST_STREAM: &str = include_str!("../../../../docs/tutorial/first-stream.md");
const TWO_NETWORKS: &str = include_str!("../../../../docs/tutorial/two-networks.md");

fn follow_here(page: &str, ports: &[&str]) -> Outputs {
    let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
    follow(page, program.parent().unwrap(), ports, Numbers::Measured)
}

/// Returns the number before `word` in a terminal's output.
fn count(outputs: &Outputs, terminal: &str, word: &str) -> u64 {
    let words: Vec<&str> = outputs[terminal].split_whitespace().collect();
    let mut pairs = words.windows(2);
    let found = pairs.find_map(|pair| {
        if pair[1] == word {
            pair[0].parse().ok()
        } else {
            None
        }
    });
    found.unwrap_or_else(|| panic!("no {word:?}: {}", outputs[terminal]))
}

#[test]
fn a_first_stream_arrives() {
    let outputs = follow_here(FIRST_STREAM, &["7000"]);
    assert!(count(&outputs, "studio", "in") > 0, "{outputs:?}");
}

#[test]
fn a_stream_over_two_networks_outlives_one_of_them() {
    let outputs = follow_here(TWO_NETWORKS, &["7000", "7101", "7102"]);
    assert!(count(&outputs, "studio", "in") > 0, "{outputs:?}");
    for path in ["path 0", "path 1"] {
        assert!(
            outputs["studio"].contains(&format!("{path} (lo): ")),
            "{outputs:?}"
        );
    }
}
