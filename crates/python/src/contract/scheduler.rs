//! Random packets and paths for a scheduler.

use std::sync::Arc;

use anabranch_core::scheduler::{Assignment, PacketView, Scheduler, SendQueue};
use anabranch_core::{
    Forecast, FrameId, PathId, PathRtt, PathSet, PathState, PathView, SendReason, SessionView,
};
use anabranch_units::{DataRate, Duration, Importance, Instant, Rng, Seed};

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
    let paths = any_paths(&mut rng);
    let frames: Vec<Vec<PacketView>> = (0..FRAMES).map(|at| any_frame(&mut rng, at)).collect();
    let [first, second] = [(); 2].map(|()| {
        let mut scheduler = PyScheduler::build(maker);
        let frames = frames.iter();
        frames
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

/// Returns the rule that these assignments break. All paths have room.
fn broken(bound: &[Assignment], frame: &[PacketView], paths: &[PathView]) -> Option<String> {
    let is_usable = paths.iter().any(|path| path.state.is_usable());
    let expected = if is_usable { frame.len() } else { 0 };
    if bound.len() != expected {
        return Some(format!(
            "binds everything where a path has room: {} of {expected} packets were bound",
            bound.len()
        ));
    }
    let is_in_service = |path: &PathView| path.state == PathState::Active && !path.is_standby;
    let has_service = paths.iter().any(is_in_service);
    let has_active = paths.iter().any(|path| path.state == PathState::Active);
    for path in bound.iter().flat_map(|assignment| assignment.paths.iter()) {
        let view = &paths[path.index()];
        if has_active && view.state != PathState::Active {
            return Some(format!("prefers active paths to suspect ones: took {path}"));
        }
        if has_service && view.is_standby {
            return Some(format!(
                "leaves paths in reserve alone while another is active: took {path}"
            ));
        }
    }
    None
}

fn any_paths(rng: &mut Rng) -> Vec<PathView> {
    let count = 1 + rng.below(4);
    (0..count)
        .map(|id| {
            let rtt = Duration::from_millis(1 + rng.below(2_000));
            let rate = DataRate::from_megabits_per_second(rng.below(50));
            let state = [
                PathState::Active,
                PathState::Suspect,
                PathState::Out,
                PathState::Removed,
            ];
            let is_active = rng.chance(0.6);
            PathView {
                id: PathId(id as u8),
                state: if is_active {
                    PathState::Active
                } else {
                    state[rng.below(4) as usize]
                },
                is_standby: rng.chance(0.2),
                weight: 1.0,
                rtt: if rng.chance(0.7) {
PathRtt::constant(rtt)
} else {
PathRtt::default()
},
                forecast: Forecast::constant(rtt, rate),
                pacing_rate: Some(rate),
                bandwidth: rate,
                queued_bytes: rng.below(500_000),
                sendable_bytes: u64::MAX,
                ..PathView::default()
            }
        })
        .collect()
}

fn any_frame(rng: &mut Rng, number: u64) -> Vec<PacketView> {
    let fragment_count = 1 + rng.below(40) as u16;
    let importance = [
        Importance::Key,
        Importance::Reference,
        Importance::Disposable,
    ];
    let importance = importance[rng.below(3) as usize];
    let deadline = rng
        .chance(0.7)
        .then(|| Instant::from_millis(9_500 + rng.below(1_500)));
    (0..fragment_count)
        .map(|fragment| PacketView {
            frame: FrameId(number),
            fragment,
            fragment_count,
            reason: if rng.chance(0.75) {
                SendReason::New
            } else {
                SendReason::Lost
            },
            importance,
            bytes: 40 + rng.below(1_460) as u32,
            deadline,
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        })
        .collect()
}
