//! The tutorial's page about simulation, followed step by step.

use std::path::Path;

use crate::walk::{Numbers, follow};

const SIMULATE: &str = include_str!("../../../docs/tutorial/simulate.md");

#[test]
fn the_numbers_of_the_trip_are_those_on_the_page() {
    let program = Path::new(env!("CARGO_BIN_EXE_anabranch-lab"));
    let outputs = follow(SIMULATE, program.parent().unwrap(), &[], Numbers::Exact);
    assert!(outputs[""].contains("trace.svg"), "{outputs:?}");
}
