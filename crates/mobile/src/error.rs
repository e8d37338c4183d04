//! Errors as exceptions.

use anabranch_embed::{Error, ErrorCode};

/// The exception of all methods: its class is the kind, its text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, uniffi::Error)]
#[non_exhaustive]
pub enum AnabranchError {
    /// The set-up has a mistake, which the text names.
    #[error("{text}")]
    Config {
        /// Description.
        text: String,
    },
    /// An argument is wrong.
    #[error("{text}")]
    Argument {
        /// Description.
        text: String,
    },
    /// The object is in another state: for example, it was started before.
    #[error("{text}")]
    State {
        /// Description.
        text: String,
    },
    /// A path cannot be added or is unknown.
    #[error("{text}")]
    Path {
        /// Description.
        text: String,
    },
    /// The operating system refused something.
    #[error("{text}")]
    System {
        /// Description.
        text: String,
    },
    /// There is no session yet.
    #[error("{text}")]
    NotConnected {
        /// Description.
        text: String,
    },
    /// Too many bytes wait to be sent. The encoder must produce a key frame next.
    #[error("{text}")]
    Backlogged {
        /// Description.
        text: String,
    },
    /// The session is over.
    #[error("{text}")]
    Ended {
        /// Its reason.
        text: String,
    },
    /// The time limit is over.
    #[error("{text}")]
    TimedOut {
        /// Description.
        text: String,
    },
    /// A mistake of the library.
    #[error("{text}")]
    Internal {
        /// Description.
        text: String,
    },
}

impl From<Error> for AnabranchError {
    fn from(Error { code, text }: Error) -> Self {
        match code {
            ErrorCode::Config => AnabranchError::Config { text },
            ErrorCode::Argument => AnabranchError::Argument { text },
            ErrorCode::State => AnabranchError::State { text },
            ErrorCode::Path => AnabranchError::Path { text },
            ErrorCode::System => AnabranchError::System { text },
            ErrorCode::NotConnected => AnabranchError::NotConnected { text },
            ErrorCode::Backlogged => AnabranchError::Backlogged { text },
            ErrorCode::Ended => AnabranchError::Ended { text },
            ErrorCode::TimedOut => AnabranchError::TimedOut { text },
            _ => AnabranchError::Internal { text },
        }
    }
}
