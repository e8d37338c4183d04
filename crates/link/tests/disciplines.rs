//! Queue disciplines under load against their papers: flows that react to drops and marks meet at
//! one bottleneck.

use std::collections::BTreeMap;

use anabranch_link::{
    CoDelOptions, Discipline, DropCause, DualPi2Options, DualQueueScheduler, Ecn, FqCoDelOptions,
    Link, LinkConfig, LinkStatistics, Packet, PieOptions, QueueLimit, RedOptions,
};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::support::quantities::{at_ms, megabits, ms};

const PACKET_BYTES: u32 = 1_500;

#[derive(Clone, Copy, PartialEq)]
enum Sender {
    /// Reno: a packet more each round trip, half the window at a drop or mark.
    Reno,
    /// Scalable: a packet more each round trip, half a packet less at each mark (RFC 9331 §4.3).
    Scalable,
    /// A packet of this size each interval, independent of any feedback.
    Constant(u32, Duration),
}

#[derive(Clone, Copy)]
struct Flow {
    sender: Sender,
    ecn: Ecn,
    rtt: Duration,
}

impl Flow {
    fn reno(rtt_millis: u64) -> Flow {
        Flow {
            sender: Sender::Reno,
            ecn: Ecn::NotEct,
            rtt: ms(rtt_millis),
        }
    }

    fn constant(bytes: u32, interval: Duration) -> Flow {
        Flow {
            sender: Sender::Constant(bytes, interval),
            ..Flow::reno(0)
        }
    }

    fn with_ecn(self, ecn: Ecn) -> Flow {
        Flow { ecn, ..self }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Acked { is_marked: bool, sent_at: Instant },
    Lost { sent_at: Instant },
    Send,
}

#[derive(Clone)]
struct State {
    window: f64,
    in_flight: f64,
    is_slow_start: bool,
    last_cut_at: Instant,
    delivered_bytes: u64,
    marked_count: u64,
    /// Departures, with the time from arrival at the queue to the last bit.
    stays: Vec<(Instant, Duration)>,
    dropped_at: Vec<Instant>,
}

struct Bed {
    link: Link,
    now: Instant,
    flows: Vec<Flow>,
    states: Vec<State>,
    events: BTreeMap<(Instant, u64), (usize, Event)>,
    event_count: u64,
    sent_at: Vec<Instant>,
    from: LinkStatistics,
}

impl Bed {
    fn new(discipline: Discipline, rate: DataRate, flows: &[Flow]) -> Bed {
        Bed::of(&config(discipline, rate), flows)
    }

    fn of(config: &LinkConfig, flows: &[Flow]) -> Bed {
        let state = State {
            window: 10.0,
            in_flight: 0.0,
            is_slow_start: true,
            last_cut_at: Instant::ZERO,
            delivered_bytes: 0,
            marked_count: 0,
            stays: Vec::new(),
            dropped_at: Vec::new(),
        };
        let mut bed = Bed {
            // Under this seed no two of the first flows share a queue of FQ-CoDel.
            link: config.build(Seed(2)).expect("valid"),
            now: Instant::ZERO,
            flows: flows.to_vec(),
            states: vec![state; flows.len()],
            events: BTreeMap::new(),
            event_count: 0,
            sent_at: Vec::new(),
            from: LinkStatistics::default(),
        };
        for flow in 0..flows.len() {
            // At different nanoseconds.
            bed.schedule(Instant::from_micros(170 * flow as u64), flow, Event::Send);
        }
        bed
    }

    fn schedule(&mut self, at: Instant, flow: usize, event: Event) {
        self.events.insert((at, self.event_count), (flow, event));
        self.event_count += 1;
    }

    fn run(&mut self, until: Instant) {
        loop {
            let event_at = self.events.keys().next().map(|(at, _)| *at);
            let next = event_at.into_iter().chain(self.link.next_at()).min();
            let Some(now) = next.filter(|at| *at <= until) else {
                return;
            };
            self.now = now;
            while let Some(packet) = self.link.pop(now) {
                self.on_delivered(packet);
            }
            self.take_dropped();
            if event_at == Some(now)
                && let Some((_, (flow, event))) = self.events.pop_first()
            {
                self.on_event(flow, event);
            }
        }
    }

    /// Starts the measurement.
    fn start_measuring(&mut self) {
        self.from = self.link.statistics(self.now);
        for state in &mut self.states {
            (state.delivered_bytes, state.marked_count) = (0, 0);
            state.stays.clear();
            state.dropped_at.clear();
        }
    }

    fn measured(&mut self) -> LinkStatistics {
        self.link.statistics(self.now).since(&self.from)
    }

    fn take_dropped(&mut self) {
        while let Some(dropped) = self.link.take_dropped() {
            self.on_dropped(dropped.packet, dropped.at);
        }
    }

    fn on_delivered(&mut self, packet: Packet) {
        let (flow, sent_at) = (packet.flow as usize, self.sent_at[packet.id as usize]);
        let state = &mut self.states[flow];
        state.delivered_bytes += u64::from(packet.size_bytes);
        state.stays.push((self.now, self.now - sent_at));
        let is_marked = packet.ecn == Ecn::Ce;
        state.marked_count += u64::from(is_marked);
        let at = self.now + self.flows[flow].rtt;
        self.schedule(at, flow, Event::Acked { is_marked, sent_at });
    }

    fn on_dropped(&mut self, packet: Packet, at: Instant) {
        let (flow, sent_at) = (packet.flow as usize, self.sent_at[packet.id as usize]);
        self.states[flow].dropped_at.push(at);
        // The packets behind it reveal the loss.
        let at = self.now + self.flows[flow].rtt + ms(1);
        self.schedule(at, flow, Event::Lost { sent_at });
    }

    fn on_event(&mut self, flow: usize, event: Event) {
        let Flow { sender, .. } = self.flows[flow];
        let state = &mut self.states[flow];
        match event {
            Event::Send => {}
            Event::Acked { is_marked, sent_at } => {
                state.in_flight -= 1.0;
                match (sender, is_marked) {
                    (Sender::Scalable, true) => {
                        state.window = (state.window - 0.5).max(2.0);
                        state.is_slow_start = false;
                    }
                    (_, true) => cut(state, sent_at, self.now),
                    (_, false) if state.is_slow_start => state.window += 1.0,
                    (_, false) => state.window += 1.0 / state.window,
                }
            }
            Event::Lost { sent_at } => {
                state.in_flight -= 1.0;
                cut(state, sent_at, self.now);
            }
        }
        match sender {
            Sender::Constant(bytes, interval) => {
                if matches!(event, Event::Send) {
                    self.send(flow, bytes);
                    self.schedule(self.now + interval, flow, Event::Send);
                }
            }
            Sender::Reno | Sender::Scalable => {
                while self.states[flow].in_flight < self.states[flow].window.floor() {
                    self.send(flow, PACKET_BYTES);
                }
            }
        }
    }

    fn send(&mut self, flow: usize, size_bytes: u32) {
        let packet = Packet {
            flow: flow as u32,
            ecn: self.flows[flow].ecn,
            id: self.sent_at.len() as u64,
            ..Packet::of_size(size_bytes)
        };
        self.sent_at.push(self.now);
        self.states[flow].in_flight += 1.0;
        if let Err(dropped) = self.link.push(self.now, packet) {
            self.on_dropped(dropped.packet, dropped.at);
        }
        self.take_dropped();
    }

    fn share(&self, flow: usize) -> f64 {
        fn delivered(state: &State) -> f64 {
            state.delivered_bytes as f64
        }
        delivered(&self.states[flow]) / self.states.iter().map(delivered).sum::<f64>()
    }

    /// Returns the average time of packets in the queue, service included, in milliseconds.
    fn mean_stay(&self, flow: usize) -> f64 {
        let stays = &self.states[flow].stays;
        stays
            .iter()
            .map(|(_, stay)| stay.as_millis_f64())
            .sum::<f64>()
            / stays.len() as f64
    }

    fn max_stay(&self, flow: usize) -> f64 {
        let stays = self.states[flow].stays.iter().map(|(_, stay)| *stay);
        stays.max().map_or(0.0, Duration::as_millis_f64)
    }
}

/// Halves the window, once for all packets of one round trip.
fn cut(state: &mut State, sent_at: Instant, now: Instant) {
    if sent_at >= state.last_cut_at {
        state.window = (state.window / 2.0).max(2.0);
        state.is_slow_start = false;
        state.last_cut_at = now;
    }
}

fn config(discipline: Discipline, rate: DataRate) -> LinkConfig {
    LinkConfig {
        rate: Some(rate),
        queue: QueueLimit::Time(ms(500)),
        discipline,
        ..LinkConfig::default()
    }
}

/// Runs for `seconds` and measures all but the first ten.
fn measure(discipline: Discipline, rate: DataRate, flows: &[Flow], seconds: u64) -> Bed {
    let mut bed = Bed::new(discipline, rate, flows);
    bed.run(at_ms(10_000));
    bed.start_measuring();
    bed.run(Instant::from_secs(10 + seconds));
    bed
}

fn with_ecn(ecn: bool) -> [Discipline; 4] {
    let codel = CoDelOptions {
        ecn,
        ..CoDelOptions::default()
    };
    [
        Discipline::Red(RedOptions {
            ecn,
            ..RedOptions::default()
        }),
        Discipline::CoDel(codel),
        Discipline::FqCoDel(FqCoDelOptions {
            codel,
            ..FqCoDelOptions::default()
        }),
        Discipline::Pie(PieOptions {
            ecn,
            ..PieOptions::default()
        }),
    ]
}

fn codel() -> Discipline {
    Discipline::CoDel(CoDelOptions::default())
}

fn pie() -> Discipline {
    Discipline::Pie(PieOptions::default())
}

fn dual_pi2(scheduler: DualQueueScheduler) -> Discipline {
    Discipline::DualPi2(DualPi2Options {
        scheduler,
        ..DualPi2Options::default()
    })
}

fn mean_wait(bed: &mut Bed) -> f64 {
    bed.measured().queue.mean_wait().as_millis_f64()
}

#[test]
fn drop_tail_fills_its_queue() {
    let mut bed = measure(
        Discipline::default(),
        megabits(20),
        &[Flow::reno(50); 4],
        50,
    );
    let wait = mean_wait(&mut bed);
    assert!((300.0..500.0).contains(&wait), "{wait}");
    let statistics = bed.measured();
    assert_eq!(statistics.dropped.of(DropCause::EarlyDrop), 0);
    assert!(statistics.dropped.of(DropCause::QueueFull) > 0);
}

#[test]
fn codel_drops_at_intervals_that_shrink_with_the_inverse_square_root() {
    // Twice the rate, 0.6 ms a packet: the 17th that leaves, at 10.2 ms, is the first to have
    // waited 5 ms; so dropping starts with the packet that leaves next after 110.2 ms.
    let flow = Flow::constant(PACKET_BYTES, Duration::from_micros(300));
    let config = LinkConfig {
        queue: QueueLimit::Unlimited,
        ..config(codel(), megabits(20))
    };
    let mut bed = Bed::of(&config, &[flow]);
    bed.run(at_ms(3_000));
    let dropped_at = &bed.states[0].dropped_at;
    assert_eq!(dropped_at[0], Instant::from_micros(110_400));
    assert!(dropped_at.len() > 200, "{}", dropped_at.len());
    let mut due_at = dropped_at[0];
    for (index, at) in dropped_at.iter().enumerate().skip(1) {
        due_at += ms(100).mul_f64(1.0 / (index as f64).sqrt());
        let late = *at - due_at;
        assert!(late < Duration::from_micros(600), "drop {index}: {late}");
    }
}

#[test]
fn codel_holds_the_wait_near_its_target() {
    let mut bed = measure(codel(), megabits(20), &[Flow::reno(50); 4], 50);
    let wait = mean_wait(&mut bed);
    assert!((4.0..8.0).contains(&wait), "{wait}");
    let utilisation = bed.measured().utilisation();
    assert!(utilisation > 0.98, "{utilisation}");
}

#[test]
fn fq_codel_isolates_a_sparse_flow() {
    let voice = Flow::constant(160, ms(20));
    let discipline = Discipline::FqCoDel(FqCoDelOptions::default());
    // Next to flows with a backlog it is new each time. At worst it waits for the packet in
    // service: 0.6 ms, and its own 0.064 ms.
    let greedy = Flow::constant(PACKET_BYTES, Duration::from_micros(800));
    let bed = measure(
        discipline.clone(),
        megabits(20),
        &[greedy, greedy, voice],
        50,
    );
    assert!(bed.max_stay(2) <= 0.664_001, "{}", bed.max_stay(2));
    assert!(bed.mean_stay(0) > 100.0, "{}", bed.mean_stay(0));
    // Others may be new too, and each sends up to two packets for its quantum of 1514 bytes.
    let flows = [Flow::reno(20), Flow::reno(80), voice];
    let bed = measure(discipline, megabits(20), &flows, 50);
    assert!(bed.max_stay(2) <= 5.0 * 0.6 + 0.064, "{}", bed.max_stay(2));
    assert!(bed.mean_stay(2) < 0.5, "{}", bed.mean_stay(2));
    assert_eq!(bed.states[2].stays.len(), 2_500);
    assert!(bed.states[2].dropped_at.is_empty());
}

#[test]
fn fq_codel_shares_equally_by_bytes() {
    let discipline = Discipline::FqCoDel(FqCoDelOptions::default());
    // Fifteen and twenty Mbit/s without congestion control, in packets of different sizes.
    let flows = [
        Flow::constant(1_500, Duration::from_micros(800)),
        Flow::constant(500, Duration::from_micros(200)),
    ];
    let bed = measure(discipline.clone(), megabits(20), &flows, 20);
    assert!((bed.share(0) - 0.5).abs() < 0.01, "{}", bed.share(0));
    let bed = measure(discipline, megabits(20), &[Flow::reno(30); 2], 50);
    assert!((bed.share(0) - 0.5).abs() < 0.01, "{}", bed.share(0));
}

#[test]
fn pie_steers_the_wait_to_15_ms() {
    for count in [4, 20] {
        let mut bed = measure(pie(), megabits(20), &vec![Flow::reno(50); count], 50);
        let wait = mean_wait(&mut bed);
        assert!((wait - 15.0).abs() < 2.0, "{count} flows: {wait}");
        let utilisation = bed.measured().utilisation();
        assert!(utilisation > 0.99, "{count} flows: {utilisation}");
    }
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let discipline = Discipline::Red(RedOptions::default());
    let mut bed = measure(discipline, megabits(20), &[Flow::reno(50); 20], 50);
    let statistics = bed.measured();
    // The thresholds do not count the packet in service.
    let waiting = statistics.mean_queued_bytes() / f64::from(PACKET_BYTES) - 1.0;
    assert!((5.0..15.0).contains(&waiting), "{waiting}");
    assert_eq!(statistics.dropped.of(DropCause::QueueFull), 0);
}

#[test]
fn dual_pi2_gives_l4s_a_short_queue_and_neither_more_than_its_share() {
    for scheduler in [
        DualQueueScheduler::WeightedRoundRobin,
        DualQueueScheduler::TimeShiftedFifo,
    ] {
        let scalable = Flow {
            sender: Sender::Scalable,
            ..Flow::reno(20).with_ecn(Ecn::Ect1)
        };
        let flows = [Flow::reno(20), scalable];
        let bed = measure(dual_pi2(scheduler), megabits(20), &flows, 50);
        // 0.6 ms of these are service.
        let (classic, l4s) = (bed.mean_stay(0), bed.mean_stay(1));
        assert!(l4s < 1.6, "{l4s}");
        assert!((13.0..18.0).contains(&classic), "{classic}");
        assert!((0.35..0.65).contains(&bed.share(1)), "{}", bed.share(1));
        assert!(bed.states[1].dropped_at.is_empty());
        assert_eq!(bed.states[0].marked_count, 0);
    }
}

#[test]
fn dual_pi2_bounds_unresponsive_traffic() {
    // 30 Mbit/s of ECT(1) that ignores marks: dropped, and waiting no longer than the target.
    let flow = Flow::constant(PACKET_BYTES, Duration::from_micros(400)).with_ecn(Ecn::Ect1);
    let discipline = dual_pi2(DualQueueScheduler::WeightedRoundRobin);
    let mut bed = measure(discipline, megabits(20), &[flow], 20);
    let wait = mean_wait(&mut bed);
    assert!((wait - 15.0).abs() < 1.0, "{wait}");
    let ratio = bed.measured().loss_ratio();
    assert!((ratio - 1.0 / 3.0).abs() < 0.005, "{ratio}");
}

#[test]
fn ecn_capable_packets_are_marked_where_others_are_dropped() {
    let dual = dual_pi2(DualQueueScheduler::WeightedRoundRobin);
    let marking = with_ecn(true).into_iter().chain([dual.clone()]);
    for discipline in marking {
        let flows = [Flow::reno(50).with_ecn(Ecn::Ect0); 4];
        let mut bed = measure(discipline.clone(), megabits(20), &flows, 50);
        let statistics = bed.measured();
        assert_eq!(statistics.dropped.total(), 0, "{discipline:?}");
        let marked_count = statistics.queue.marked_packets;
        assert!(marked_count > 50, "{discipline:?}: {marked_count}");
        // Packets in flight were marked before or are counted after.
        let seen_count: u64 = bed.states.iter().map(|state| state.marked_count).sum();
        assert!(seen_count.abs_diff(marked_count) <= 60, "{seen_count}");
    }
    let is_capable = [
        (Ecn::Ect0, with_ecn(false).to_vec()),
        (Ecn::NotEct, [&with_ecn(true)[..], &[dual]].concat()),
    ];
    for (ecn, disciplines) in is_capable {
        for discipline in disciplines {
            let flows = [Flow::reno(50).with_ecn(ecn); 4];
            let statistics = measure(discipline.clone(), megabits(20), &flows, 50).measured();
            assert_eq!(statistics.queue.marked_packets, 0, "{discipline:?}");
            let dropped = statistics.dropped;
            assert!(dropped.of(DropCause::EarlyDrop) > 50, "{discipline:?}");
        }
    }
}

#[test]
fn drop_tail_marks_above_its_threshold() {
    let config = LinkConfig {
        rate: Some(megabits(8)),
        queue: QueueLimit::Bytes(5_000),
        discipline: Discipline::DropTail {
            mark_above: Some(QueueLimit::Bytes(3_000)),
        },
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    let ecns = [Ecn::Ect0, Ecn::Ect1, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct];
    for ecn in ecns {
        let packet = Packet {
            ecn,
            ..Packet::of_size(1_000)
        };
        assert!(link.push(Instant::ZERO, packet).is_ok());
    }
    let mut left = Vec::new();
    while let Some(at) = link.next_at() {
        left.extend(link.pop(at).map(|packet| packet.ecn));
    }
    let expected = [Ecn::Ect0, Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::NotEct];
    assert_eq!(left, expected);
    let statistics = link.statistics(at_ms(1_000));
    assert_eq!(statistics.queue.marked_packets, 1);
}

#[test]
fn disciplines_follow_a_rate_that_changes() {
    let dual = dual_pi2(DualQueueScheduler::WeightedRoundRobin);
    for (discipline, expected) in [
        (codel(), 3.0..12.0),
        (pie(), 12.0..19.0),
        (dual, 12.0..19.0),
    ] {
        let config = LinkConfig {
            rate_schedule: vec![(at_ms(5_000), megabits(5)), (at_ms(35_000), megabits(40))],
            ..config(discipline.clone(), megabits(20))
        };
        let mut bed = Bed::of(&config, &[Flow::reno(50); 4]);
        for (until, rate) in [(35, 5.0), (65, 40.0)] {
            bed.run(Instant::from_secs(until - 20));
            bed.start_measuring();
            bed.run(Instant::from_secs(until));
            let wait = mean_wait(&mut bed);
            assert!(expected.contains(&wait), "{discipline:?}, {rate}: {wait}");
            let delivered = bed.measured().delivered_rate().megabits_per_second();
            assert!(delivered > 0.93 * rate, "{discipline:?}: {delivered}");
        }
    }
}

#[test]
fn options_that_make_no_sense_build_no_link() {
    let zero = Duration::ZERO;
    let disciplines = [
        Discipline::Red(RedOptions {
            weight: 1.5,
            ..RedOptions::default()
        }),
        Discipline::Red(RedOptions {
            max_probability: f64::NAN,
            ..RedOptions::default()
        }),
        Discipline::Red(RedOptions {
            max_threshold: QueueLimit::Unlimited,
            ..RedOptions::default()
        }),
        Discipline::CoDel(CoDelOptions {
            interval: zero,
            ..CoDelOptions::default()
        }),
        Discipline::FqCoDel(FqCoDelOptions {
            bucket_count: 0,
            ..FqCoDelOptions::default()
        }),
        Discipline::Pie(PieOptions {
            update_interval: zero,
            ..PieOptions::default()
        }),
        Discipline::DualPi2(DualPi2Options {
            coupling: f64::NAN,
            ..DualPi2Options::default()
        }),
    ];
    for discipline in disciplines {
        let built = config(discipline.clone(), megabits(1)).build(Seed(1));
        assert!(built.is_err(), "{discipline:?}");
    }
}
