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

/// Another sender has taken this one's place at the receiver: exit code 6. To start again would take
/// it back.
#[derive(Debug)]
pub(crate) struct Displaced;

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "another sender with the same key has taken this one's place at the receiver; it goes on \
             there, and this one has ended",
        )
    }
}

impl std::error::Error for Displaced {}

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
    } else if error.is::<Displaced>() {
        ExitCode::from(6)
    } else {
        ExitCode::FAILURE
    }
}
