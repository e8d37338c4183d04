//! Links compared with theory and arithmetic.

use anabranch_link::{
    Delay, DropCause, DropTail, Ecn, Element, Link, LinkConfig, LinkConfigError, Loss, LossModel,
    Outage, Packet, QueueLimit, Schedule,
};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::support::{
    at_ms, drain, drain_dropped, exponential, lively_config, lively_configs, megabits, ms, packet,
};

/// Returns a queue without anything behind it.
fn by_schedule(rate: Schedule<DataRate>, limit: QueueLimit) -> DropTail<Delay> {
    let nothing = Delay::new(Schedule::constant(Duration::ZERO));
    DropTail::new(rate, limit, nothing)
}

fn constant(rate: DataRate, limit: QueueLimit) -> DropTail<Delay> {
    by_schedule(Schedule::constant(rate), limit)
}

/// Pushes random arrivals for 4 s, and pops with `lateness`. Returns every packet's outcome by id.
fn outcomes(config: &LinkConfig, seed: u64, lateness: Duration) -> (Vec<String>, Link) {
    let mut link = config.build(Seed(seed)).expect("a valid configuration");
    let mut rng = Seed(seed).derive("arrivals").rng();
    let mut outcomes: Vec<String> = Vec::new();
    let mut now = Instant::ZERO;
    while now < at_ms(4_000) {
        let arrival_at = now + exponential(&mut rng, ms(4));
        while let Some(due_at) = link.next_at().filter(|at| *at + lateness < arrival_at) {
            now = now.max(due_at + lateness);
            while let Some(packet) = link.pop(now) {
                outcomes[packet.id as usize] += &format!("delivered {:?}", packet.ecn);
            }
        }
        now = arrival_at;
        let packet = Packet {
            flow: rng.below(4) as u32,
            ecn: Ecn::from_bits(rng.below(4) as u8),
            ..packet(outcomes.len() as u64, 40 + rng.below(1_460) as u32)
        };
        outcomes.push(String::new());
        if let Err(dropped) = link.push(now, packet) {
            outcomes[dropped.packet.id as usize] += &format!("{:?}", (dropped.cause, dropped.at));
        }
        for dropped in drain_dropped(&mut link) {
            outcomes[dropped.packet.id as usize] += &format!("{:?}", (dropped.cause, dropped.at));
        }
        let statistics = link.statistics(now);
        assert_eq!(
            statistics.offered_packets,
            statistics.delivered_packets + statistics.dropped.total() + statistics.held_packets
        );
    }
    (outcomes, link)
}

/// Pops all remaining packets and records their outcomes.
fn finish(outcomes: &mut [String], link: &mut Link) {
    while let Some(at) = link.next_at() {
        while let Some(packet) = link.pop(at) {
            outcomes[packet.id as usize] += &format!("delivered {:?}", packet.ecn);
        }
        for dropped in drain_dropped(link) {
            outcomes[dropped.packet.id as usize] += &format!("{:?}", (dropped.cause, dropped.at));
        }
    }
}

#[test]
fn no_packet_is_lost_from_the_books() {
    let mut tried = [0; DropCause::ALL.len()];
    for (config, seed) in lively_configs().iter().zip(0..) {
        let (mut outcomes, mut link) = outcomes(config, seed, Duration::ZERO);
        finish(&mut outcomes, &mut link);
        let statistics = link.statistics(at_ms(60_000));
        assert_eq!((statistics.held_packets, link.next_at()), (0, None));
        assert_eq!(statistics.queued_bytes, 0);
        let delivered = outcomes
            .iter()
            .filter(|outcome| outcome.starts_with("delivered ") && !outcome.contains('('))
            .count() as u64;
        assert_eq!(statistics.delivered_packets, delivered);
        for (cause, tried) in DropCause::ALL.into_iter().zip(&mut tried) {
            let outcome = format!("({cause:?}, ");
            let dropped = outcomes
                .iter()
                .filter(|f| f.starts_with(&outcome) && f.ends_with(')'))
                .count();
            assert_eq!(statistics.dropped.of(cause), dropped as u64, "{cause:?}");
            *tried += dropped;
        }
        assert_eq!(
            delivered + statistics.dropped.total(),
            outcomes.len() as u64
        );
    }
    assert!(tried.iter().all(|count| *count > 100), "{tried:?}");
}

#[test]
fn a_seed_repeats_every_fate() {
    let config = lively_config();
    let [first, again, other] = [7, 7, 8].map(|seed| outcomes(&config, seed, Duration::ZERO).0);
    assert_eq!(first, again);
    assert_ne!(again, other);
}

#[test]
fn a_late_driver_changes_no_fate() {
    for config in lively_configs() {
        let (mut prompt, mut prompt_link) = outcomes(&config, 3, Duration::ZERO);
        let (mut late, mut late_link) = outcomes(&config, 3, ms(7));
        finish(&mut prompt, &mut prompt_link);
        finish(&mut late, &mut late_link);
        assert_eq!(prompt, late, "{config:?}");
        let at = at_ms(60_000);
        assert_eq!(prompt_link.statistics(at), late_link.statistics(at));
    }
}

#[test]
fn service_is_back_to_back_and_exact_however_late_the_driver() {
    let mut prompt = constant(megabits(3), QueueLimit::Unlimited);
    let mut late = prompt.clone();
    for id in 0..100 {
        assert!(prompt.push(at_ms(5), packet(id, 1_000)).is_ok());
        assert!(late.push(at_ms(5), packet(id, 1_000)).is_ok());
    }
    let departures = drain(&mut prompt, Instant::FAR_FUTURE);
    for (index, (at, id)) in departures.iter().enumerate() {
        assert_eq!(
            *at,
            at_ms(5) + Duration::from_nanos(2_666_667) * (index as u64 + 1)
        );
        assert_eq!(*id, index as u64);
    }
    // Popped once, 100 ms after the start: by then 37 have left, and the 38th leaves as it would
    // have.
    let popped = core::iter::from_fn(|| late.pop(at_ms(105))).count();
    assert_eq!((popped, late.next_at()), (37, Some(departures[37].0)));
}

#[test]
fn drop_tail_fills_to_the_last_byte_and_counts_the_packet_in_service() {
    let mut bottleneck = constant(megabits(8), QueueLimit::Bytes(3_000));
    for id in 0..3 {
        assert!(bottleneck.push(Instant::ZERO, packet(id, 1_000)).is_ok());
    }
    let dropped = bottleneck
        .push(Instant::ZERO, packet(3, 1))
        .expect_err("3001 > 3000");
    assert_eq!(
        (dropped.cause, dropped.packet.id),
        (DropCause::QueueFull, 3)
    );
    // 1 ns before its last bit leaves the packet in service still counts in full; then not at all.
    let end_at = at_ms(1);
    let just_before = end_at.saturating_sub(Duration::from_nanos(1));
    assert!(bottleneck.push(just_before, packet(4, 1)).is_err());
    assert!(bottleneck.push(end_at, packet(5, 1_001)).is_err());
    assert!(bottleneck.push(end_at, packet(6, 1_000)).is_ok());
    assert_eq!(bottleneck.queued_bytes(), 3_000);
    assert_eq!(bottleneck.statistics(end_at).max_queued_bytes, 3_000);
}

#[test]
fn a_limit_in_packets_counts_the_packet_in_service() {
    let mut bottleneck = constant(megabits(8), QueueLimit::Packets(2));
    assert!(bottleneck.push(Instant::ZERO, packet(0, 1_000)).is_ok());
    assert!(bottleneck.push(Instant::ZERO, packet(1, 9_000)).is_ok());
    assert!(bottleneck.push(Instant::ZERO, packet(2, 1)).is_err());
    assert!(bottleneck.push(at_ms(1), packet(3, 1)).is_ok());
}

#[test]
fn propagating_packets_are_no_part_of_the_queue() {
    let config = LinkConfig {
        rate: Some(megabits(8)),
        delay: ms(500),
        queue: QueueLimit::Bytes(1_000),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    for id in 0..400 {
        assert!(link.push(at_ms(id), packet(id, 1_000)).is_ok(), "{id}");
    }
    assert_eq!(
        (link.queued_bytes(at_ms(400)), link.held_packets()),
        (0, 400)
    );
    assert_eq!(link.next_at(), Some(at_ms(501)));
}

#[test]
fn an_unlimited_link_adds_its_delay_and_nothing_else() {
    let config = LinkConfig {
        delay: ms(20),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    for id in 0..3 {
        assert!(link.push(at_ms(1), packet(id, 60_000)).is_ok());
    }
    assert_eq!(
        drain(&mut link, Instant::FAR_FUTURE),
        [0, 1, 2].map(|id| (at_ms(21), id))
    );
}

/// Returns the error against the average wait in an M/D/1 queue: service · ρ / (2 (1 − ρ))
/// (Pollaczek & Khinchine).
fn mean_wait_error(load: f64, packet_count: u64) -> f64 {
    let size_bytes = 1_250;
    let service = megabits(10).time_for(u64::from(size_bytes));
    let mut bottleneck = constant(megabits(10), QueueLimit::Unlimited);
    let mut rng = Seed(2).derive("arrivals").rng();
    let mut now = Instant::ZERO;
    for id in 0..packet_count {
        now += exponential(&mut rng, service.mul_f64(1.0 / load));
        while bottleneck.pop(now).is_some() {}
        assert!(bottleneck.push(now, packet(id, size_bytes)).is_ok());
    }
    let statistics = bottleneck.statistics(now);
    let utilisation = statistics.busy.as_secs_f64() / now.as_secs_f64();
    assert!(
        (utilisation / load - 1.0).abs() < 0.01,
        "utilisation {utilisation} of {load}"
    );

    let wait = service.as_secs_f64() * load / (2.0 * (1.0 - load));
    // Little's law: the average queue is the arrival rate times the average stay.
    let queued_bytes = statistics.byte_nanos as f64 / now.as_nanos() as f64;
    let expected = load / service.as_secs_f64() * (wait + service.as_secs_f64());
    let queued_packets = queued_bytes / f64::from(size_bytes);
    assert!(
        (queued_packets / expected - 1.0).abs() < 0.01,
        "{queued_packets} of {expected}"
    );
    statistics.mean_wait().as_secs_f64() / wait - 1.0
}

#[test]
fn m_d_1_waits_as_theory_says() {
    for (load, packet_count) in [(0.5, 1_000_000), (0.8, 5_000_000)] {
        let error = mean_wait_error(load, packet_count);
        assert!(error.abs() < 0.01, "load {load}: off by {error}");
    }
}

#[test]
fn a_rate_change_divides_the_packet_in_service() {
    // 10,000 bit: 4 ms at 1 Mbit/s send 4,000; 3 ms at zero none; the other 6,000 take 3 ms at 2
    // Mbit/s.
    let changes = vec![(at_ms(4), DataRate::ZERO), (at_ms(7), megabits(2))];
    let mut bottleneck = by_schedule(Schedule::new(megabits(1), changes), QueueLimit::Unlimited);
    assert!(bottleneck.push(Instant::ZERO, packet(0, 1_250)).is_ok());
    assert!(bottleneck.push(Instant::ZERO, packet(1, 1_250)).is_ok());
    assert_eq!(
        drain(&mut bottleneck, at_ms(99)),
        [(at_ms(10), 0), (at_ms(15), 1)]
    );

    let changes = vec![(at_ms(1), DataRate::ZERO)];
    let mut stalled = by_schedule(Schedule::new(megabits(1), changes), QueueLimit::Unlimited);
    assert!(stalled.push(Instant::ZERO, packet(0, 1_250)).is_ok());
    assert_eq!((stalled.next_at(), stalled.held_packets()), (None, 1));
}

#[test]
fn a_rate_change_to_no_limit_ends_the_service() {
    let changes = vec![(at_ms(4), DataRate::MAX), (at_ms(8), megabits(1))];
    let mut bottleneck = by_schedule(Schedule::new(megabits(1), changes), QueueLimit::Unlimited);
    assert!(bottleneck.push(Instant::ZERO, packet(0, 1_250)).is_ok());
    assert!(bottleneck.push(Instant::ZERO, packet(1, 1_250)).is_ok());
    assert_eq!(
        drain(&mut bottleneck, at_ms(99)),
        [(at_ms(4), 0), (at_ms(4), 1)]
    );
}

fn losses(model: LossModel, packet_count: u64) -> Vec<bool> {
    let mut element = Loss::new(
        model,
        Seed(5),
        Delay::new(Schedule::constant(Duration::ZERO)),
    );
    (0..packet_count)
        .map(|id| {
            let is_lost = element.push(Instant::ZERO, packet(id, 100)).is_err();
            assert_eq!(element.pop(Instant::ZERO).is_none(), is_lost);
            is_lost
        })
        .collect()
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|is_lost| **is_lost).count() as f64 / lost.len() as f64
}

#[test]
fn bernoulli_loses_the_asked_share_independently() {
    let lost = losses(LossModel::Bernoulli { probability: 0.03 }, 1_000_000);
    assert!((share(&lost) - 0.03).abs() < 0.000_6, "{}", share(&lost));
    let after_loss: Vec<bool> = lost.windows(2).filter(|w| w[0]).map(|w| w[1]).collect();
    assert!(
        (share(&after_loss) - 0.03).abs() < 0.004,
        "{}",
        share(&after_loss)
    );
    assert_eq!(share(&losses(LossModel::None, 1_000)), 0.0);
}

#[test]
fn gilbert_elliott_has_its_mean_burst_and_its_mean_loss() {
    let model = LossModel::GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.2,
        loss_in_good: 0.0,
        loss_in_bad: 1.0,
    };
    let lost = losses(model, 1_000_000);
    let mean = model.mean_loss_ratio();
    assert!((mean - 0.01 / 0.21).abs() < 1e-12);
    assert!(
        (share(&lost) / mean - 1.0).abs() < 0.03,
        "{} of {mean}",
        share(&lost)
    );
    let burst_count = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    let mean_burst = share(&lost) * lost.len() as f64 / burst_count;
    assert!((mean_burst / 5.0 - 1.0).abs() < 0.03, "{mean_burst}");
}

#[test]
fn a_probability_outside_its_range_builds_no_link() {
    for probability in [-0.1, 1.1, f64::NAN] {
        let loss = LossModel::Bernoulli { probability };
        let error = LinkConfig {
            loss,
            ..LinkConfig::default()
        }
        .build(Seed(1))
        .err();
        assert!(
            matches!(error, Some(LinkConfigError::Probability(_))),
            "{probability}"
        );
    }
}

#[test]
fn an_outage_loses_queue_and_propagation_and_nothing_after_its_end() {
    let config = LinkConfig {
        rate: Some(megabits(1)),
        delay: ms(35),
        outages: vec![(at_ms(100), ms(50))],
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    // 10 ms each: at 100 ms the packets of 45 … 65 ms have arrived, three propagate, one is in
    // service, …
    for id in 0..12 {
        assert!(link.push(at_ms(20), packet(id, 1_250)).is_ok());
    }
    let before: Vec<_> = drain(&mut link, at_ms(99));
    assert_eq!(
        before,
        [
            (at_ms(65), 0),
            (at_ms(75), 1),
            (at_ms(85), 2),
            (at_ms(95), 3)
        ]
    );
    // … and the outage is reported when it starts, not when a packet would have left.
    assert_eq!(link.next_at(), Some(at_ms(100)));
    assert!(link.pop(at_ms(100)).is_none());
    let dropped = drain_dropped(&mut link);
    assert!(
        dropped
            .iter()
            .all(|d| (d.cause, d.at) == (DropCause::Outage, at_ms(100)))
    );
    let mut ids: Vec<_> = dropped.iter().map(|dropped| dropped.packet.id).collect();
    ids.sort();
    assert_eq!(ids, (4..12).collect::<Vec<_>>());
    assert_eq!((link.held_packets(), link.next_at()), (0, None));

    let nearly = Instant::from_micros(149_999);
    assert_eq!(
        link.push(nearly, packet(12, 1_250)).map_err(|d| d.cause),
        Err(DropCause::Outage)
    );
    assert!(link.push(at_ms(150), packet(13, 1_250)).is_ok());
    assert_eq!(drain(&mut link, at_ms(999)), [(at_ms(195), 13)]);
    let statistics = link.statistics(at_ms(200));
    assert_eq!(statistics.dropped.of(DropCause::Outage), 9);
    // Busy from 20 to 100 and from 150 to 160 ms of 200.
    assert!(
        (statistics.utilisation() - 0.45).abs() < 1e-9,
        "{}",
        statistics.utilisation()
    );
}

#[test]
fn a_packet_due_before_an_outage_survives_a_late_driver() {
    let delay = Delay::new(Schedule::constant(ms(10)));
    let mut link = Outage::new(&[(at_ms(20), ms(5))], delay);
    assert!(link.push(at_ms(9), packet(0, 100)).is_ok());
    assert!(link.push(at_ms(10), packet(1, 100)).is_ok());
    // Late by 11 ms, and after the outage: 0 had left at 19 ms, 1 was due as the outage started.
    assert!(link.push(at_ms(30), packet(2, 100)).is_ok());
    assert_eq!(link.pop(at_ms(30)).map(|packet| packet.id), Some(0));
    assert_eq!(drain_dropped(&mut link)[0].packet.id, 1);
    assert_eq!(drain(&mut link, at_ms(99)), [(at_ms(40), 2)]);
}

#[test]
fn window_statistics_exclude_earlier_packets() {
    let config = LinkConfig {
        rate: Some(megabits(1)),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    for id in 0..4 {
        assert!(link.push(Instant::ZERO, packet(id, 1_250)).is_ok());
    }
    drain(&mut link, at_ms(20));
    let earlier = link.statistics(at_ms(20));
    drain(&mut link, at_ms(60));
    let window = link.statistics(at_ms(60)).since(&earlier);
    assert_eq!((window.observed, window.delivered_packets), (ms(40), 2));
    assert!((window.utilisation() - 0.5).abs() < 1e-9);
    // 2,500 bytes for 10 ms, 1,250 for another 10, then none.
    assert!((window.mean_queued_bytes() - 37_500.0 / 40.0).abs() < 1e-6);
    assert_eq!(
        window.delivered_rate(),
        DataRate::from_kilobits_per_second(500)
    );
}
