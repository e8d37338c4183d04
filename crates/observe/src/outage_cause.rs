//! The cause of an outage.

use serde::Serialize;

/// OutageCause of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutageCause {
    /// No path delivered packets.
    AllLinksDown,
    /// No frame arrived.
    SourceGone,
}
