//! The paths that a packet may take at all, and the one that delivers it first.

use super::PacketView;
use crate::forecast::Priority;
use crate::path_view::{PathId, PathSet, PathState, PathView};

/// Iterates over the paths that `packet` may take: the active ones that it need not avoid, else any
/// active one, else those held in reserve, else any usable one (better a suspect path than none).
pub fn eligible_paths<'a>(
    packet: &PacketView,
    paths: &'a [PathView],
) -> impl Iterator<Item = &'a PathView> + Clone {
    best_of(paths, packet.avoid)
}

/// Iterates over the paths that a packet may take from which nothing has been lost yet.
pub fn usable(paths: &[PathView]) -> impl Iterator<Item = &PathView> + Clone {
    best_of(paths, PathSet::EMPTY)
}

fn best_of(paths: &[PathView], avoid: PathSet) -> impl Iterator<Item = &PathView> + Clone {
    let ranks = paths.iter().map(|path| rank(path, avoid));
    let best = ranks.min().unwrap_or(4);
    paths
        .iter()
        .filter(move |path| rank(path, avoid) == best && best < 4)
}

/// Returns the path's place in the order in which paths are taken, from 0 to 4, which is never.
fn rank(path: &PathView, avoid: PathSet) -> u8 {
    match path.state {
        PathState::Active if path.is_standby => 2,
        PathState::Active if !avoid.contains(path.id) => 0,
        PathState::Active => 1,
        PathState::Suspect => 3,
        PathState::Out | PathState::Removed => 4,
    }
}

/// Returns the path that delivers `packet`, a retransmission, first.
pub fn fastest(packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
    cheapest(packet, paths, |path| {
        path.preferred(path.arrival(Priority::Retransmission, u64::from(packet.bytes)))
    })
}

/// Returns the candidate of the least cost. With a single path, no cost is computed.
pub fn cheapest<K: Ord>(
    packet: &PacketView,
    paths: &[PathView],
    cost: impl FnMut(&&PathView) -> K,
) -> Option<PathId> {
    match paths {
        [only] => only.state.is_usable().then_some(only.id),
        _ => eligible_paths(packet, paths)
            .min_by_key(cost)
            .map(|path| path.id),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{DataRate, Duration, Importance};

    use super::*;
    use crate::forecast::Forecast;
    use crate::fragment::FrameId;
    use crate::send_reason::SendReason;

    fn packet(avoid: PathSet) -> PacketView {
        PacketView {
            frame: FrameId(0),
            fragment: 0,
            fragment_count: 1,
            reason: SendReason::Lost,
            importance: Importance::Reference,
            bytes: 1_000,
            deadline: None,
            in_flight_on: PathSet::EMPTY,
            avoid,
        }
    }

    /// Returns active paths of these round-trip times, in milliseconds.
    fn paths(rtt_millis: &[u64]) -> Vec<PathView> {
        rtt_millis
            .iter()
            .zip(0..)
            .map(|(&rtt, id)| PathView {
                id: PathId(id),
                weight: 1.0,
                forecast: Forecast::constant(
                    Duration::from_millis(rtt),
                    DataRate::from_megabits_per_second(8),
                ),
                ..PathView::default()
            })
            .collect()
    }

    /// Returns the paths that a packet may take which the first one has lost.
    fn taken(paths: &[PathView]) -> Vec<u8> {
        let lost_on_first = packet(PathSet::only(PathId(0)));
        let ids = eligible_paths(&lost_on_first, paths);
        ids.map(|path| path.id.0).collect()
    }

    #[test]
    fn each_kind_of_path_is_taken_only_where_no_better_one_is_left() {
        let mut paths = paths(&[40; 4]);
        paths[2].is_standby = true;
        paths[3].state = PathState::Suspect;
        assert_eq!(taken(&paths), [1]);
        let all_usable: Vec<u8> = usable(&paths).map(|path| path.id.0).collect();
        assert_eq!(all_usable, [0, 1]);
        paths[1].state = PathState::Out;
        assert_eq!(taken(&paths), [0]);
        paths[0].state = PathState::Removed;
        assert_eq!(taken(&paths), [2]);
        paths[2].state = PathState::Out;
        assert_eq!(taken(&paths), [3]);
        paths[3].state = PathState::Out;
        assert_eq!(fastest(&packet(PathSet::only(PathId(0))), &paths), None);
    }

    #[test]
    fn fastest_counts_retransmissions_and_weight() {
        let packet = packet(PathSet::EMPTY);
        let mut paths = paths(&[40, 60]);
        // New packets wait behind a retransmission.
        paths[0].queued_bytes = 50_000;
        assert_eq!(fastest(&packet, &paths), Some(PathId(0)));
        // 20 + 11 + 1 ms against 30 + 1.
        paths[0].retransmission_bytes = 11_000;
        assert_eq!(fastest(&packet, &paths), Some(PathId(1)));
        paths[0].weight = 2.0;
        assert_eq!(fastest(&packet, &paths), Some(PathId(0)));
    }
}
