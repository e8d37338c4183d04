//! Contract of every registered scheduler, whatever it optimises: one property model for all.

mod alike;

use anabranch_core::scheduler::{Assignment, PacketView, SchedulerEvent};
use anabranch_core::{PathId, PathSet, PathState, PathView, SendReason};
use anabranch_units::{DataRate, Duration, Importance, Instant};
use proptest::prelude::*;

use super::conformance::broken_rule;
use super::testing::{Bed, FluidBed, path};
use super::{SCHEDULERS, SchedulerEntry, by_name, template};

/// Returns all registered schedulers, and the template of a new one.
fn schedulers() -> impl Iterator<Item = SchedulerEntry> {
    let template = SchedulerEntry {
        name: "template",
        summary: "",
        build: template::build,
    };
    SCHEDULERS.iter().copied().chain([template])
}

fn any_state() -> impl Strategy<Value = PathState> {
    prop_oneof![
        4 => Just(PathState::Active),
        1 => Just(PathState::Suspect),
        1 => Just(PathState::Out),
        1 => Just(PathState::Removed),
    ]
}

fn any_paths() -> impl Strategy<Value = Vec<PathView>> {
    let one = (
        any_state(),
        prop::option::of(1_u64..2_000),
        0_u64..50,
        0_u64..500_000,
        0_u64..100,
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(one, 1..5).prop_map(|paths| {
        let views = paths.into_iter().enumerate().map(
            |(id, (state, rtt, rate, queued_bytes, rtt_variation, is_standby))| {
                let mut view = path(id as u8, rtt.unwrap_or(1), rate);
                view.state = state;
                view.queued_bytes = queued_bytes;
                view.rtt.variation = Duration::from_millis(rtt_variation);
                view.is_standby = is_standby;
                if rtt.is_none() {
                    (view.rtt.smoothed, view.rtt.latest, view.rtt.least) = (None, None, None);
                    view.bandwidth = DataRate::ZERO;
                }
                view
            },
        );
        views.collect()
    })
}

/// Time at which the packets of [`any_packets`] are offered.
const NOW: Instant = Instant::from_secs(10);

/// Returns past, near, far and no deadlines.
fn any_deadline() -> impl Strategy<Value = Option<Instant>> {
    prop_oneof![
        1 => (0_u64..10_000).prop_map(|millis| Some(Instant::from_millis(millis))),
        2 => (0_u64..600).prop_map(|millis| Some(NOW + Duration::from_millis(millis))),
        1 => Just(Some(NOW + Duration::from_secs(3_600))),
        2 => Just(None),
    ]
}

fn any_importance() -> impl Strategy<Value = Importance> {
    prop_oneof![
        Just(Importance::Key),
        Just(Importance::Reference),
        Just(Importance::Disposable),
    ]
}

fn any_packets() -> impl Strategy<Value = Vec<PacketView>> {
    let reason = prop_oneof![
        3 => Just(SendReason::New),
        1 => Just(SendReason::Lost),
    ];
    let one = (reason, any_importance(), 40_u32..1_500, 0_u8..16);
    let frame = (any_deadline(), prop::collection::vec(one, 1..40));
    frame.prop_map(|(deadline, packets)| {
        let fragment_count = packets.len() as u16;
        let views =
            packets
                .into_iter()
                .zip(0..)
                .map(|((reason, importance, bytes, avoid), fragment)| {
                    let avoid: PathSet = (0..4)
                        .filter(|bit| avoid >> bit & 1 == 1)
                        .map(PathId)
                        .collect();
                    PacketView {
                        fragment_count,
                        reason,
                        importance,
                        deadline,
                        avoid,
                        ..Bed::source(fragment, bytes)
                    }
                });
        views.collect()
    })
}

proptest! {
    #[test]
    fn contract_no_room_binds_nothing(
        mut paths in any_paths(),
        packets in any_packets(),
    ) {
        for path in &mut paths {
            path.sendable_bytes = 0;
        }
        for entry in schedulers().filter(|entry| (entry.build)().needs_room()) {
            let mut bed = Bed::new((entry.build)(), paths.clone());
            prop_assert_eq!(bed.schedule_at(NOW, &packets), [], "{}", entry.name);
        }
    }

    #[test]
    fn contract_binds_each_packet_at_most_once_and_never_to_a_dead_path(
        paths in any_paths(),
        frames in prop::collection::vec(any_packets(), 1..6),
    ) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), paths.clone());
            for packets in &frames {
                let bound = bed.schedule_at(NOW, packets);
                let mut fragments: Vec<u16> = bound.iter().map(|(p, _)| p.fragment).collect();
                fragments.sort_unstable();
                fragments.dedup();
                prop_assert_eq!(fragments.len(), bound.len(), "{} bound twice", entry.name);
                for (_, set) in &bound {
                    prop_assert!(!set.is_empty(), "{} bound to no path", entry.name);
                    for id in set.iter() {
                        let state = paths.get(id.index()).map(|path| path.state);
                        prop_assert!(
                            state.is_some_and(PathState::is_usable),
                            "{} bound to {id}, which is {state:?}", entry.name
                        );
                    }
                }
            }
        }
    }

    /// It binds everything where a path has room, prefers active paths to suspect ones, and leaves
    /// paths in reserve alone while another is active.
    #[test]
    fn contract_assignments_break_no_rule(paths in any_paths(), packets in any_packets()) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), paths.clone());
            let bound: Vec<Assignment> = bed
                .schedule_at(NOW, &packets)
                .into_iter()
                .map(|(packet, paths)| Assignment { index: packet.fragment.into(), paths })
                .collect();
            prop_assert_eq!(broken_rule(&bound, &packets, &paths), None, "{}", entry.name);
        }
    }

    #[test]
    fn contract_a_single_path_gets_everything(packets in any_packets(), rate in 0_u64..50) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), vec![path(0, 30, rate)]);
            prop_assert_eq!(bed.schedule_at(NOW, &packets).len(), packets.len(), "{}", entry.name);
        }
    }

    #[test]
    fn contract_same_calls_same_answers(paths in any_paths(), packets in any_packets()) {
        for entry in schedulers() {
            let [one, other] = [(); 2].map(|()| {
                Bed::new((entry.build)(), paths.clone()).schedule_at(NOW, &packets)
            });
            prop_assert_eq!(one, other, "{}", entry.name);
        }
    }
}

/// Schedulers without a preference among paths that a weight could change: they use all paths.
const WITHOUT_PREFERENCE: &[&str] = &["redundant", "round-robin"];

/// Returns the bytes that the second of two paths is given, by its weight.
fn bytes_by_weight(entry: &SchedulerEntry, rtt_millis: u64, load: f64) -> [u64; 4] {
    [0.5, 1.0, 2.0, 4.0].map(|weight| {
        let mut paths = vec![path(0, 40, 8), path(1, rtt_millis, 4)];
        paths[1].weight = weight;
        let mut bed = FluidBed::new((entry.build)(), paths);
        bed.run_at(load, 4);
        bed.bound_bytes[1]
    })
}

#[test]
fn contract_twice_the_weight_never_lowers_the_bytes_of_a_path() {
    fn weighing(entry: &SchedulerEntry) -> bool {
        !WITHOUT_PREFERENCE.contains(&entry.name)
    }
    for entry in schedulers().filter(weighing) {
        for (rtt_millis, load) in [(40, 0.5), (40, 1.2), (100, 0.5), (100, 1.2)] {
            let bytes = bytes_by_weight(&entry, rtt_millis, load);
            let name = entry.name;
            assert!(
                bytes.is_sorted(),
                "{name} {rtt_millis} ms at {load}: {bytes:?}"
            );
        }
        if entry.name == "linux" {
            // Where paths are nearly idle, bursts alternate.
            continue;
        }
        let mut paths = vec![path(0, 40, 8), path(1, 40, 8)];
        paths[1].weight = 3.0;
        let mut bed = FluidBed::new((entry.build)(), paths);
        bed.run_at(0.2, 4);
        assert!(bed.share(1) > 0.6, "{}: {}", entry.name, bed.share(1));
    }
}

#[test]
fn contract_every_name_is_unique_and_an_unknown_one_lists_them() {
    let error = by_name("nearest").unwrap_err().to_string();
    for entry in SCHEDULERS {
        assert!(error.contains(entry.name), "{error}");
        assert_eq!(
            SCHEDULERS
                .iter()
                .filter(|other| other.name == entry.name)
                .count(),
            1
        );
    }
}

/// Returns a session's paths over time: as many as exist by then, each in some state.
fn any_life() -> impl Strategy<Value = Vec<(Vec<PathState>, Vec<PacketView>)>> {
    let step = (prop::collection::vec(any_state(), 4), any_packets());
    prop::collection::vec(step, 2..8).prop_map(|mut steps| {
        for (index, (states, _)) in steps.iter_mut().enumerate() {
            // Another path joins at every other step, and none is ever removed from the list.
            states.truncate(1 + index / 2);
        }
        steps
    })
}

proptest! {
    #[test]
    fn contract_changing_paths_bind_to_usable_ones(life in any_life()) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), Vec::new());
            for (states, packets) in &life {
                for (id, state) in states.iter().enumerate() {
                    if bed.paths.len() == id {
                        bed.paths.push(path(id as u8, 20 + 30 * id as u64, 4));
                    }
                    let was_usable = bed.paths[id].state.is_usable();
                    bed.paths[id].state = *state;
                    let path_id = PathId(id as u8);
                    let event = if state.is_usable() {
SchedulerEvent::PathUp(path_id)
} else {
SchedulerEvent::PathDown(path_id)
};
                    if was_usable != state.is_usable() {
                        bed.scheduler.on_event(Instant::ZERO, &event);
                    }
                }
                let is_any_usable = states.iter().any(|state| state.is_usable());
                let bound = bed.schedule_at(NOW, packets);
                let expected = if is_any_usable { packets.len() } else { 0 };
                prop_assert_eq!(bound.len(), expected, "{}", entry.name);
                for (_, set) in &bound {
                    let is_alive = set.iter().all(|id| states[id.index()].is_usable());
                    prop_assert!(is_alive, "{}", entry.name);
                }
            }
        }
    }

    #[test]
    fn contract_held_packets_are_bound_with_room(
        packets in any_packets(),
    ) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), vec![path(0, 20, 4), path(1, 50, 3)]);
            bed.paths.iter_mut().for_each(|path| path.sendable_bytes = 0);
            let early = bed.schedule_at(NOW, &packets);
            let held: Vec<PacketView> = packets
                .iter()
                .filter(|packet| {
                    early.iter().all(|(bound, _)| bound.fragment != packet.fragment)
                })
                .copied()
                .collect();
            bed.paths.iter_mut().for_each(|path| path.sendable_bytes = u64::MAX);
            let late = bed.schedule_at(NOW, &held);
            prop_assert_eq!(early.len() + late.len(), packets.len(), "{}", entry.name);
        }
    }

    #[test]
    fn contract_only_redundant_schedulers_copy(
        paths in any_paths(),
        frames in prop::collection::vec(any_packets(), 1..6),
    ) {
        for entry in schedulers() {
            let mut bed = Bed::new((entry.build)(), paths.clone());
            let bound: Vec<_> =
                frames.iter().flat_map(|packets| bed.schedule_at(NOW, packets)).collect();
            let copied = bound.iter().filter(|(_, set)| set.len() > 1).count();
            let may_copy = matches!(entry.name, "dems" | "redundant");
            prop_assert!(may_copy || copied == 0, "{}: {copied} packets", entry.name);
        }
    }
}
