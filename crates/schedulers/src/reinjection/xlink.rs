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
//!   sender's application passes it on ([`StreamSession::on_play_time_left`]). In the
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
//!
//! [`StreamSession::on_play_time_left`]: anabranch_core::StreamSession::on_play_time_left

use anabranch_core::reinjection::{Occasion, Reinjector, Request, Segments};
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

/// T1: with less to play copies are always made.
const ALWAYS_BELOW: Duration = Duration::from_millis(500);
/// T2: with more to play none are.
const NEVER_ABOVE: Duration = Duration::from_secs(2);
/// Length of the stream's start, which stands for the first video frame.
const START_BYTES: u64 = 128 << 10;

pub(super) fn build() -> Box<dyn Reinjector> {
    Box::<Xlink>::default()
}

#[derive(Debug, Default)]
struct Xlink {
    /// The viewer's last feedback: the play time left, and when.
    feedback: Option<(Instant, Duration)>,
}

impl Xlink {
    fn record(&mut self, now: Instant, left: Duration) {
        self.feedback = Some((now, left));
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        let (reported_at, left) = self.feedback?;
        Some(left.saturating_sub(now.saturating_since(reported_at)))
    }

    /// Returns whether copies are needed, if data in flight takes up to `longest` to arrive.
    fn wants_copies(&self, now: Instant, longest: Duration) -> bool {
        match self.left(now) {
            None => true,
            Some(left) if left < ALWAYS_BELOW => true,
            Some(left) if left > NEVER_ABOVE => false,
            Some(left) => longest > left,
        }
    }
}

impl Reinjector for Xlink {
    /// Asks for copies by all other paths with room, nearest first, if the viewer needs them.
    fn reinject(
        &mut self,
        now: Instant,
        occasion: Occasion,
        segments: &Segments,
        paths: &[PathView],
        out: &mut Vec<Request>,
    ) {
        let has_start_left = segments.unsent_offset.is_none_or(|it| it >= START_BYTES);
        let is_start_in_flight = segments.acked_offset < START_BYTES && has_start_left;
        let below = match occasion {
            Occasion::NothingElse => u64::MAX,
            Occasion::NewSegments if is_start_in_flight => START_BYTES,
            Occasion::NewSegments => return,
        };
        if !self.wants_copies(now, longest_delivery(paths)) {
            return;
        }
        let open = paths.iter().filter(|view| super::is_open(view));
        let mut open: Vec<(Duration, PathId)> =
            open.map(|view| (super::rtt(view), view.id)).collect();
        open.sort_unstable();
        out.extend(open.into_iter().map(|(_, by)| Request::Copy { by, below }));
    }

    fn precedes_new_segments(&self) -> bool {
        true
    }

    fn on_play_time_left(&mut self, now: Instant, left: Duration, paths: &[PathView]) -> bool {
        self.record(now, left);
        self.wants_copies(now, longest_delivery(paths))
    }
}

/// Returns the longest round trip, with its variation, of the paths that have packets in flight.
fn longest_delivery(paths: &[PathView]) -> Duration {
    paths
        .iter()
        .filter(|view| view.bytes_in_flight > 0)
        .map(|view| super::rtt(view) + view.rtt.variation)
        .max()
        .unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::windowed;

    const NOW: Instant = Instant::from_secs(10);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn wants(left: u64, longest: u64) -> bool {
        let mut xlink = Xlink::default();
        xlink.record(NOW, ms(left));
        xlink.wants_copies(NOW, ms(longest))
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
        let mut xlink = Xlink::default();
        xlink.record(NOW, ms(3_000));
        assert!(!xlink.wants_copies(NOW + ms(2_500), Duration::ZERO));
        assert!(xlink.wants_copies(NOW + ms(2_501), Duration::ZERO));
        assert!(xlink.wants_copies(NOW + ms(9_000), Duration::ZERO));
        xlink.record(NOW + ms(9_000), ms(3_000));
        assert!(!xlink.wants_copies(NOW + ms(9_000), Duration::ZERO));
    }

    #[test]
    fn without_feedback_copies_are_made() {
        assert!(Xlink::default().wants_copies(NOW, Duration::ZERO));
    }

    fn asked(occasion: Occasion, segments: &Segments) -> Vec<Request> {
        let paths = [
            windowed(0, 30, 10, 0),
            windowed(1, 10, 10, 0),
            windowed(2, 5, 10, 10_000),
        ];
        let mut out = Vec::new();
        Xlink::default().reinject(NOW, occasion, segments, &paths, &mut out);
        out
    }

    /// Returns the requests for copies below an offset by both paths with room, the nearer one
    /// first.
    fn copies(below: u64) -> [Request; 2] {
        [1, 0].map(|path| Request::Copy {
            by: PathId(path),
            below,
        })
    }

    #[test]
    fn when_nothing_else_is_to_be_sent_all_in_flight_is_copied_by_the_nearest_paths_first() {
        let asked = asked(Occasion::NothingElse, &Segments::default());
        assert_eq!(asked, copies(u64::MAX));
    }

    fn asked_before_new(acked_offset: u64, unsent_offset: Option<u64>) -> Vec<Request> {
        let segments = Segments {
            acked_offset,
            unsent_offset,
            ..Segments::default()
        };
        asked(Occasion::NewSegments, &segments)
    }

    #[test]
    fn new_segments_wait_for_copies_of_a_start_that_has_left_and_not_arrived() {
        let start = copies(START_BYTES);
        assert_eq!(asked_before_new(0, Some(START_BYTES)), start);
        assert_eq!(asked_before_new(0, None), start);
        assert_eq!(asked_before_new(0, Some(START_BYTES - 1)), []);
        assert_eq!(asked_before_new(START_BYTES, None), []);
    }
}
