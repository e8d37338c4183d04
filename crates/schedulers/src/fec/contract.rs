//! Contract of every policy.

use anabranch_core::fec::{FecPolicy, FrameToProtect};
use anabranch_core::{Forecast, FrameId, PathId, PathRtt, PathView, Risk, SessionView};
use anabranch_fec::MAX_WINDOW;
use anabranch_units::{DataRate, Duration, Importance, Instant, Rng, Seed};

use super::registry::{FEC_POLICIES, fec_policy};

/// Returns a path of this round-trip time with this recent loss.
fn path(id: u8, rtt_millis: u64, loss: f64) -> PathView {
    let (rtt, rate) = (
        Duration::from_millis(rtt_millis),
        DataRate::from_megabits_per_second(4),
    );
    PathView {
        id: PathId(id),
        rtt: PathRtt::constant(rtt),
        forecast: Forecast::constant(rtt, rate),
        bandwidth: rate,
        risk: Risk {
            loss_ratio: loss,
            recent_max_loss: loss,
            loss_burst_packets: 1.0,
            ..Risk::default()
        },
        ..PathView::default()
    }
}

/// Returns the path with this share of media.
fn carrying(media_share: f64, mut path: PathView) -> PathView {
    path.risk.media_share = media_share;
    path
}

const KINDS: [Importance; 3] = [
    Importance::Key,
    Importance::Reference,
    Importance::Disposable,
];

/// A policy, and the frames that it is asked about.
struct Bed {
    policy: Box<dyn FecPolicy>,
    next: u64,
    symbols: u64,
    repairs: u64,
}

impl Bed {
    fn new(name: &str) -> Self {
        Bed {
            policy: fec_policy(name).unwrap().expect("not off").build(),
            next: 0,
            symbols: 0,
            repairs: 0,
        }
    }

    /// Adds a frame, 25 of which come in a second, with a key frame every 50.
    fn frame(&mut self, symbol_count: u16, importance: Importance, paths: &[PathView]) -> u16 {
        let now = Instant::from_millis(self.next * 40);
        let frame = FrameToProtect {
            id: FrameId(self.next),
            importance,
            symbol_count,
            bytes: u32::from(symbol_count) * 1_316,
            deadline: now + Duration::from_millis(500),
        };
        let session = SessionView::default();
        let protection = self.policy.protect(now, &frame, &session, paths);
        let repairs = protection.repair_count();
        let window = protection.window.map_or(1, |window| window.symbols);
        assert!((1..=MAX_WINDOW).contains(&window), "{protection:?}");
        assert!(
            protection.frame_repairs <= symbol_count,
            "m <= k: {protection:?}"
        );
        self.next += 1;
        self.symbols += u64::from(symbol_count);
        self.repairs += u64::from(repairs);
        repairs
    }

    fn run(&mut self, frames: u64, symbol_count: u16, paths: &[PathView]) -> f64 {
        let (symbols, repairs) = (self.symbols, self.repairs);
        for _ in 0..frames {
            let importance = Importance::key_if(self.next.is_multiple_of(50));
            self.frame(symbol_count, importance, paths);
        }
        (self.repairs - repairs) as f64 / (self.symbols - symbols) as f64
    }
}

/// Iterates over the names of policies that depend on losses.
fn by_loss() -> impl Iterator<Item = &'static str> {
    names().filter(|name| *name != "fixed")
}

fn names() -> impl Iterator<Item = &'static str> {
    let names = FEC_POLICIES.iter().map(|entry| entry.name);
    names.filter(|name| *name != "off")
}

#[test]
fn without_loss_there_is_no_repair() {
    for name in by_loss() {
        for symbol_count in [1, 4, 10, 300] {
            let mut bed = Bed::new(name);
            let paths = [path(0, 150, 0.0), path(1, 600, 0.0)];
            assert_eq!(bed.run(100, symbol_count, &paths), 0.0, "{name}");
        }
    }
}

#[test]
fn paths_that_carry_no_media_do_not_count() {
    // One without loss carries it all; the other is far, and loses.
    let carrier = carrying(1.0, path(0, 40, 0.0));
    let idle = path(1, 600, 0.1);
    let barely = carrying(0.009, idle);
    let in_reserve = PathView {
        is_standby: true,
        ..carrying(0.5, idle)
    };
    for name in by_loss() {
        for other in [idle, barely, in_reserve] {
            let overhead = Bed::new(name).run(200, 10, &[carrier, other]);
            assert_eq!(overhead, 0.0, "{name}: {other:?}");
        }
    }
    // Nor does it make retransmissions late that the other is far.
    let lossy = carrying(1.0, path(0, 40, 0.02));
    for other in [idle, barely, in_reserve] {
        let overhead = Bed::new("adaptive").run(200, 10, &[lossy, other]);
        assert_eq!(overhead, 0.0, "{other:?}");
    }
}

#[test]
fn losses_weigh_as_much_as_the_path_carries_and_as_its_bandwidth_while_none_does() {
    for name in by_loss() {
        // A quarter and three quarters are 2.5 % and 7.5 % of losses; bandwidth says the latter.
        let [quarter, most, unknown] = [[0.75, 0.25], [0.25, 0.75], [0.0, 0.0]].map(|shares| {
            let mut paths = [path(0, 600, 0.0), path(1, 600, 0.1)];
            paths[1].bandwidth = DataRate::from_megabits_per_second(12);
            (0..2).for_each(|index| paths[index].risk.media_share = shares[index]);
            Bed::new(name).run(200, 20, &paths)
        });
        let alone = Bed::new(name).run(200, 20, &[path(0, 600, 0.025)]);
        assert_eq!(quarter, alone, "{name}");
        assert_eq!(unknown, most, "{name}");
        assert!(quarter < most, "{name}");
    }
}

#[test]
fn ten_seconds_without_loss_end_it_though_the_smoothed_ratio_does_not_fall() {
    let mut silent = path(0, 600, 0.1);
    silent.risk.recent_max_loss = 0.0;
    for name in by_loss() {
        assert_eq!(Bed::new(name).run(200, 10, &[silent]), 0.0, "{name}");
    }
}

#[test]
fn key_frames_are_protected_best_and_disposable_ones_not_at_all() {
    let paths = [path(0, 600, 0.05)];
    for name in names() {
        for symbol_count in [1, 4, 20, 300] {
            let [key, reference, disposable] = KINDS.map(|importance| {
                let mut bed = Bed::new(name);
                let frames = (0..50).map(|_| bed.frame(symbol_count, importance, &paths));
                frames.map(u32::from).sum::<u32>()
            });
            assert_eq!(disposable, 0, "{name} {symbol_count}");
            assert!(
                key >= reference && reference > 0,
                "{name} {symbol_count}: {key} {reference}"
            );
            // One repair is all that a symbol can get, and half a one over time.
            if symbol_count == 20 {
                assert!(key > reference, "{name}: {key} {reference}");
            }
        }
        // Among others, too: references get no less for the disposable ones between them.
        let mut bed = Bed::new(name);
        for index in 0..100 {
            let importance = match index % 2 {
                0 => Importance::Reference,
                _ => Importance::Disposable,
            };
            let repairs = bed.frame(20, importance, &paths);
            assert_eq!(repairs > 0, index % 2 == 0, "{name} {index}: {repairs}");
        }
    }
}

#[test]
fn overhead_is_at_most_half_over_time_whatever_the_losses() {
    for name in by_loss() {
        for symbol_count in [1, 4, 10, 300] {
            let mut bed = Bed::new(name);
            bed.run(200, symbol_count, &[path(0, 600, 0.9)]);
            let overhead = bed.run(2_000, symbol_count, &[path(0, 600, 0.9)]);
            assert!(overhead <= 0.501, "{name} {symbol_count}: {overhead}");
        }
    }
    for (name, cap) in [
        ("adaptive", 0.5),
        ("adaptive:cap=0.1", 0.1),
        ("adaptive:cap=0.25", 0.25),
    ] {
        let mut bed = Bed::new(name);
        bed.run(200, 10, &[path(0, 600, 0.9)]);
        let overhead = bed.run(2_000, 10, &[path(0, 600, 0.9)]);
        assert!((overhead - cap).abs() < 0.001, "{name}: {overhead}");
    }
    let mut bed = Bed::new("fixed:overhead=0.25");
    assert!((bed.run(400, 3, &[]) - 0.25).abs() < 0.01);
}

#[test]
fn overhead_is_monotone_in_loss() {
    for name in by_loss() {
        for symbol_count in [1, 4, 10, 40] {
            let mut last = 0.0;
            for loss in [0.0, 0.002, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4] {
                let overhead = Bed::new(name).run(500, symbol_count, &[path(0, 400, loss)]);
                assert!(
                    overhead >= last,
                    "{name} {symbol_count} {loss}: {overhead} < {last}"
                );
                last = overhead;
            }
            assert!(last > 0.1, "{name} {symbol_count}: {last}");
        }
    }
}

#[test]
fn with_a_round_trip_of_20_ms_adaptive_leaves_all_to_retransmission() {
    for symbol_count in [1, 4, 10, 300] {
        let overhead = Bed::new("adaptive").run(200, symbol_count, &[path(0, 20, 0.05)]);
        assert_eq!(overhead, 0.0);
    }
}

#[test]
fn adaptive_protects_key_frames_better_and_disposable_ones_not_at_all() {
    let paths = [path(0, 600, 0.05)];
    let repairs = KINDS.map(|importance| Bed::new("adaptive").frame(20, importance, &paths));
    // Binomial: P[more than m of 20 + m] <= 1e-3 and 1e-2.
    assert_eq!(repairs, [6, 4, 0]);
}

#[test]
fn adaptive_leaves_room_for_one_retransmission() {
    // A round trip of 260 ms: one try fits into 500 ms, two do not.
    let repairs = [600, 260, 100].map(|rtt_millis| {
        let paths = [path(0, rtt_millis, 0.05)];
        Bed::new("adaptive").frame(20, Importance::Reference, &paths)
    });
    assert_eq!(repairs, [4, 2, 0]);
}

#[test]
fn policies_are_deterministic_for_any_input() {
    for name in names() {
        let [one, other] = [(); 2].map(|()| {
            let mut rng: Rng = Seed(9).rng();
            let mut bed = Bed::new(name);
            let mut counts = Vec::new();
            for _ in 0..2_000 {
                let count = rng.below(4) as u8;
                let mut paths: Vec<PathView> = (0..count)
                    .map(|id| path(id, rng.below(3_000), rng.next_f64()))
                    .collect();
                if rng.chance(0.1) {
                    for path in &mut paths {
                        path.risk.loss_burst_packets = 1e9 * rng.next_f64();
                        path.bandwidth = DataRate::ZERO;
                        path.rtt.smoothed = None;
                    }
                }
                let importance = match rng.below(3) {
                    0 => Importance::Key,
                    1 => Importance::Reference,
                    _ => Importance::Disposable,
                };
                let symbol_count = 1 + rng.below(u64::from(u16::MAX)) as u16;
                let symbol_count = if rng.chance(0.9) {
                    1 + symbol_count % 30
                } else {
                    symbol_count
                };
                counts.push(bed.frame(symbol_count.max(1), importance, &paths));
            }
            counts
        });
        assert_eq!(one, other, "{name}");
    }
}
