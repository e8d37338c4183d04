//! Exit codes and final messages.

use core::fmt;
use std::process::ExitCode;

use anabranch_net::Ended;

use crate::{disabled_commands, print};

/// A peer that did not answer or fell silent: exit code 3, which differs from local errors.
#[derive(Debug)]
pub(crate) struct PeerLost(pub(crate) Ended);

impl fmt::Display for PeerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for PeerLost {}

/// A session that ended in order but delivered less than half of its frames: exit code 5.
#[derive(Debug)]
pub(crate) struct Undelivered(pub(crate) String);

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Undelivered {}

/// Another sender has taken over the receiver: exit code 6. A restart would displace it again.
#[derive(Debug)]
pub(crate) struct Displaced;

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "another sender with the same key has taken this one's place at the receiver; it goes \
             on there, and this one has ended",
        )
    }
}

impl std::error::Error for Displaced {}

/// A promise or expectation that the measurement does not meet: exit code 4.
#[derive(Debug)]
pub(crate) struct Unmet(pub(crate) String);

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Unmet {}

/// Prints the error in the command line, or the help that was requested.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if let Some(said) = disabled_commands::explained(error) {
        print::note(said);
        return ExitCode::from(2);
    }
    let text = error.to_string();
    match print::without_secrets(&text) {
        clean if clean == text => {
            let _ = error.print();
        }
        // The error repeats a secret key; the message is printed without it and without colours.
        clean => print::note(clean.trim_end()),
    }
    // 0 for help, 2 for mistakes.
    ExitCode::from(error.exit_code() as u8)
}

/// Prints the error with its causes, and returns the exit code.
pub(crate) fn report(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    print::error(format_args!("anabranch: {error:#}"));
    if error.is::<PeerLost>() {
        ExitCode::from(3)
    } else if error.is::<Unmet>() {
        ExitCode::from(4)
    } else if error.is::<Undelivered>() {
        ExitCode::from(5)
    } else if error.is::<Displaced>() {
        ExitCode::from(6)
    } else {
        ExitCode::FAILURE
    }
}
