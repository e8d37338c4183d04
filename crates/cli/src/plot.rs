//! `anabranch plot`: pictures of a run's traces.

use std::path::PathBuf;

use anabranch_lab as lab;

use crate::print;

/// Draws the traces that `anabranch run --trace DIR` has written, as SVG.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the traces; the picture is put there too.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let picture = lab::plot(&arguments.folder)?;
    print::line(picture.display())
}
