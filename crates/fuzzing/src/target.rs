//! A target: what runs with an input, and valid inputs to begin with.

use crate::Bound;

/// A check of any bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the file, of the corpus and of the program in `fuzz/`.
    pub name: &'static str,
    /// Memory that an input may take.
    pub bound: Bound,
    /// Creates the parts that all inputs share, so that no input is charged for them.
    pub prepare: fn(),
    /// Returns small valid inputs, so that coverage goes beyond the first check of a parser.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Runs an input.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub run: fn(&[u8]),
}
