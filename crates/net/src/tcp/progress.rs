//! Progress of connections that were begun.

/// State of a connection that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Connecting,
    Open,
    Failed,
}
