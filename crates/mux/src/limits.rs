//! Limits on a session's memory, independent of its peer's behaviour.

/// Maximum number of messages of all streams beyond gaps: four times the full-length messages that
/// can be in flight. The header of one takes some hundred bytes.
pub(crate) const MAX_AHEAD_COUNT: usize = 1 << 16;

/// Limits on the memory of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open streams of each end. Further ones are refused.
    pub max_streams: usize,
    /// Maximum number of unsent bytes in a stream …
    pub send_bytes: usize,
    /// … and less with many streams. Their total is bounded by this and by the session's share of
    /// the [`Budget`](crate::Budget), except for the least that each may have.
    pub all_send_bytes: usize,
    /// Least number of bytes that may wait in each stream.
    pub min_send_bytes: usize,
    /// Number of bytes by which the peer may be ahead of a stream's reader at first. Both ends must
    /// agree on it.
    pub window_bytes: u64,
    /// Maximum of the same, to which the window grows if it limits the stream.
    pub max_window_bytes: u64,
    /// Limit on the sum of all streams' windows.
    pub all_windows_bytes: u64,
    /// Number of bytes by which the peer may be ahead of the readers of all streams together at
    /// first. Both ends must agree on it.
    pub session_window_bytes: u64,
    /// Maximum of the same, as the streams' windows grow. The difference is taken from the
    /// [`Budget`](crate::Budget).
    pub max_session_window_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_streams: 2_048,
            send_bytes: 1 << 20,
            all_send_bytes: 64 << 20,
            min_send_bytes: 16 << 10,
            window_bytes: 128 << 10,
            max_window_bytes: 8 << 20,
            all_windows_bytes: 48 << 20,
            session_window_bytes: 1 << 20,
            max_session_window_bytes: 64 << 20,
        }
    }
}
