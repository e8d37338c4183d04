//! State of the demo at a moment.

use anabranch_lab::metrics::FrameStatistics;
use anabranch_observe::status::Status;
use anabranch_units::Instant;

use super::judge::Promise;
use super::recording::Recording;

/// State of the demo at one time.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Instant,
    pub(super) end_at: Instant,
    /// Description of the source.
    pub(super) source: &'a str,
    /// Recording with at least one sample.
    pub(super) recording: &'a Recording,
    /// Status of the sender; it has no streams at first.
    pub(super) status: &'a Status,
    /// Preliminary verdicts on the promises.
    pub(super) promises: &'a [Promise],
    /// Frames so far.
    pub(super) frames: FrameStatistics,
    /// Frames of the last second.
    pub(super) recent: FrameStatistics,
}

/// Formats mean and maximum of frame delays, as in "mean 61 ms, longest 70 ms".
pub(super) fn delays(frames: &FrameStatistics) -> String {
    frames.delay_ms.map_or("unknown".to_owned(), |delay| {
        format!("mean {:.0} ms, longest {:.0} ms", delay.mean, delay.max)
    })
}
