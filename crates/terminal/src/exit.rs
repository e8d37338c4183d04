//! Exit codes and final messages.

use std::process::ExitCode;

use crate::print;

/// An outcome with an exit code of its own. All other errors have the code 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The peer did not answer or fell silent: exit code 3.
    #[error("{0}")]
    PeerLost(String),
    /// A measurement does not meet a promise or expectation: exit code 4.
    #[error("{0}")]
    Unmet(String),
    /// The session ended in order but delivered less than half of its frames: exit code 5.
    #[error("{0}")]
    Undelivered(String),
    /// Another sender has taken over the receiver: exit code 6. A restart would displace it again.
    #[error(
        "another sender with the same key has taken this one's place at the receiver; it goes on \
         there, and this one has ended"
    )]
    Displaced,
    /// A command that this program ran has failed: its own exit code.
    #[error("the command ended with code {0}")]
    Command(u8),
}

impl Failure {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::PeerLost(_) => 3,
            Failure::Unmet(_) => 4,
            Failure::Undelivered(_) => 5,
            Failure::Displaced => 6,
            Failure::Command(code) => *code,
        }
    }
}

/// Prints the error that ends `program`, with its causes, and returns the exit code.
pub fn report(program: &str, done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    print::error(format_args!("{program}: {error:#}"));
    let failure = error.downcast_ref::<Failure>();
    failure.map_or(ExitCode::FAILURE, |failure| failure.code().into())
}
