//! Coupled controllers' knowledge of their session's paths, and their departure from Reno.
//!
//! Sources count windows in packets or bytes, rates and times in units of their own. Here each path
//! is compared with the controller's own, so that units cancel, and so that a path alone has ratios
//! of exactly one: its window is then New Reno's to the bit.
//!
//! Decisions, for all of them:
//! 1. Other paths count if they are usable and have a window and a round-trip time.
//! 2. Round-trip times are smoothed (RFC 6298).
//! 3. Windows of other paths are taken as they are: in recovery on the way to the threshold
//!    (`reduction.rs`), as in Linux.
//! 4. All values are computed with every report.

use anabranch_core::recovery::Feedback;
use anabranch_core::{PathId, PathView};
use anabranch_units::Duration;

/// Variables of a path in the equations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Subflow {
    /// `w`, in bytes.
    pub(super) window: f64,
    /// `rtt`, in seconds.
    pub(super) rtt: f64,
    /// `l`: the bytes acknowledged since the last loss, or between the last two if that is more.
    pub(super) loss_interval: f64,
}

impl Subflow {
    fn new(window: u64, rtt: Duration, loss_interval: u64) -> Self {
        Subflow {
            window: window.max(1) as f64,
            rtt: rtt.max(Duration::from_micros(1)).as_secs_f64(),
            loss_interval: loss_interval as f64,
        }
    }

    fn of(view: &PathView) -> Option<Self> {
        let (window, rtt) = (view.congestion_window?, view.rtt.smoothed?);
        let is_established = view.state.is_usable();
        is_established.then(|| Subflow::new(window, rtt, view.risk.loss_interval_bytes))
    }

    /// Returns `x = w / rtt`, in bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.window / self.rtt
    }
}

/// A controller's own path, and all of its session's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subflows<'a> {
    /// The controller's own path.
    pub(super) own: Subflow,
    own_id: PathId,
    paths: &'a [PathView],
}

impl<'a> Subflows<'a> {
    /// Returns the view of the controller whose window is `window` bytes, or `None` if its own path
    /// has no round-trip time.
    pub(super) fn of(
        window: u64,
        feedback: &Feedback<'_>,
        paths: &'a [PathView],
    ) -> Option<Subflows<'a>> {
        let own = paths.iter().find(|view| view.id == feedback.path);
        let loss_interval = own.map_or(0, |view| view.risk.loss_interval_bytes);
        feedback.rtt.has_sample().then(|| Subflows {
            own: Subflow::new(window, feedback.rtt.smoothed(), loss_interval),
            own_id: feedback.path,
            paths,
        })
    }

    /// Returns all paths that count, the controller's own first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Subflow> + Clone {
        let others = self.paths.iter().filter(|view| view.id != self.own_id);
        core::iter::once(self.own).chain(others.filter_map(Subflow::of))
    }

    /// Returns `Σ x / x_i`.
    pub(super) fn rate_ratio(&self) -> f64 {
        let rate = self.own.rate();
        self.iter().map(|subflow| subflow.rate() / rate).sum()
    }

    /// Whether another path counts.
    pub(super) fn are_several(&self) -> bool {
        self.iter().nth(1).is_some()
    }
}

/// Returns the largest of some values that are not negative.
pub(super) fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// Decision of a coupling law about a window in congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Growth of the window, as a part of Reno's growth, which is a segment per window
    /// acknowledged. If it is negative, the window shrinks.
    pub(super) growth: f64,
    /// Factor that a loss applies to the bytes in flight.
    pub(super) kept: f64,
    /// The least threshold, in segments.
    pub(super) min_ssthresh_packets: u64,
}

impl Share {
    /// Reno's share (RFC 5681 §3.1).
    pub(super) const RENO: Share = Share {
        growth: 1.0,
        kept: 0.5,
        min_ssthresh_packets: 2,
    };
}

/// Coupling law: the growth and decrease of a window that shares a session with others.
pub(super) type Law = fn(&Subflows<'_>) -> Share;

#[cfg(test)]
pub(super) mod testing {
    use anabranch_core::control::CongestionController;
    use anabranch_core::{PathRtt, PathState, Risk};
    use anabranch_units::{DataRate, Instant, Seed};

    use super::super::new_reno::coupled;
    use super::super::testing::beds::{SEGMENT, link, segment_config, t1};
    use super::super::testing::{Bed, Outcome, Report, Rig, SILENCE};
    use super::*;

    /// Returns a path with a window of `segments`, a round-trip time of `rtt_millis` and `interval`
    /// segments between losses. Its newest round trip took twice as long as others, and the least
    /// half as long: no law asks for either.
    pub(crate) fn view(id: u8, segments: f64, rtt_millis: u64, interval: u64) -> PathView {
        let rtt = Duration::from_millis(rtt_millis);
        PathView {
            id: PathId(id),
            state: PathState::Active,
            rtt: PathRtt {
                smoothed: Some(rtt),
                latest: Some(rtt * 2),
                least: Some(rtt / 2),
                variation: Duration::ZERO,
            },
            congestion_window: Some((segments * f64::from(SEGMENT)) as u64),
            risk: Risk {
                loss_interval_bytes: interval * u64::from(SEGMENT),
                ..Risk::default()
            },
            ..PathView::default()
        }
    }

    /// Returns the subflows as the first of these paths sees them.
    pub(crate) fn seen_by_first(views: &[PathView]) -> Subflows<'_> {
        Subflows {
            own: Subflow::of(&views[0]).expect("it is established"),
            own_id: views[0].id,
            paths: views,
        }
    }

    /// Returns the law's decision for each of these paths.
    pub(crate) fn shares(law: Law, views: &[PathView]) -> Vec<Share> {
        let mut views = views.to_vec();
        let each = (0..views.len()).map(|_| {
            let share = law(&seen_by_first(&views));
            views.rotate_left(1);
            share
        });
        each.collect()
    }

    /// Returns the growth of each of these paths, in segments per round trip.
    pub(crate) fn growths(law: Law, views: &[PathView]) -> Vec<f64> {
        let shares = shares(law, views);
        shares.iter().map(|share| share.growth).collect()
    }

    #[track_caller]
    pub(crate) fn assert_near(measured: f64, expected: f64) {
        let is_near = (measured - expected).abs() <= 1e-9 * expected.abs().max(1.0);
        assert!(is_near, "{measured}, expected {expected}");
    }

    fn outcomes(name: &str) -> Vec<Outcome> {
        let outage = link(80, 1.0)
            .then(Instant::from_secs(8), DataRate::ZERO)
            .then(
                Instant::from_secs(11),
                DataRate::from_megabits_per_second(4),
            );
        let beds = [
            t1(0.5).greedy(name, 0).greedy(name, 3),
            t1(1.0).random_loss(0.01, Seed(7)).greedy(name, 0),
            Bed::new(outage).greedy(name, 0),
        ];
        beds.into_iter().flat_map(|bed| bed.run_secs(20)).collect()
    }

    /// Checks that with one path `name` and `uncoupled` send the same packets at the same times.
    pub(crate) fn assert_alone_is(name: &str, uncoupled: &str) {
        assert_eq!(outcomes(name), outcomes(uncoupled));
    }

    /// Returns the window in segments after a round of slow start, a loss, twenty rounds, a mark
    /// and a timeout, beside these paths.
    pub(crate) fn life(law: Law, paths: &[PathView]) -> Vec<f64> {
        let mut rig = Rig::of_segments(coupled(&segment_config(), law));
        rig.paths = paths.to_vec();
        let mut windows = Vec::new();
        rig.round(100);
        windows.push(rig.window_segments());
        rig.fill();
        rig.hear(1, 1, 100);
        windows.push(rig.window_segments());
        while !rig.flying.is_empty() {
            rig.hear(0, 1, 100);
        }
        for _ in 0..20 {
            rig.round(100);
        }
        windows.push(rig.window_segments());
        rig.fill();
        rig.report(Report {
            acked: 1,
            ce_count: 1,
            rtt: Some(Duration::from_millis(100)),
            ..Report::default()
        });
        windows.push(rig.window_segments());
        rig.controller.on_timeout(rig.now, SILENCE);
        windows.push(rig.window_segments());
        windows
    }

    #[test]
    fn paths_count_that_are_usable_and_have_a_window_and_a_round_trip_time() {
        let mut out = view(1, 5.0, 50, 0);
        out.state = PathState::Out;
        let mut unmeasured = view(2, 5.0, 50, 0);
        unmeasured.rtt = PathRtt::default();
        let mut rated = view(3, 5.0, 50, 0);
        rated.congestion_window = None;
        let mut suspect = view(4, 5.0, 50, 9);
        suspect.state = PathState::Suspect;
        let paths = [view(0, 7.0, 70, 3), out, unmeasured, rated, suspect];
        let subflows = seen_by_first(&paths);
        let expected = Subflow {
            window: 5_000.0,
            rtt: 0.05,
            loss_interval: 9_000.0,
        };
        assert_eq!(
            subflows.iter().collect::<Vec<_>>(),
            [subflows.own, expected]
        );
        assert_eq!(subflows.own.window, 7_000.0);
        assert!(subflows.are_several());
        // 100 kB/s each.
        assert_near(subflows.rate_ratio(), 2.0);
    }

    #[test]
    fn a_window_follows_its_share_by_its_smoothed_round_trip_time() {
        let law: Law = |subflows| Share {
            growth: -4.0 * subflows.own.rtt,
            kept: 0.25,
            min_ssthresh_packets: 1,
        };
        let mut rig = Rig::of_segments(coupled(&segment_config(), law));
        rig.fill();
        rig.hear(1, 0, 100);
        assert_eq!(
            rig.window_segments(),
            2.5,
            "a quarter of what was in flight"
        );
        rig.flying.clear();
        rig.send(9);
        // 100 ms + (300 ms - 100 ms) / 8, of which -4 are -1/2.
        rig.hear(0, 5, 300);
        assert_eq!(rig.window_segments(), 1.5);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
        rig.hear(0, 4, 300);
        assert_eq!(rig.window_segments(), 1.0, "a segment is the least");
    }
}
