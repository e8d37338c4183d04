//! Growth as Linux counts it (`bictcp_update` and `tcp_cong_avoid_ai` of 6.18): windows, targets
//! and Reno's estimate are whole segments.
//!
//! The window grows by one after `cnt` acknowledged segments. At ten segments, as with 1 % of loss,
//! whole numbers cost a twentieth of the rate.

/// `beta_scale`: 8 (1024 + 717) / 3 / (1024 - 717), of which 8/15 a round trip follows.
const RENO_SCALE: u64 = 15;
/// `ca->cnt` where the curve asks for nothing.
const HARDLY: u64 = 100;
/// `ca->cnt` is this at least: the window grows by half in a round trip at most.
const LEAST: u64 = 2;

/// Counters of a stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeSegments {
    /// `tcp_cwnd`.
    reno_window: u64,
    /// `ack_cnt`, of `tcp_cwnd`.
    reno_acked: f64,
    /// `snd_cwnd_cnt`.
    acked: f64,
}

impl WholeSegments {
    pub(super) fn new(window: f64) -> Self {
        WholeSegments {
            reno_window: window as u64,
            reno_acked: 0.0,
            acked: 0.0,
        }
    }

    /// Returns the window after `acked_segments`; `target` is the curve's value a round trip ahead.
    pub(super) fn grow(&mut self, window: f64, target: f64, acked_segments: f64) -> f64 {
        let mut window = window as u64;
        let target = target as u64;
        self.reno_acked += acked_segments;
        let a_segment = ((window * RENO_SCALE) >> 3) as f64;
        while self.reno_acked > a_segment {
            self.reno_acked -= a_segment;
            self.reno_window += 1;
        }
        let mut count = if target > window {
            window / (target - window)
        } else {
            HARDLY * window
        };
        if self.reno_window > window {
            count = count.min(window / (self.reno_window - window));
        }
        let count = count.max(LEAST) as f64;
        // Credits for a larger count are applied gently.
        if self.acked >= count {
            self.acked = 0.0;
            window += 1;
        }
        self.acked += acked_segments;
        if self.acked >= count {
            let grown = (self.acked / count) as u64;
            self.acked -= grown as f64 * count;
            window += grown;
        }
        window as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments acknowledged one by one until the window has grown.
    fn until_grown(counts: &mut WholeSegments, window: f64, target: f64) -> usize {
        (1..)
            .find(|_| counts.grow(window, target, 1.0) > window)
            .expect("it grows some time")
    }

    #[test]
    fn the_window_grows_by_one_after_as_many_segments_as_the_curve_asks_for() {
        assert_eq!(until_grown(&mut WholeSegments::new(20.0), 20.0, 22.9), 10);
        // Twice as much a round trip is the most.
        assert_eq!(until_grown(&mut WholeSegments::new(20.0), 20.0, 90.0), 2);
    }

    /// The estimate is a segment larger after 15/8 of a window, and then the window grows by one a
    /// round trip.
    #[test]
    fn where_the_curve_asks_for_nothing_the_window_follows_renos() {
        let mut counts = WholeSegments::new(8.0);
        assert_eq!(until_grown(&mut counts, 8.0, 8.0), 16);
    }
}
