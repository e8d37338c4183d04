//! Mistakes in a scenario, with their places.

use std::path::PathBuf;

/// A scenario that cannot be run. Its message names file, line and key, and the choices, if any.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// Description of the mistake.
        message: String,
    },
    /// A key or value is invalid.
    #[error("{place}: {key}{}{message}", if key.is_empty() { "" } else { ": " })]
    Mistake {
        /// File and line, or the override.
        place: String,
        /// The key, such as `flows[0].controller`; empty if it concerns the whole.
        key: String,
        /// Description of the mistake and of a correct value.
        message: String,
    },
}

/// A mistake before its place is spelled out.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) place: Place,
    pub(crate) key: String,
    pub(crate) message: String,
}

/// Place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A line of the file that this one builds on.
    Base(usize),
    /// An override, by its index.
    Override(usize),
}
