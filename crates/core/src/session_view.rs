//! State of the whole session for schedulers and coupled controllers.

use anabranch_units::{DataRate, Duration};

/// The read model of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionView {
    /// Bytes that wait to be sent, bound to a path or not.
    pub backlog_bytes: u64,
    /// Further bytes of a stream for which its receiver has room; `None` for media.
    pub window_bytes: Option<u64>,
    /// Target bitrate of the encoder; zero for streams.
    pub target_bitrate: DataRate,
    /// From a frame's capture until it is worthless, for media.
    pub deadline: Duration,
    /// Least round-trip time of all active paths, if one is known.
    pub quickest_rtt: Option<Duration>,
}
