//! Random loss and unequal delays in the bed.

use super::*;
use anabranch_core::control::ControllerConfig;

use crate::testing::build;

fn at_a_fixed_megabit(bed: Bed) -> Bed {
    let controller = build("fixed", &ControllerConfig::default()).unwrap();
    let (from, to) = (Instant::ZERO, Instant::from_secs(60));
    bed.flow(
        controller,
        Source::Greedy,
        LossDetection::PerPacket,
        from,
        to,
    )
}

fn two_megabits() -> Bed {
    let rate = DataRate::from_megabits_per_second(2);
    let delay = Duration::from_millis(20);
    Bed::new(Link::new(rate, delay, Duration::from_millis(100)))
}

#[test]
fn random_loss_takes_its_share_and_repeats_with_its_seed() {
    fn run(seed: u64) -> Outcome {
        let bed = at_a_fixed_megabit(two_megabits().random_loss(0.1, Seed(seed)));
        bed.run(Instant::from_secs(60)).remove(0)
    }
    let outcome = run(1);
    let ratio = outcome.dropped_count as f64 / outcome.sent_count as f64;
    assert!((ratio - 0.1).abs() < 0.01, "{ratio}");
    assert_eq!(outcome, run(1));
    assert_ne!(outcome, run(2));
    let dropped = outcome.dropped_between(0, 30) + outcome.dropped_between(30, 60);
    assert_eq!(dropped, outcome.dropped_count);
}

#[test]
fn a_flow_may_be_farther_away() {
    let bed = at_a_fixed_megabit(at_a_fixed_megabit(two_megabits()))
        .extra_delay(Duration::from_millis(70));
    let flows = bed.run(Instant::from_secs(10));
    let [near, far] = [0, 1].map(|flow: usize| flows[flow].one_way_delay_between(1, 10));
    // Both pace equally, so that the second may always find the first's packet in service.
    let transmission = Duration::from_micros(4_120);
    assert!(near >= Duration::from_millis(20) + transmission, "{near:?}");
    let farther = far.saturating_sub(near);
    assert!(
        farther >= Duration::from_millis(70) && farther <= Duration::from_millis(75),
        "{farther:?}"
    );
}
