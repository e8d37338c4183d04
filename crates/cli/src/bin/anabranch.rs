//! The program `anabranch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch_cli::main()
}
