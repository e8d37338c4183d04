//! What the program ends with.

use core::fmt;
use std::process::ExitCode;

use anabranch_net::Ended;

use crate::print;

/// A peer that did not answer or fell silent: exit code 3, unlike what is wrong on this machine.
#[derive(Debug)]
pub(crate) struct PeerLost(pub(crate) Ended);

impl fmt::Display for PeerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for PeerLost {}

/// Something that was promised or expected, and measured otherwise: exit code 4.
#[derive(Debug)]
pub(crate) struct Unmet(pub(crate) String);

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Unmet {}

/// Prints what went wrong, with its causes, and chooses the exit code.
pub(crate) fn report(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    print::note(format_args!("anabranch: {error:#}"));
    if error.is::<PeerLost>() {
        ExitCode::from(3)
    } else if error.is::<Unmet>() {
        ExitCode::from(4)
    } else {
        ExitCode::FAILURE
    }
}
