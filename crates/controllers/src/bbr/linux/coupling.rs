//! `c-mpbbr`: coupled multipath BBR (Mahmud, Lubna, Song & Cho, IEEE Access 8, 2020), and its
//! author's kernel module, `mptcp_c-mpbbr.c`.
//!
//! Each path is `bbr-linux`, without its pacing margin. Once per cycle of ProbeBW, as the gain of
//! index 3 begins, a path compares estimates:
//!
//! - Paths within a fifth of its own estimate, itself included, are assumed to share its bottleneck
//!   if there are others this time and the last. Of n such paths each takes 1/n of its estimate, in
//!   pacing and window, while the gain's index is 2 or more: it still probes with all of it.
//! - If all paths together deliver less than 0.6 of the best estimate in five consecutive
//!   comparisons, and none shares a bottleneck, several paths have no benefit. The path of the
//!   least estimate is given up.
//!
//! Two links of equal rates look like a single one, so that each is half used between probes: as
//! published.
//!
//! Deviations:
//! 1. Estimates of other paths are their bandwidths in the read model, which are not divided. Their
//!    delivery rates are their packets in flight per smoothed round-trip time.
//! 2. Comparisons while the sender is application-limited are no evidence on the use of paths, and
//!    do not count there.
//! 3. A path that is given up is held in reserve for the time when no other path is usable. The
//!    module closes it.

use anabranch_core::PathView;
use anabranch_core::recovery::Feedback;
use anabranch_units::DataRate;

use super::super::gain_cycle::GainCycle;

/// The index of the gain at which estimates are compared.
const COMPARING_PHASE: usize = 3;
/// The first index at which a path takes its part only.
const FIRST_SHARED_PHASE: usize = 2;
/// Part of the controller's own estimate within which another one is equal.
const SIMILAR: f64 = 0.2;
/// Least part of the best estimate that paths together must deliver to have a benefit.
const LEAST_BENEFIT: f64 = 0.6;
/// Number of consecutive comparisons without a benefit before a path is given up.
const USELESS_LIMIT: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Coupling {
    /// Paths that seemed to share the bottleneck in the last comparison.
    seen_sharing: u64,
    /// Divisor of the estimate; zero before the first comparison.
    sharing: u64,
    /// Consecutive comparisons without a benefit.
    useless_count: u32,
    is_given_up: bool,
}

/// The path that compares itself.
#[derive(Clone, Copy, Debug)]
struct Own {
    estimate: DataRate,
    delivered: DataRate,
    is_app_limited: bool,
}

impl Coupling {
    /// Handles a change of the gain.
    pub(super) fn on_phase(
        &mut self,
        cycle: &GainCycle,
        estimate: DataRate,
        feedback: &Feedback<'_>,
        paths: &[PathView],
    ) {
        if cycle.phase() == COMPARING_PHASE {
            let others = paths
                .iter()
                .filter(|view| view.id != feedback.path)
                .filter(|view| view.state.is_usable() && !view.bandwidth.is_zero())
                .filter(|view| view.rtt.smoothed.is_some());
            let bytes = feedback.prior_bytes_in_flight;
            let own = Own {
                estimate,
                delivered: DataRate::from_bytes_per(bytes, feedback.rtt.smoothed()),
                is_app_limited: feedback.is_app_limited,
            };
            self.compare(&own, others);
        }
    }

    fn compare<'a>(&mut self, own: &Own, others: impl Iterator<Item = &'a PathView> + Clone) {
        fn bits(rate: DataRate) -> f64 {
            rate.bits_per_second() as f64
        }
        let estimate = bits(own.estimate);
        let estimates = others.clone().map(|view| bits(view.bandwidth));
        let sharing = 1 + estimates
            .clone()
            .filter(|other| (other - estimate).abs() <= SIMILAR * estimate)
            .count() as u64;
        self.sharing = match (sharing > 1, self.seen_sharing > 1) {
            (true, true) => sharing,
            (false, true) => self.sharing,
            (_, false) => 1,
        };
        self.seen_sharing = sharing;

        let total = bits(own.delivered)
            + others
                .clone()
                .filter_map(|view| {
                    let rtt = view.rtt.smoothed?;
                    Some(bits(DataRate::from_bytes_per(view.bytes_in_flight, rtt)))
                })
                .sum::<f64>();
        let best = estimates.clone().fold(estimate, f64::max);
        let is_useless = estimates.clone().next().is_some()
            && self.sharing == 1
            && !own.is_app_limited
            && total < LEAST_BENEFIT * best;
        self.useless_count = if is_useless {
            self.useless_count + 1
        } else {
            0
        };
        let is_least = estimates.into_iter().all(|other| estimate < other);
        self.is_given_up |= self.useless_count >= USELESS_LIMIT && is_least;
    }

    /// Returns the part of an estimate that the path uses in this phase.
    pub(super) fn taken(&self, estimate: DataRate, cycle: &GainCycle) -> DataRate {
        match self.sharing {
            sharing @ 2.. if cycle.phase() >= FIRST_SHARED_PHASE => {
                DataRate::from_bits_per_second(estimate.bits_per_second() / sharing)
            }
            _ => estimate,
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.is_given_up
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::control::{CongestionController, ControllerConfig};
    use anabranch_core::recovery::LossDetection;
    use anabranch_core::{PathId, PathRtt, PathState};
    use anabranch_units::{Duration, Instant, Seed};

    use super::super::super::super::testing::beds::{link, t1};
    use super::super::super::super::testing::{Bed, Outcome, PACKET_BYTES, Report, Rig, Source};
    use super::super::{BbrLinux, ExtraAcked, Mode, build_coupled, profile};
    use super::*;

    /// Returns paths of these estimates in Mbit/s, each of which delivers as much.
    fn views(estimates: &[f64]) -> Vec<PathView> {
        let views = (1..).zip(estimates).map(|(id, megabits)| {
            let bandwidth = DataRate::from_bits_per_second((megabits * 1e6) as u64);
            PathView {
                id: PathId(id),
                state: PathState::Active,
                rtt: PathRtt {
                    latest: Some(Duration::from_secs(1)),
                    ..PathRtt::constant(Duration::from_millis(100))
                },
                bytes_in_flight: bandwidth.bytes_in(Duration::from_millis(100)),
                bandwidth,
                ..PathView::default()
            }
        });
        views.collect()
    }

    /// Returns a path with an estimate of 10 Mbit/s that delivers `delivered` Mbit/s.
    fn own(delivered: u64) -> Own {
        Own {
            estimate: DataRate::from_megabits_per_second(10),
            delivered: DataRate::from_megabits_per_second(delivered),
            is_app_limited: false,
        }
    }

    /// Returns the divisor of the estimate after each of these comparisons.
    fn sharing<const N: usize>(comparisons: [&[f64]; N]) -> [u64; N] {
        let mut coupling = Coupling::default();
        comparisons.map(|estimates| {
            coupling.compare(&own(10), views(estimates).iter());
            coupling.sharing
        })
    }

    #[test]
    fn paths_within_a_fifth_share_if_they_did_the_last_time() {
        assert_eq!(sharing([&[8.0, 12.0], &[8.0, 12.0]]), [1, 3]);
        assert_eq!(sharing([&[7.9, 12.1], &[7.9, 12.1]]), [1, 1]);
        assert_eq!(sharing([&[10.0], &[5.0], &[10.0]]), [1, 1, 1]);
        let kept: [&[f64]; 5] = [&[10.0], &[10.0, 11.0], &[5.0], &[5.0], &[10.0]];
        assert_eq!(sharing(kept), [1, 3, 3, 1, 1]);
    }

    #[test]
    fn an_estimate_is_divided_but_in_the_phases_that_probe_and_drain() {
        let coupling = Coupling {
            sharing: 2,
            ..Coupling::default()
        };
        let estimate = DataRate::from_megabits_per_second(10);
        let mut cycle = GainCycle::enter(Instant::ZERO, &mut Seed(1).rng());
        for _ in 0..8 {
            let megabits = coupling.taken(estimate, &cycle).megabits_per_second();
            let expected = if cycle.phase() < 2 { 10.0 } else { 5.0 };
            assert_eq!(megabits, expected, "{cycle:?}");
            cycle.advance(Instant::ZERO);
        }
    }

    /// Whether the path is still used after `count` comparisons with a path of this estimate.
    fn is_used_after(count: u32, delivered: u64, other: f64, is_app_limited: bool) -> bool {
        let mut coupling = Coupling::default();
        let mut others = views(&[other]);
        others[0].bytes_in_flight /= 2;
        for _ in 0..count {
            let own = Own {
                is_app_limited,
                ..own(delivered)
            };
            coupling.compare(&own, others.iter());
        }
        coupling.is_usable()
    }

    #[test]
    fn the_least_of_paths_that_are_no_use_together_is_given_up_after_five_comparisons() {
        // 20 Mbit/s and half of that delivered; 12 would be of use.
        assert!(is_used_after(4, 1, 20.0, false) && !is_used_after(5, 1, 20.0, false));
        assert!(is_used_after(9, 2, 20.0, false), "they are of use");
        assert!(is_used_after(9, 1, 20.0, true), "the sender has too little");
        assert!(is_used_after(9, 1, 8.0, false), "the other one is less");
        assert!(is_used_after(9, 0, 11.0, false), "they share a bottleneck");
    }

    #[test]
    fn five_comparisons_are_in_a_row() {
        let mut coupling = Coupling::default();
        let [mut bad, good] = [&[90.0][..], &[20.0]].map(views);
        bad[0].bytes_in_flight = 0;
        for others in [&bad, &bad, &bad, &bad, &good, &bad, &bad, &bad, &bad] {
            coupling.compare(&own(10), others.iter());
        }
        assert!(coupling.is_usable());
        coupling.compare(&own(10), bad.iter());
        assert!(!coupling.is_usable());
    }

    fn outcomes(build: fn(&ControllerConfig) -> Box<dyn CongestionController>) -> Vec<Outcome> {
        fn flow(
            bed: Bed,
            build: &fn(&ControllerConfig) -> Box<dyn CongestionController + 'static>,
            config: &ControllerConfig,
        ) -> Bed {
            let loss = LossDetection::PerPacket;
            let to = Instant::from_secs(30);
            bed.flow(build(config), Source::Greedy, loss, Instant::ZERO, to)
        }

        let config = ControllerConfig {
            max_packet_bytes: PACKET_BYTES,
            ..ControllerConfig::default()
        };
        let outage = link(80, 1.0)
            .then(Instant::from_secs(8), DataRate::ZERO)
            .then(
                Instant::from_secs(11),
                DataRate::from_megabits_per_second(4),
            );
        let beds = [
            flow(flow(t1(1.0), &build, &config), &build, &config),
            flow(t1(1.0).random_loss(0.01, Seed(7)), &build, &config),
            flow(Bed::new(outage), &build, &config),
        ];
        beds.into_iter().flat_map(|bed| bed.run_secs(30)).collect()
    }

    #[test]
    fn property_a_path_alone_is_bbr_without_margin() {
        assert_eq!(
            outcomes(build_coupled),
            outcomes(|config| -> Box<dyn CongestionController> {
                Box::new(BbrLinux::new(&profile::C_MPBBR, config))
            })
        );
    }

    /// Returns a rig after another report: a path of 10 Mbit/s and 50 ms beside an equal one, for a
    /// second in this phase, whose bottleneck `sharing` paths share.
    fn after_phase(phase: usize, sharing: u64) -> Rig<BbrLinux> {
        let config = ControllerConfig {
            max_packet_bytes: 1_000,
            ..ControllerConfig::default()
        };
        let mut rig = Rig::new(super::super::coupled(&config), 1_000);
        rig.paths = views(&[10.0]);
        rig.controller.full_pipe.is_full = true;
        for round in 0..2 {
            rig.send(70);
            if round > 0 {
                let mut cycle = GainCycle::enter(Instant::ZERO, &mut Seed(1).rng());
                while cycle.phase() != phase {
                    cycle.advance(Instant::ZERO);
                }
                let shared = Coupling {
                    seen_sharing: sharing,
                    sharing,
                    ..Coupling::default()
                };
                rig.controller.mode = Mode::ProbeBw(cycle);
                rig.controller.coupling = Some(shared);
                rig.controller.congestion_window = 200_000;
                rig.controller.extra_acked = ExtraAcked::default();
            }
            rig.now += Duration::from_millis(50);
            rig.report(Report {
                acked: if round > 0 { 1 } else { 70 },
                rate: Some(DataRate::from_megabits_per_second(10)),
                ..Report::default()
            });
        }
        rig
    }

    #[test]
    fn shared_rate_sets_pacing_and_window() {
        // 2 × 10 Mbit/s × 50 ms are 125 packets, half of that 63; three segments of two, and one
        // packet that B does not explain, in even numbers; two more while probing.
        for (phase, sharing, megabits, packets) in
            [(4, 1, 10.0, 132), (4, 2, 5.0, 70), (0, 2, 12.5, 134)]
        {
            let control = after_phase(phase, sharing).controller.control();
            assert_eq!(control.pacing_rate.unwrap().megabits_per_second(), megabits);
            assert_eq!(control.congestion_window, Some(packets * 1_000));
            assert_eq!(control.target_rate.megabits_per_second(), 10.0);
        }
    }

    #[test]
    fn estimates_are_compared_as_the_fourth_gain_begins() {
        for phase in 0..8 {
            let coupling = after_phase(phase, 0).controller.coupling.unwrap();
            let is_compared = coupling.seen_sharing == 2;
            assert_eq!(is_compared, phase == 2, "{phase}");
        }
    }
}
