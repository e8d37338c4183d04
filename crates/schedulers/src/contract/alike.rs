//! Contract of every scheduler if paths are alike, and if one is still unknown.

use anabranch_core::scheduler::PacketView;
use anabranch_core::{Forecast, PathId, PathRtt, PathSet, PathState, PathView, SendReason};
use anabranch_units::{Duration, Instant};
use proptest::prelude::*;

use super::super::testing::{Bed, path};
use super::{NOW, schedulers};

/// The schedulers whose first frame is dealt by rates or turns alone.
const BY_TURNS: &[&str] = &["edcld", "linux", "round-robin", "wrr"];
/// The schedulers that prefer a path with a longer round-trip time.
const BY_BDP: &[&str] = &["bbr-sticky", "largest-bdp"];

/// A packet that is late on every path, so that `redundant` too has to choose one.
fn late(reason: SendReason, bytes: u32) -> PacketView {
    PacketView {
        reason,
        deadline: Some(Instant::from_secs(9)),
        ..Bed::source(0, bytes)
    }
}

/// Difference of one of several paths from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Near,
    Far,
    Suspect,
    Out,
    InReserve,
}

fn any_standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        3 => Just(Standing::Near),
        1 => Just(Standing::Far),
        1 => Just(Standing::Suspect),
        1 => Just(Standing::Out),
        1 => Just(Standing::InReserve),
    ]
}

fn standing(template: &PathView, id: u8, standing: Standing) -> PathView {
    fn rtt(rtt: Option<Duration>, standing: Standing) -> Option<Duration> {
        match standing {
            Standing::Far => rtt.map(|rtt| rtt + Duration::from_millis(100)),
            _ => rtt,
        }
    }
    PathView {
        id: PathId(id),
        state: match standing {
            Standing::Suspect => PathState::Suspect,
            Standing::Out => PathState::Out,
            _ => PathState::Active,
        },
        is_standby: standing == Standing::InReserve,
        rtt: PathRtt {
            smoothed: rtt(template.rtt.smoothed, standing),
            latest: rtt(template.rtt.latest, standing),
            least: rtt(template.rtt.least, standing),
            ..template.rtt
        },
        forecast: Forecast {
            one_way_delay: rtt(Some(template.forecast.one_way_delay), standing).unwrap_or_default(),
            ..template.forecast
        },
        ..*template
    }
}

proptest! {
    #[test]
    fn contract_of_equal_paths_the_one_of_the_lowest_id_is_taken(
        standings in prop::collection::vec(any_standing(), 1..6),
        nearest in 0_usize..6,
        (rtt_millis, rate, queued_bytes) in (1_u64..400, 1_u64..50, 0_u64..60_000),
        is_retransmission in any::<bool>(),
        bytes in 40_u32..1_500,
    ) {
        let mut standings = standings;
        let nearest = nearest % standings.len();
        standings[nearest] = Standing::Near;
        let template = PathView { queued_bytes, ..path(0, rtt_millis, rate) };
        let views = standings.iter().zip(0..);
        let paths: Vec<_> = views.map(|(one, id)| standing(&template, id, *one)).collect();
        let reason = if is_retransmission {
SendReason::Lost
} else {
SendReason::New
};
        let first = |is_taken: &dyn Fn(Standing) -> bool| {
            let index = standings.iter().position(|standing| is_taken(*standing));
            PathId(index.expect("one is near") as u8)
        };
        for entry in schedulers() {
            let is_by_turn = !is_retransmission && BY_TURNS.contains(&entry.name);
            let is_by_bdp = !is_retransmission && BY_BDP.contains(&entry.name);
            let expected = if is_by_bdp && standings.contains(&Standing::Far) {
first(&|standing| standing == Standing::Far)
} else {
first(&|standing| {
                    standing == Standing::Near || is_by_turn && standing == Standing::Far
                })
};
            let mut bed = Bed::new((entry.build)(), paths.clone());
            let bound = bed.schedule_at(NOW, &[late(reason, bytes)]);
            prop_assert_eq!(bound.len(), 1, "{}", entry.name);
            // `sfl` pours it over all equal ones alike: it belongs to the one that its middle
            // falls to, the second of three, and of two to either, by rounding.
            let is_water_filling = entry.name == "sfl" && !is_retransmission;
            let taken = bound[0].1.iter().next().expect("it is bound");
            let is_equal = is_water_filling && standings[taken.index()] == Standing::Near;
            let is_expected = bound[0].1 == PathSet::only(expected) || is_equal;
            prop_assert!(is_expected, "{}: {taken}, not {expected}", entry.name);
        }
    }

    #[test]
    fn contract_an_unknown_round_trip_time_counts_as_100_ms(
        paths in prop::collection::vec(
            (prop::option::of(1_u64..400), 1_u64..50, any::<bool>(), 0_u64..60_000), 1..6),
        frames in prop::collection::vec(1_u16..40, 1..8),
        deadline_millis in prop::option::of(0_u64..300),
    ) {
        let paths_with = |unknown: Option<Duration>| {
            let view = |(id, (rtt, rate, has_window, queued_bytes)): (usize, &_)| {
                let rtt: &Option<u64> = rtt;
                let mut view = path(id as u8, rtt.unwrap_or(0), *rate);
                if rtt.is_none() {
                    view.rtt = unknown.map_or(PathRtt::default(), PathRtt::constant);
                    view.forecast.one_way_delay = PathView::UNKNOWN_RTT / 2;
                }
                if *has_window {
                    view.pacing_rate = None;
                    view.congestion_window = Some(20_000);
                }
                PathView { queued_bytes: *queued_bytes, ..view }
            };
            paths.iter().enumerate().map(view).collect::<Vec<_>>()
        };
        for entry in schedulers() {
            let bound_with = |unknown| {
                let mut bed = Bed::new((entry.build)(), paths_with(unknown));
                let mut bound = Vec::new();
                for (packet_count, turn) in frames.iter().zip(0..) {
                    let at = NOW + Duration::from_millis(40 * turn);
                    let mut packets = Bed::frame(*packet_count, 1000);
                    for packet in &mut packets {
                        packet.deadline =
                            deadline_millis.map(|millis| at + Duration::from_millis(millis));
                    }
                    bound.extend(bed.schedule_at(at, &packets));
                    bed.paths.iter_mut().for_each(|path| path.queued_bytes /= 2);
                }
                bound
            };
            let known = bound_with(Some(Duration::from_millis(100)));
            prop_assert_eq!(bound_with(None), known, "{}", entry.name);
        }
    }
}

/// Which path each packet takes of a frame of 12 over three equal paths, in the media's order.
#[test]
fn contract_a_frame_over_equal_paths_begins_at_the_lowest_id() {
    for entry in schedulers() {
        let paths = [0, 1, 2].map(|id| path(id, 40, 8));
        let mut bed = Bed::new((entry.build)(), paths.to_vec());
        let mut bound = bed.schedule(&Bed::frame(12, 1000));
        bound.sort_by_key(|(packet, _)| packet.fragment);
        let trail: Vec<u8> = bound
            .iter()
            .flat_map(|(_, set)| set.iter().map(|id| id.0).collect::<Vec<_>>())
            .collect();
        let expected: &[u8] = match entry.name {
            // From the beginning, and both others from the end.
            "dems" => &[0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1],
            // Four at a time.
            "mdp" | "sfl" => &[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
            "redundant" => &[0, 1, 2].repeat(12),
            // Each while it has room, or a burst.
            "bbr-sticky" | "blest" | "ecf" | "largest-bdp" | "let" | "let-delivered" | "linux"
            | "spd" | "sticky" | "tcp-state" => &[0; 12],
            _ => &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2],
        };
        assert_eq!(trail, expected, "{}", entry.name);
    }
}

#[test]
fn contract_a_path_of_unknown_round_trip_time_is_between_those_of_90_and_110_ms() {
    for entry in schedulers() {
        if ["linux", "round-robin", "wrr"].contains(&entry.name) {
            continue;
        }
        for (known_millis, is_unknown_nearer) in [(90, false), (110, true)] {
            let is_unknown_taken = is_unknown_nearer != BY_BDP.contains(&entry.name);
            for unknown in [0, 1] {
                let known = 1 - unknown;
                let mut paths = [0, 1].map(|id| path(id, known_millis, 8));
                let view = &mut paths[usize::from(unknown)];
                view.rtt = PathRtt::default();
                view.forecast.one_way_delay = PathView::UNKNOWN_RTT / 2;
                let mut bed = Bed::new((entry.build)(), paths.to_vec());
                // `edcld` moves its shares from the second frame on.
                let bound = (0..10).map(|turn| {
                    bed.paths.iter_mut().for_each(|path| path.queued_bytes = 0);
                    let at = NOW + Duration::from_millis(40 * turn);
                    bed.schedule_at(at, &[late(SendReason::New, 1000)])[0].1
                });
                let expected = if is_unknown_taken { unknown } else { known };
                let last = bound.last().expect("there are ten");
                let name = entry.name;
                assert_eq!(
                    last,
                    PathSet::only(PathId(expected)),
                    "{name} {known_millis}"
                );
            }
        }
    }
}
