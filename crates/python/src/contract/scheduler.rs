//! Random packets and paths for a scheduler.

use std::sync::Arc;

use anabranch_core::scheduler::{Assignment, PacketView, Scheduler, SendQueue};
use anabranch_core::{PathState, PathView, SessionView};
use anabranch_schedulers::conformance::{broken_rule as broken, random_frame, random_paths};
use anabranch_units::{Duration, Instant, Seed};

use crate::controller::Maker;
use crate::failures::has_failed;
use crate::scheduler::PyScheduler;

/// Frames that a scheduler gets in a case.
const FRAMES: u64 = 6;
/// Time at which they are offered.
const NOW: Instant = Instant::from_secs(10);

/// Returns the rule that the scheduler breaks with the paths and packets of a seed.
pub(super) fn broken_rule(maker: &Arc<Maker>, seed: Seed) -> Option<String> {
    let mut rng = seed.derive("contract").rng();
    let paths = random_paths(&mut rng);
    let frames: Vec<Vec<PacketView>> = (0..FRAMES).map(|at| random_frame(&mut rng, at)).collect();
    let [first, second] = [(); 2].map(|()| {
        let mut scheduler = PyScheduler::build(maker);
        frames
            .iter()
            .map(|packets| bound(&mut *scheduler, packets, &paths))
            .collect::<Vec<_>>()
    });
    if has_failed() {
        return None;
    }
    if first != second {
        return Some("same calls, same answers: two instances differ".to_owned());
    }
    let rule = first
        .iter()
        .zip(&frames)
        .find_map(|(bound, frame)| broken(bound, frame, &paths));
    rule.or_else(|| {
        let single = [PathView {
            state: PathState::Active,
            is_standby: false,
            ..paths[0]
        }];
        let mut scheduler = PyScheduler::build(maker);
        let all = bound(&mut *scheduler, &frames[0], &single);
        let is_whole = has_failed() || all.len() == frames[0].len();
        (!is_whole).then(|| "a single path gets everything".to_owned())
    })
}

fn bound(
    scheduler: &mut dyn Scheduler,
    packets: &[PacketView],
    paths: &[PathView],
) -> Vec<Assignment> {
    let mut out = Vec::new();
    let session = SessionView {
        deadline: Duration::from_millis(500),
        ..SessionView::default()
    };
    scheduler.schedule(NOW, &SendQueue::new(packets), &session, paths, &mut out);
    out
}
