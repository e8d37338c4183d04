//! What schedulers and coupled controllers may know of the session as a whole.

use anabranch_units::{DataRate, Duration};

/// The read model of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionView {
    /// Bytes of media that wait to be sent, bound to a path or not.
    pub backlog_bytes: u64,
    /// What the encoder is asked to produce.
    pub target_bitrate: DataRate,
    /// From a frame's capture until it is worthless.
    pub deadline: Duration,
}
