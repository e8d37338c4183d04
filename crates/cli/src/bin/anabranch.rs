//! The program `anabranch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch::main()
}
