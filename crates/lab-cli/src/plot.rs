//! `anabranch-lab plot`: pictures of a run's traces.

use std::path::PathBuf;

use anabranch_lab as lab;
use anabranch_terminal::print;
use anyhow::bail;

/// File that all traces have.
const TRACE: &str = "paths.csv";

/// Draw the traces of `anabranch-lab run --trace DIR` as SVG.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the traces, which also receives the picture.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = arguments.folder.display();
    if !arguments.folder.join(TRACE).is_file() {
        bail!(
            "{folder} holds no traces: `anabranch-lab run SCENARIO --trace {folder}` writes them, \
             and with --seeds each seed's into a folder of its own, such as {folder}/seed-1"
        );
    }
    let picture = lab::plot(&arguments.folder)?;
    print::line(picture.display())
}
