//! What schedulers and coupled controllers may know of the session as a whole.

use anabranch_units::{DataRate, Duration};

/// The read model of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionView {
    /// Bytes that wait to be sent, bound to a path or not.
    pub backlog_bytes: u64,
    /// How many more bytes of a stream its receiver has room for; `None` for media.
    pub window_bytes: Option<u64>,
    /// What the encoder is asked to produce; zero for streams.
    pub target_bitrate: DataRate,
    /// From a frame's capture until it is worthless, for media.
    pub deadline: Duration,
}
