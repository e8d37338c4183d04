//! Checks of the simulator against results computed by hand.

use std::sync::Arc;

use anabranch_controllers::by_name;
use anabranch_core::{Config, Laboratory, MediaConfig, PaddingPolicy, PathOptions, SourceLimits};
use anabranch_link::{DropCause, LinkConfig, QueueLimit};
use anabranch_schedulers::default_scheduler;
use anabranch_sim::{
    Application, Direction, FlowConfig, FlowPath, FrameEvent, FrameOutcome, GeneratorConfig,
    GeneratorRate, LinkId, Observer, PacketEvent, Spacing, TraceHash, World, WorldError,
};
use anabranch_units::{DataRate, Duration, Instant, Seed};
use anabranch_video::source::SourceConfig;

const MEGABIT: DataRate = DataRate::from_megabits_per_second(1);

/// Counters of the observed events.
#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
    /// One-way delays of data packets with their sizes.
    delays: Vec<(u32, Duration)>,
    frames_captured: u64,
    frames_complete: u64,
}

impl Observer for Counters {
    fn on_sent(&mut self, _now: Instant, _packet: &PacketEvent) {
        self.sent += 1;
    }

    fn on_delivered(&mut self, _now: Instant, packet: &PacketEvent, delay: Duration) {
        self.delivered += 1;
        if packet.direction == Direction::Forward {
            self.delivered_bytes += u64::from(packet.size_bytes);
            self.delays.push((packet.size_bytes, delay));
        }
    }

    fn on_dropped(
        &mut self,
        _now: Instant,
        _packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
        self.dropped += 1;
    }

    fn on_frame_captured(&mut self, _frame: &FrameEvent) {
        self.frames_captured += 1;
    }

    fn on_frame_outcome(&mut self, _now: Instant, _frame: &FrameEvent, outcome: FrameOutcome) {
        self.frames_complete += u64::from(matches!(outcome, FrameOutcome::Complete { .. }));
    }
}

fn link(rate: Option<DataRate>, delay_ms: u64) -> LinkConfig {
    let delay = Duration::from_millis(delay_ms);
    LinkConfig {
        rate,
        delay,
        queue: QueueLimit::Time(Duration::from_millis(300)),
        ..LinkConfig::default()
    }
}

/// Returns a flow at a constant rate that ignores the network's feedback.
fn fixed_flow(rate: DataRate, padding: PaddingPolicy, paths: Vec<FlowPath>) -> FlowConfig {
    let media = MediaConfig {
        source: SourceLimits::Fixed,
        ..MediaConfig::default()
    };
    let config = Arc::new(Config {
        laboratory: Laboratory {
            fixed_rate: rate,
            ..Laboratory::default()
        },
        initial_rate: rate,
        padding,
        media,
        ..Config::new(by_name("fixed").unwrap(), default_scheduler())
    });
    let source = SourceConfig::Cbr {
        frames_per_second: 25,
        rate: rate.mul_f64(0.5),
    };
    FlowConfig {
        sender: config.clone(),
        receiver: config,
        paths,
        start: Instant::ZERO,
        stop: None,
        source: Application::Media(
            source
                .build(Instant::ZERO, Seed(1))
                .expect("a valid source"),
        ),
    }
}

fn path(route: anabranch_sim::RouteId) -> FlowPath {
    FlowPath {
        route,
        options: PathOptions::default(),
    }
}

#[test]
fn below_the_links_rate_every_delay_is_serialization_plus_propagation() {
    let mut world = World::new(Seed(1));
    let first = world
        .add_link(
            "first",
            &link(Some(DataRate::from_megabits_per_second(2)), 30),
        )
        .unwrap();
    let second = world
        .add_link(
            "second",
            &link(Some(DataRate::from_megabits_per_second(4)), 15),
        )
        .unwrap();
    let back = world.add_link("back", &link(None, 45)).unwrap();
    let route = world.add_route(vec![first, second], vec![back]).unwrap();
    world
        .add_flow(
            "flow",
            fixed_flow(MEGABIT, PaddingPolicy::Never, vec![path(route)]),
        )
        .unwrap();
    let mut counters = Counters::default();
    world.run_until(Instant::from_secs(20), &mut counters);
    assert!(counters.delays.len() > 900, "{}", counters.delays.len());
    for (size_bytes, delay) in &counters.delays {
        let serialization = [2, 4].map(|megabits| {
            DataRate::from_megabits_per_second(megabits).time_for(u64::from(*size_bytes))
        });
        let exact = serialization.into_iter().sum::<Duration>() + Duration::from_millis(45);
        assert_eq!(*delay, exact, "{size_bytes} bytes");
    }
    assert!(
        counters.frames_complete >= 495 && counters.frames_complete <= counters.frames_captured
    );
}

#[test]
fn a_greedy_flow_at_half_the_links_rate_fills_half_of_it() {
    let mut world = World::new(Seed(1));
    let up = world.add_link("up", &link(Some(MEGABIT), 10)).unwrap();
    let back = world.add_link("back", &link(None, 10)).unwrap();
    let route = world.add_route(vec![up], vec![back]).unwrap();
    let flow = fixed_flow(
        MEGABIT.mul_f64(0.5),
        PaddingPolicy::Always,
        vec![path(route)],
    );
    world.add_flow("flow", flow).unwrap();
    world.run_until(Instant::from_secs(10), &mut ());
    let before = world.link_statistics(up);
    world.run_until(Instant::from_secs(110), &mut ());
    let utilisation = world.link_statistics(up).since(&before).utilisation();
    assert!((utilisation - 0.5).abs() < 0.002, "{utilisation}");
}

#[test]
fn at_twice_the_links_rate_it_is_full_and_half_is_lost() {
    let mut world = World::new(Seed(1));
    let up = world.add_link("up", &link(Some(MEGABIT), 10)).unwrap();
    let back = world.add_link("back", &link(None, 10)).unwrap();
    let route = world.add_route(vec![up], vec![back]).unwrap();
    let flow = fixed_flow(
        MEGABIT.mul_f64(2.0),
        PaddingPolicy::Always,
        vec![path(route)],
    );
    world.add_flow("flow", flow).unwrap();
    let mut counters = Counters::default();
    world.run_until(Instant::from_secs(60), &mut counters);
    let statistics = world.link_statistics(up);
    assert!(
        statistics.utilisation() > 0.995,
        "{}",
        statistics.utilisation()
    );
    let passed = statistics.delivered_bytes as f64 / statistics.offered_bytes as f64;
    assert!((passed - 0.5).abs() < 0.005, "{passed}");
    // The last packets saw a full queue of 300 ms, up to one packet's room.
    let (_, delay) = counters.delays.last().unwrap();
    assert!((295.0..=310.5).contains(&delay.as_millis_f64()), "{delay}");
}

#[test]
fn sent_packets_are_delivered_dropped_or_in_flight() {
    let mut world = World::new(Seed(5));
    let lossy = LinkConfig {
        loss: anabranch_link::LossModel::Bernoulli { probability: 0.05 },
        outages: vec![(Instant::from_secs(3), Duration::from_secs(1))],
        ..link(Some(MEGABIT), 40)
    };
    let up = world.add_link("up", &lossy).unwrap();
    let other = world.add_link("other", &link(Some(MEGABIT), 20)).unwrap();
    let back = world.add_link("back", &lossy).unwrap();
    let routes = [up, other].map(|link| world.add_route(vec![link], vec![back]).unwrap());
    let paths = routes.map(path).to_vec();
    world
        .add_flow("flow", fixed_flow(MEGABIT, PaddingPolicy::Always, paths))
        .unwrap();
    let mut counters = Counters::default();
    for second in 1..=10 {
        world.run_until(Instant::from_secs(second), &mut counters);
        let counts = world.packet_counts();
        assert_eq!(
            (counts.sent, counts.delivered, counts.dropped),
            (counters.sent, counters.delivered, counters.dropped)
        );
        let links = [up, other, back].map(|link| world.link_statistics(link));
        let held: u64 = links.iter().map(|link| link.held_packets).sum();
        // A link reports an internal loss when the next packet leaves it.
        let lost: u64 = links.iter().map(|link| link.dropped.total()).sum();
        assert_eq!(
            counts.sent,
            counts.delivered + lost + held,
            "after {second} s"
        );
        assert!(
            (0..10).contains(&(lost - counts.dropped)),
            "after {second} s"
        );
    }
    assert!(counters.dropped > 100, "{}", counters.dropped);
}

#[test]
fn a_flow_runs_from_its_start_to_its_stop() {
    fn sent_by(seconds: u64, world: &mut World) -> u64 {
        world.run_until(Instant::from_secs(seconds), &mut ());
        world.packet_counts().sent
    }

    let mut world = World::new(Seed(1));
    let up = world.add_link("up", &link(Some(MEGABIT), 10)).unwrap();
    let back = world.add_link("back", &link(None, 10)).unwrap();
    let route = world.add_route(vec![up], vec![back]).unwrap();
    let mut flow = fixed_flow(
        MEGABIT.mul_f64(0.5),
        PaddingPolicy::Always,
        vec![path(route)],
    );
    (flow.start, flow.stop) = (Instant::from_secs(2), Some(Instant::from_secs(4)));
    let rate = MEGABIT.mul_f64(0.25);
    let source = SourceConfig::Cbr {
        frames_per_second: 25,
        rate,
    };
    flow.source = Application::Media(source.build(flow.start, Seed(1)).unwrap());
    world.add_flow("flow", flow).unwrap();
    assert_eq!(sent_by(1, &mut world), 0);
    let (middle, after, end) = (
        sent_by(4, &mut world),
        sent_by(5, &mut world),
        sent_by(20, &mut world),
    );
    assert!(middle > 50, "{middle}");
    assert!(
        end <= after + 2,
        "{after} packets sent at 5 s, {end} at 20 s"
    );
}

#[test]
fn one_seed_is_one_run_and_observing_it_changes_nothing() {
    fn run(seed: u64, step_ms: u64) -> TraceHash {
        let mut world = World::new(Seed(seed));
        let lossy = LinkConfig {
            loss: anabranch_link::LossModel::Bernoulli { probability: 0.02 },
            ..link(Some(MEGABIT), 40)
        };
        let up = world.add_link("up", &lossy).unwrap();
        let back = world.add_link("back", &link(None, 40)).unwrap();
        let route = world.add_route(vec![up], vec![back]).unwrap();
        let flow = fixed_flow(MEGABIT, PaddingPolicy::Always, vec![path(route)]);
        let flow = world.add_flow("flow", flow).unwrap();
        for step in 1..=10_000 / step_ms {
            world.run_until(Instant::from_millis(step * step_ms), &mut ());
            let _ = (world.link_statistics(up), world.sender_paths(flow).len());
        }
        world.trace_hash()
    }
    assert_eq!(run(1, 10_000), run(1, 100));
    assert_ne!(run(1, 10_000), run(2, 10_000));
}

/// Runs two flows over a bottleneck, one of them over two hops, for 10 s. Returns the observer's
/// counts and the hash. `prepare` may add to the world before.
fn two_flows(
    back_delay_ms: u64,
    step: Duration,
    prepare: impl FnOnce(&mut World, anabranch_sim::RouteId),
) -> (Vec<(u32, Duration)>, anabranch_sim::TraceHash) {
    let mut world = World::new(Seed(3));
    let slow = LinkConfig {
        queue: QueueLimit::Time(Duration::from_millis(60)),
        ..link(Some(MEGABIT), 20)
    };
    let access = world.add_link("access", &link(None, 7)).unwrap();
    let up = world.add_link("up", &slow).unwrap();
    let back = world.add_link("back", &link(None, back_delay_ms)).unwrap();
    let far = world.add_route(vec![access, up], vec![back]).unwrap();
    let near = world.add_route(vec![up], vec![back]).unwrap();
    for (name, route) in [("far", far), ("near", near)] {
        let mut flow = fixed_flow(
            MEGABIT.mul_f64(0.6),
            PaddingPolicy::Always,
            vec![path(route)],
        );
        for config in [&mut flow.sender, &mut flow.receiver] {
            Arc::make_mut(config).controller = by_name("new-reno").unwrap();
        }
        world.add_flow(name, flow).unwrap();
    }
    prepare(&mut world, near);
    let mut counters = Counters::default();
    let mut now = Instant::ZERO;
    while now < Instant::from_secs(10) {
        now += step;
        world.run_until(now, &mut counters);
    }
    counters.delays.sort();
    (counters.delays, world.trace_hash())
}

#[test]
fn how_far_the_ends_are_moved_at_a_time_changes_nothing() {
    // Short objects that start after the end force senders and receivers to advance together.
    let second = Duration::from_secs(10);
    // Without delay on the return path, they advance instant by instant.
    for back_delay_ms in [30, 0] {
        let apart = two_flows(back_delay_ms, second, |_, _| ());
        assert!(apart.0.len() > 500, "{}", apart.0.len());
        assert_eq!(
            two_flows(back_delay_ms, second, |world, route| {
                let mut flow = fixed_flow(MEGABIT, PaddingPolicy::Never, vec![path(route)]);
                flow.start = Instant::from_secs(99);
                flow.source = Application::Short(anabranch_sim::ShortObjects::default());
                world.add_flow("objects", flow).unwrap();
            }),
            apart
        );
        let step = Duration::from_millis(1);
        assert_eq!(two_flows(back_delay_ms, step, |_, _| ()), apart);
    }
}

#[test]
fn invalid_configurations_are_refused() {
    let mut world = World::new(Seed(1));
    let up = world.add_link("up", &link(None, 10)).unwrap();
    let refused = world.add_route(vec![up], vec![]);
    assert_eq!(refused, Err(WorldError::RouteLength { link_count: 0 }));
    let flow = fixed_flow(MEGABIT, PaddingPolicy::Never, vec![]);
    assert_eq!(
        world.add_flow("flow", flow),
        Err(WorldError::PathCount { path_count: 0 })
    );
    let route = world.add_route(vec![up], vec![up]).unwrap();
    let mut flow = fixed_flow(MEGABIT, PaddingPolicy::Never, vec![path(route)]);
    Arc::make_mut(&mut flow.sender).fragment_bytes = 10;
    assert!(matches!(
        world.add_flow("flow", flow),
        Err(WorldError::Config(_))
    ));
}

#[test]
fn a_generator_takes_its_share_of_a_link_and_nobody_answers() {
    let mut world = World::new(Seed(1));
    let link = LinkConfig {
        queue: QueueLimit::Packets(10),
        ..link(Some(MEGABIT), 50)
    };
    let there = world.add_link("there", &link).unwrap();
    let back = world.add_link("back", &LinkConfig::default()).unwrap();
    let route = world.add_route(vec![there], vec![back]).unwrap();
    let config = GeneratorConfig {
        route,
        size_bytes: 1_500,
        rate: GeneratorRate::Steps {
            rate: MEGABIT.mul_f64(0.5),
            changes: vec![(Instant::from_secs(12), MEGABIT + MEGABIT)],
        },
        spacing: Spacing::Even,
        start: Instant::ZERO,
        stop: Some(Instant::from_secs(18)),
    };
    let flow = world.add_generator("flow", config).unwrap();
    assert!(!world.is_session(flow));
    let mut counters = Counters::default();
    world.run_until(Instant::from_secs(12), &mut counters);
    // 12 kbit every 24 ms, and none of them waits: 12 ms on the link and 50 ms after it.
    assert_eq!((counters.sent, counters.dropped), (501, 0));
    assert!(
        counters
            .delays
            .iter()
            .all(|delay| *delay == (1_500, Duration::from_millis(62)))
    );
    world.run_until(Instant::from_secs(30), &mut counters);
    // Twice the rate for 6 s: half of 1000 packets are lost, except those in the queue.
    assert_eq!(counters.sent, 1_500);
    assert!(
        (485..=495).contains(&counters.dropped),
        "{}",
        counters.dropped
    );
    assert_eq!(counters.sent, counters.delivered + counters.dropped);
    assert_eq!(world.link_statistics(back).offered_packets, 0);
}
