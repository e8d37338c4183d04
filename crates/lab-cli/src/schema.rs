//! `anabranch-lab schema`: the schema of scenario files for editors.

use anabranch_terminal::print;

/// Print the JSON Schema of scenario files, for editors.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Editors that know TOML schemas (Even Better TOML in VS Code, taplo elsewhere) check and complete a
scenario whose first line names one:

  anabranch-lab schema > scenario.schema.json
  #:schema ./scenario.schema.json")]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> anyhow::Result<()> {
    print::text(anabranch_lab::schema())
}
