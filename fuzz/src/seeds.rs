//! Small valid inputs, so that coverage goes beyond the first check of a parser.

use std::path::PathBuf;
use std::{env, fs};

/// Writes seeds into the corpus of this run, which is the first folder of its command line. A run
/// of single inputs has none.
pub fn plant(seeds: impl IntoIterator<Item = Vec<u8>>) {
    let folders = env::args_os().skip(1).map(PathBuf::from);
    let Some(corpus) = folders.into_iter().find(|path| path.is_dir()) else {
        return;
    };
    for (number, seed) in seeds.into_iter().enumerate() {
        let written = fs::write(corpus.join(format!("seed-{number}")), seed);
        written.expect("a corpus that can be written");
    }
}
