//! `anabranch plot`: pictures of a run's traces.

use std::path::PathBuf;

use anabranch_lab as lab;
use anyhow::bail;

use crate::print;

/// A file that all traces have.
const TRACE: &str = "paths.csv";

/// Draws the traces that `anabranch run --trace DIR` has written, as SVG.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the traces; the picture is put there too.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = arguments.folder.display();
    if !arguments.folder.join(TRACE).is_file() {
        bail!(
            "{folder} holds no traces: `anabranch run SCENARIO --trace {folder}` writes them, and \
             with --seeds each seed's into a folder of its own, such as {folder}/seed-1"
        );
    }
    let picture = lab::plot(&arguments.folder)?;
    print::line(picture.display())
}
