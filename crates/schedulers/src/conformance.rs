//! Random packets and paths for a scheduler, and rules for its assignments. The contract of every
//! scheduler has them, here and in the Python package.

use anabranch_core::scheduler::{Assignment, PacketView};
use anabranch_core::{
    Forecast, FrameId, PathId, PathRtt, PathSet, PathState, PathView, SendReason,
};
use anabranch_units::{DataRate, Duration, Importance, Instant, Rng};

/// Returns the rule that these assignments break. All paths have room.
pub fn broken_rule(
    bound: &[Assignment],
    frame: &[PacketView],
    paths: &[PathView],
) -> Option<String> {
    fn is_in_service(path: &PathView) -> bool {
        path.state == PathState::Active && !path.is_standby
    }

    let is_usable = paths.iter().any(|path| path.state.is_usable());
    let expected = if is_usable { frame.len() } else { 0 };
    if bound.len() != expected {
        return Some(format!(
            "binds everything where a path has room: {} of {expected} packets were bound",
            bound.len()
        ));
    }
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

/// Returns up to four random paths with room.
pub fn random_paths(rng: &mut Rng) -> Vec<PathView> {
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

/// Returns the packets of a random frame.
pub fn random_frame(rng: &mut Rng, number: u64) -> Vec<PacketView> {
    let fragment_count = 1 + rng.below(40) as u16;
    let kinds = [
        Importance::Key,
        Importance::Reference,
        Importance::Disposable,
    ];
    let importance = kinds[rng.below(3) as usize];
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
