//! Errors by code and text.

use core::fmt;

use anabranch_core::media::SendFrameError;
use anabranch_net::{Ended, SendError, StartError};

/// Kind of an error. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorCode {
    /// The set-up has a mistake, which the text names.
    Config = -1,
    /// An argument is wrong.
    Argument = -2,
    /// The object is in another state: for example, it was started before.
    State = -3,
    /// A path cannot be added or is unknown.
    Path = -4,
    /// The operating system refused something.
    System = -5,
    /// There is no session yet. Frames may be sent after the event `connected`.
    NotConnected = -6,
    /// Too many bytes wait to be sent. The frame was not taken; the encoder must produce a key
    /// frame next.
    Backlogged = -7,
    /// The session is over, for the reason in the text.
    Ended = -8,
    /// The time limit is over.
    TimedOut = -9,
    /// A mistake of the library: it has caught a panic. The object must only be freed.
    Panic = -10,
}

/// An error of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Its kind.
    pub code: ErrorCode,
    /// Its description for people, in English. It repeats no secrets.
    pub text: String,
}

impl Error {
    /// Creates an error.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Error {
            code,
            text: text.into(),
        }
    }

    /// Creates an error with the causes of another one in its text.
    pub(crate) fn of(code: ErrorCode, error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Error { code, text }
    }

    /// Creates the error of a session that is over.
    pub(crate) fn ended(ended: Option<&Ended>) -> Self {
        let reason = ended.map_or_else(|| "closed".to_owned(), Ended::to_string);
        Error::new(ErrorCode::Ended, format!("the session is over: {reason}"))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::TooManyPaths { .. }
            | StartError::NoSuchPath { .. }
            | StartError::NoPath
            | StartError::Family { .. }
            | StartError::Via(_) => ErrorCode::Path,
            StartError::Listen { .. } | StartError::ListenTcp { .. } | StartError::Runtime(_) => {
                ErrorCode::System
            }
            _ => ErrorCode::Config,
        };
        Error::of(code, &error)
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        let code = match &error {
            SendError::NotConnected => ErrorCode::NotConnected,
            SendError::Ended(ended) => return Error::ended(Some(ended)),
            SendError::Transport(SendFrameError::Backlogged { .. }) => ErrorCode::Backlogged,
            SendError::Transport(SendFrameError::Closed) => ErrorCode::Ended,
            _ => ErrorCode::Argument,
        };
        Error::of(code, &error)
    }
}
