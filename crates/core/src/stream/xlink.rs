//! XLINK's reinjection: packets in flight on one path are copied to another, depending on the
//! viewer's remaining play time.
//!
//! Source: Zheng et al., "XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video
//! Services", SIGCOMM 2021 (DOI 10.1145/3452296.3472893); the length of the start is that of
//! Alibaba's xquic (`XQC_MP_FIRST_FRAME_OFFSET`). The play time left is dt = min(cached frames /
//! frame rate, cached bytes · 8 / bitrate), by the viewer's feedback. Double threshold: copies are
//! made if dt < T1; none are made if dt > T2; between them they are made if dt is less than the
//! largest RTT + variation of the paths that have unacknowledged packets. Copies leave when there
//! is no new data to send; those of the first video frame precede later data. Every packet is
//! copied once at the most.
//!
//! # Deviations
//! - T1 and T2 are set per service: 0.5 s and 2 s are ours.
//! - The paper's acknowledgements carry the feedback. Our wire format has no place for it: the
//!   sender's application passes it on ([`crate::StreamSession::on_play_time_left`]). In the
//!   simulator the viewer's feedback reaches the sender without delay. Between two reports the time
//!   left runs down at the sender.
//! - Without feedback copies are made, as in the paper's reinjection without control by QoE.
//! - A session has one stream and knows no frames: streams have no priorities, and the first video
//!   frame is the stream's first 128 KiB.
//! - The path of acknowledgements, the primary path and the scheduler are other choices of the
//!   session's: the paper sends acknowledgements on the fastest path and schedules by the least
//!   round-trip time (`spd`).
//! - We have read the paper's abstract, public summaries of it and xquic's public header, not the
//!   paper's pseudocode.

use anabranch_units::{Duration, Instant};

/// T1: with less to play copies are always made.
const ALWAYS_BELOW: Duration = Duration::from_millis(500);
/// T2: with more to play none are.
const NEVER_ABOVE: Duration = Duration::from_secs(2);
/// Length of the stream's start, which stands for the first video frame.
pub(crate) const START_BYTES: u64 = 128 << 10;

/// The viewer's last feedback.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback(Option<(Instant, Duration)>);

impl Feedback {
    /// Records the viewer's remaining play time at `now`.
    pub(crate) fn on_play_time_left(&mut self, now: Instant, left: Duration) {
        self.0 = Some((now, left));
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        let (reported_at, left) = self.0?;
        Some(left.saturating_sub(now.saturating_since(reported_at)))
    }

    /// Returns whether copies are needed, if data in flight takes up to `longest` to arrive.
    pub(crate) fn wants_copies(&self, now: Instant, longest: Duration) -> bool {
        match self.left(now) {
            None => true,
            Some(left) if left < ALWAYS_BELOW => true,
            Some(left) if left > NEVER_ABOVE => false,
            Some(left) => longest > left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_secs(10);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn wants(left: u64, longest: u64) -> bool {
        let mut feedback = Feedback::default();
        feedback.on_play_time_left(NOW, ms(left));
        feedback.wants_copies(NOW, ms(longest))
    }

    #[test]
    fn below_t1_copies_are_made_whatever_the_paths() {
        assert!(wants(0, 0) && wants(499, 0));
        assert!(!wants(500, 0));
    }

    #[test]
    fn above_t2_none_are_made_whatever_the_paths() {
        assert!(!wants(2_001, 60_000));
        assert!(wants(2_000, 60_000));
    }

    #[test]
    fn between_the_thresholds_the_longest_delivery_decides() {
        for left in [500, 1_000, 2_000] {
            assert!(wants(left, left + 1));
            assert!(!wants(left, left));
        }
    }

    #[test]
    fn the_play_time_left_runs_down_until_the_viewer_speaks_again() {
        let mut feedback = Feedback::default();
        feedback.on_play_time_left(NOW, ms(3_000));
        assert!(!feedback.wants_copies(NOW + ms(2_500), Duration::ZERO));
        assert!(feedback.wants_copies(NOW + ms(2_501), Duration::ZERO));
        assert!(feedback.wants_copies(NOW + ms(9_000), Duration::ZERO));
        feedback.on_play_time_left(NOW + ms(9_000), ms(3_000));
        assert!(!feedback.wants_copies(NOW + ms(9_000), Duration::ZERO));
    }

    #[test]
    fn without_feedback_copies_are_made() {
        assert!(Feedback::default().wants_copies(NOW, Duration::ZERO));
    }
}
