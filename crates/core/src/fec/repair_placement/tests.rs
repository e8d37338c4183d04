use anabranch_units::{DataRate, Importance};

use super::*;
use crate::forecast::Forecast;
use crate::fragment::FrameId;
use crate::path_view::{PathSet, PathState, Risk};
use crate::send_reason::SendReason;

fn path(id: u8, rtt_millis: u64, loss_ratio: f64) -> PathView {
    PathView {
        id: PathId(id),
        forecast: Forecast::constant(
            Duration::from_millis(rtt_millis),
            DataRate::from_megabits_per_second(4),
        ),
        risk: Risk {
            loss_ratio,
            recent_max_loss: loss_ratio,
            ..Risk::default()
        },
        weight: 1.0,
        ..PathView::default()
    }
}

fn repair(deadline_millis: u64) -> PacketView {
    PacketView {
        frame: FrameId(0),
        fragment: 0,
        fragment_count: 1,
        reason: SendReason::Repair,
        importance: Importance::Reference,
        bytes: 1_000,
        deadline: Some(Instant::from_millis(deadline_millis)),
        in_flight_on: PathSet::EMPTY,
        avoid: PathSet::EMPTY,
    }
}

/// Returns the state after symbols that took these paths.
fn repair_placement(taken: &[u8]) -> RepairPlacement {
    let mut repair_placement = RepairPlacement::new();
    for (symbol, path) in (0..).zip(taken) {
        repair_placement.on_symbol(symbol, PathId(*path));
    }
    repair_placement
}

/// Places `count` repairs of these symbols. Returns the number on each path.
fn place(
    repair_placement: &mut RepairPlacement,
    count: u16,
    window: Range<u64>,
    paths: &[PathView],
) -> Vec<u16> {
    let mut counts = vec![0; paths.len()];
    for _ in 0..count {
        let path = repair_placement
            .path_for(Instant::ZERO, &repair(500), &window, paths)
            .unwrap();
        repair_placement.on_repair(&window, path);
        counts[path.index()] += 1;
    }
    counts
}

#[test]
fn repairs_of_a_block_go_where_loss_is_low_and_the_sources_are_not() {
    fn split(count: u16, taken: &[u8], losses: &[f64]) -> Vec<u16> {
        let paths: Vec<PathView> = (0..)
            .zip(losses)
            .map(|(id, loss)| path(id, 40, *loss))
            .collect();
        let end = taken.len() as u64;
        place(&mut repair_placement(taken), count, 0..end, &paths)
    }
    assert_eq!(split(5, &[0; 20], &[0.1]), [5]);
    assert_eq!(split(1, &[0], &[0.0, 0.0]), [0, 1]);
    assert_eq!(split(5, &[0, 0, 0, 0, 1], &[0.0, 0.0]), [1, 4]);
    assert_eq!(split(6, &[0, 1], &[0.02, 0.04]), [4, 2]);
    assert_eq!(split(9, &[0, 1, 2], &[0.05, 0.05, 0.05]), [3, 3, 3]);
    // Losses below 1 % are treated alike: ten to one.
    assert_eq!(split(22, &[0; 20], &[0.0, 0.005, 0.1]), [0, 20, 2]);
    assert_eq!(split(4, &[0; 20], &[0.0, 0.5]), [0, 4]);
}

#[test]
fn a_path_that_has_lost_nothing_for_ten_seconds_is_tried_again() {
    fn of(paths: &[PathView]) -> Vec<u16> {
        place(&mut repair_placement(&[0; 20]), 4, 0..20, paths)
    }

    let mut paths = [0, 1, 2].map(|id| path(id, 40, if id == 2 { 0.5 } else { 0.0 }));
    assert_eq!(of(&paths), [0, 4, 0]);
    paths[2].risk.recent_max_loss = 0.0;
    assert_eq!(of(&paths), [0, 2, 2]);
}

#[test]
fn repairs_of_a_sliding_window_are_spread_over_time() {
    let mut repair_placement = repair_placement(&[0; 220]);
    let paths = [path(0, 40, 0.0), path(1, 40, 0.02), path(2, 40, 0.06)];
    let mut counts = [0; 3];
    for end in (20..220).step_by(5) {
        let of_one = place(&mut repair_placement, 1, end - 20..end, &paths);
        (0..3).for_each(|path| counts[path] += of_one[path]);
    }
    assert_eq!(counts, [0, 30, 10]);
}

#[test]
fn blocks_of_one_frame_are_spread_each() {
    let mut taken = vec![0; 100];
    taken.extend([1; 100]);
    let mut repair_placement = repair_placement(&taken);
    let paths = [path(0, 40, 0.0), path(1, 40, 0.0)];
    for _ in 0..4 {
        assert_eq!(place(&mut repair_placement, 1, 0..100, &paths), [0, 1]);
        assert_eq!(place(&mut repair_placement, 1, 100..200, &paths), [1, 0]);
    }
}

#[test]
fn a_repair_goes_with_its_sources_if_it_would_be_late_elsewhere() {
    fn chosen(
        millis: u64,
        paths: &[PathView],
        repair_placement: &RepairPlacement,
    ) -> Option<PathId> {
        let packet = repair(millis);
        repair_placement.path_for(Instant::ZERO, &packet, &(0..2), paths)
    }

    let repair_placement = repair_placement(&[0, 0]);
    let mut paths = [path(0, 20, 0.0), path(1, 400, 0.0)];
    assert_eq!(chosen(500, &paths, &repair_placement), Some(PathId(1)));
    assert_eq!(chosen(100, &paths, &repair_placement), Some(PathId(0)));
    paths[1].is_standby = true;
    assert_eq!(chosen(500, &paths, &repair_placement), Some(PathId(0)));
    paths[0].state = PathState::Suspect;
    assert_eq!(
        chosen(500, &paths, &repair_placement),
        None,
        "the scheduler's choice stands"
    );
}
