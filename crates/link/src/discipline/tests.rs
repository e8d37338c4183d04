//! Properties of every discipline, and rejected options.

use super::*;

const RATE: DataRate = DataRate::from_megabits_per_second(8);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Returns every discipline that manages a queue, with its defaults.
fn all() -> [Discipline; 5] {
    [
        Discipline::Red(RedOptions::default()),
        Discipline::CoDel(CoDelOptions::default()),
        Discipline::FqCoDel(FqCoDelOptions::default()),
        Discipline::Pie(PieOptions::default()),
        Discipline::DualPi2(DualPi2Options::default()),
    ]
}

fn queue(discipline: &Discipline, limit: QueueLimit) -> Queue {
    discipline.build(limit, RATE, Seed(1)).expect("it manages")
}

/// Returns a packet of flow `id`, 500 bytes; every second one belongs to an L4S transport.
fn packet(id: u64) -> Packet {
    Packet {
        id,
        flow: id as u32,
        ecn: if id.is_multiple_of(2) {
            Ecn::NotEct
        } else {
            Ecn::Ect1
        },
        ..Packet::of_size(500)
    }
}

/// Enqueues `count` packets at the first instant; returns the number of accepted ones.
fn fill(queue: &mut Queue, count: u64, in_service: Load, ledger: &mut Ledger) -> usize {
    let taken = (0..count).map(|id| queue.enqueue(at(0), packet(id), in_service, ledger));
    taken.filter(|taken| taken.is_ok()).count()
}

fn shown(queue: &Queue) -> Vec<u64> {
    let mut shown = Vec::new();
    queue.for_each(&mut |packet| shown.push(packet.id));
    shown.sort_unstable();
    shown
}

/// Returns the load of packets of 500 bytes.
fn load_of(packets: usize) -> Load {
    Load {
        bytes: 500 * packets as u64,
        packets,
    }
}

#[test]
fn packets_are_conserved_by_every_discipline() {
    for discipline in all() {
        let mut ledger = Ledger::default();
        let mut queue = queue(&discipline, QueueLimit::Unlimited);
        assert_eq!(fill(&mut queue, 6, Load::default(), &mut ledger), 6);
        assert_eq!(shown(&queue), [0, 1, 2, 3, 4, 5], "{discipline:?}");
        assert_eq!(queue.load(), load_of(6), "{discipline:?}");
        let mut left: Vec<u64> = (0..2).map(|_| queue.evict().unwrap().id).collect();
        assert_eq!(queue.load(), load_of(4), "{discipline:?}");
        while let Some(packet) = queue.dequeue(at(1), &mut ledger) {
            left.push(packet.id);
        }
        assert!(queue.load().is_empty() && shown(&queue).is_empty());
        assert!(queue.evict().is_none());
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 3, 4, 5], "{discipline:?}");
        assert!(ledger.dropped.is_empty());
    }
}

#[test]
fn no_queue_holds_more_than_its_limit_with_the_packet_in_service() {
    for discipline in all() {
        let mut ledger = Ledger::default();
        let mut queue = queue(&discipline, QueueLimit::Packets(5));
        let taken = fill(&mut queue, 20, Load::of_bytes(500), &mut ledger);
        // One is in service. FQ-CoDel accepts new ones and drops others for them.
        let dropped = ledger.dropped.len();
        assert_eq!((queue.load().packets, taken - dropped), (4, 4));
        let are_full = ledger
            .dropped
            .iter()
            .all(|d| d.cause == DropCause::QueueFull);
        assert!(are_full, "{discipline:?}");
        let refused = queue.enqueue(at(0), packet(9), Load::of_bytes(500), &mut ledger);
        if let Err(refused) = refused {
            assert_eq!(refused.cause, DropCause::QueueFull, "{discipline:?}");
        }
        assert_eq!(queue.load().packets, 4, "{discipline:?}");
    }
}

#[test]
fn drop_tail_alone_needs_no_manager_and_marks_by_threshold() {
    let mark_above = Some(QueueLimit::Packets(3));
    let drop_tail = Discipline::DropTail { mark_above };
    assert!(
        drop_tail
            .build(QueueLimit::Unlimited, RATE, Seed(1))
            .is_none()
    );
    assert_eq!(drop_tail.mark_above(), mark_above);
    assert!(all().iter().all(|other| other.mark_above().is_none()));
}

#[test]
fn defaults_and_limits_make_queues() {
    let edge = Duration::from_micros(100);
    let others = [
        Discipline::default(),
        Discipline::Red(RedOptions {
            max_probability: 1.0,
            weight: 1.0,
            ..RedOptions::default()
        }),
        Discipline::Red(RedOptions {
            min_threshold: QueueLimit::Time(Duration::from_millis(5)),
            max_threshold: QueueLimit::Bytes(3_000),
            ..RedOptions::default()
        }),
        Discipline::Pie(PieOptions {
            update_interval: edge,
            ..PieOptions::default()
        }),
        Discipline::DualPi2(DualPi2Options {
            target: edge,
            max_rtt: edge * 3,
            ..DualPi2Options::default()
        }),
    ];
    for discipline in all().into_iter().chain(others) {
        assert_eq!(discipline.mistake(), None, "{discipline:?}");
    }
}

fn assert_refused(mistakes: &[Discipline], by_saying: &str) {
    for discipline in mistakes {
        let said = discipline.mistake().unwrap_or("nothing");
        assert!(said.contains(by_saying), "{discipline:?}: {said}");
    }
}

#[test]
fn red_refuses_shares_beyond_0_and_1_and_thresholds_out_of_order() {
    let usual = RedOptions::default();
    let shares = [
        (0.0, 0.002),
        (1.1, 0.002),
        (0.1, 0.0),
        (0.1, 1.1),
        (-0.1, 0.002),
    ];
    assert_refused(
        &shares.map(|(max_probability, weight)| {
            Discipline::Red(RedOptions {
                max_probability,
                weight,
                ..usual
            })
        }),
        "max-probability and weight",
    );
    use QueueLimit::{Bytes, Packets, Unlimited};
    let pairs = [
        (Packets(15), Packets(5)),
        (Packets(5), Packets(5)),
        (Bytes(5), Bytes(5)),
        (Packets(5), Bytes(15)),
        (Bytes(5), Unlimited),
    ];
    assert_refused(
        &pairs.map(|(min_threshold, max_threshold)| {
            Discipline::Red(RedOptions {
                min_threshold,
                max_threshold,
                ..usual
            })
        }),
        "two of a kind",
    );
}

#[test]
fn the_others_refuse_times_of_nothing() {
    let nothing = Duration::ZERO;
    let codel = CoDelOptions::default();
    let no_target = CoDelOptions {
        target: nothing,
        ..codel
    };
    let no_interval = CoDelOptions {
        interval: nothing,
        ..codel
    };
    let codels = [no_target, no_interval];
    assert_refused(
        &codels.map(Discipline::CoDel),
        "CoDel's target and interval",
    );
    let fq = FqCoDelOptions::default();
    let of_codel = codels.map(|codel| Discipline::FqCoDel(FqCoDelOptions { codel, ..fq }));
    assert_refused(&of_codel, "CoDel's target and interval");
    let no_bucket = FqCoDelOptions {
        bucket_count: 0,
        ..fq
    };
    let no_quantum = FqCoDelOptions { quantum: 0, ..fq };
    assert_refused(
        &[no_bucket, no_quantum].map(Discipline::FqCoDel),
        "a quantum",
    );
    let often = Duration::from_micros(99);
    let pie = PieOptions::default();
    let no_target = PieOptions {
        target: nothing,
        ..pie
    };
    let too_often = PieOptions {
        update_interval: often,
        ..pie
    };
    assert_refused(
        &[no_target, too_often].map(Discipline::Pie),
        "100 us or more",
    );
    let dual = DualPi2Options::default();
    let duals = [
        DualPi2Options {
            coupling: 0.0,
            ..dual
        },
        DualPi2Options {
            coupling: f64::INFINITY,
            ..dual
        },
        DualPi2Options {
            coupling: f64::NAN,
            ..dual
        },
        DualPi2Options {
            target: often,
            ..dual
        },
        DualPi2Options {
            max_rtt: often * 3,
            ..dual
        },
    ];
    assert_refused(&duals.map(Discipline::DualPi2), "a coupling above zero");
}

/// Returns how many of `count` packets, arriving at these intervals while none leaves, are accepted
/// unmarked, marked, and dropped.
fn outcomes(discipline: &Discipline, ecn: Ecn, count: u64, gap: Duration) -> [usize; 3] {
    let mut ledger = Ledger::default();
    let mut queue = queue(discipline, QueueLimit::Unlimited);
    let mut dropped = 0;
    for id in 0..count {
        let packet = Packet { ecn, ..packet(id) };
        let now = Instant::ZERO + gap * id;
        let taken = queue.enqueue(now, packet, Load::default(), &mut ledger);
        dropped += usize::from(taken.is_err());
    }
    let marked = ledger.statistics.marked_packets as usize;
    [queue.load().packets - marked, marked, dropped]
}

/// Returns RED with an average that follows the queue at once, and a probability that grows to 1.
fn red(ecn: bool, is_gentle: bool) -> Discipline {
    Discipline::Red(RedOptions {
        weight: 0.5,
        max_probability: 1.0,
        is_gentle,
        ecn,
        ..RedOptions::default()
    })
}

#[test]
fn rfc3168_7_red_marks_below_a_probability_of_1_and_drops_at_it() {
    fn of_red(ecn: bool, transport: Ecn) -> [usize; 3] {
        outcomes(&red(ecn, false), transport, 200, Duration::ZERO)
    }

    let [_, marked, dropped] = of_red(true, Ecn::Ect0);
    assert!(marked > 0 && dropped > 100, "{marked} {dropped}");
    for (ecn, transport) in [(false, Ecn::Ect0), (true, Ecn::NotEct)] {
        let [_, marked, dropped] = of_red(ecn, transport);
        assert!(marked == 0 && dropped > 100, "{ecn} {dropped}");
    }
}

#[test]
fn rfc8033_5_1_pie_marks_up_to_10_percent_and_drops_above() {
    fn pie(ecn: bool) -> Discipline {
        Discipline::Pie(PieOptions {
            max_burst: Duration::ZERO,
            ecn,
            ..PieOptions::default()
        })
    }

    // No packet leaves, so that the delay grows and the probability with it: to 10 % first, then 1.
    let gap = Duration::from_micros(100);
    let [_, marked, dropped] = outcomes(&pie(true), Ecn::Ect0, 20_000, gap);
    assert!(marked > 0 && dropped > 5_000, "{marked} {dropped}");
    for (ecn, transport) in [(false, Ecn::Ect0), (true, Ecn::NotEct)] {
        let [_, marked, more_dropped] = outcomes(&pie(ecn), transport, 20_000, gap);
        assert!(
            marked == 0 && more_dropped > dropped,
            "{ecn} {more_dropped}"
        );
    }
}
