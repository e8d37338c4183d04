//! A link's forecast of its effect on a packet, compared with its real effect.

use anabranch_link::{Link, LinkConfig, Packet, QueueLimit, Trace};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::support::quantities::{at_ms, megabits, ms};

/// Returns a link that changes its rate and delay, stands still for a while and goes down.
fn lively() -> LinkConfig {
    LinkConfig {
        rate: Some(megabits(2)),
        rate_schedule: vec![
            (at_ms(700), DataRate::ZERO),
            (at_ms(900), megabits(1)),
            (at_ms(3_000), megabits(5)),
        ],
        delay: ms(50),
        delay_schedule: vec![(at_ms(1_500), ms(10)), (at_ms(2_500), ms(80))],
        queue: QueueLimit::Bytes(20_000),
        outages: vec![(at_ms(4_000), ms(300))],
        ..LinkConfig::default()
    }
}

/// Pushes packets of any size at any time for 6 s, and asks for a forecast before each one. Returns
/// the number of right answers, and of those that said "never".
fn compare(config: &LinkConfig, seed: u64) -> (usize, usize) {
    let mut link = config.build(Seed(seed)).unwrap();
    let mut rng = Seed(seed).rng();
    let mut now = Instant::ZERO;
    // For each packet: the forecast of its departure, and its departure.
    let mut promised = Vec::new();
    let mut left = Vec::new();
    while now < Instant::from_secs(6) {
        let size_bytes = 40 + rng.below(1_461) as u32;
        let next_at = now + Duration::from_micros(rng.below(7_000));
        drain(&mut link, next_at, &mut left);
        now = next_at;
        promised.push(link.one_way_delay(now, size_bytes).map(|time| now + time));
        let id = promised.len() as u64 - 1;
        left.push(None);
        let packet = Packet {
            id,
            ..Packet::of_size(size_bytes)
        };
        let is_taken = link.push(now, packet).is_ok();
        assert_eq!(
            is_taken,
            promised.last().unwrap().is_some(),
            "packet {id} at {now}"
        );
    }
    drain(&mut link, Instant::from_secs(60), &mut left);
    let mut right_count = 0;
    for (promised, left) in promised.iter().zip(&left) {
        // A future outage is not part of the forecast.
        let Some(left) = left else { continue };
        assert_eq!(*promised, Some(*left));
        right_count += 1;
    }
    (
        right_count,
        promised.iter().filter(|at| at.is_none()).count(),
    )
}

fn drain(link: &mut Link, end: Instant, left: &mut [Option<Instant>]) {
    while let Some(at) = link.next_at().filter(|at| *at <= end) {
        while let Some(packet) = link.pop(at) {
            left[packet.id as usize] = Some(at);
        }
        while link.take_dropped().is_some() {}
    }
}

#[test]
fn the_transit_time_is_exact_for_drop_tail_queues_whose_rate_and_delay_change() {
    for seed in 1..=20 {
        let (right_count, never_count) = compare(&lively(), seed);
        assert!(
            right_count > 500 && never_count > 100,
            "{right_count} {never_count}"
        );
    }
}

#[test]
fn the_transit_time_is_exact_for_packet_queues_lines_and_traces() {
    let packets = LinkConfig {
        queue: QueueLimit::Packets(10),
        ..lively()
    };
    let line = LinkConfig {
        delay: ms(50),
        delay_schedule: vec![(at_ms(1_500), ms(10)), (at_ms(2_500), ms(80))],
        ..LinkConfig::default()
    };
    let opportunities = [3, 4, 9, 9, 15, 20];
    let trace = LinkConfig {
        trace: Some(Trace::new(&opportunities).unwrap()),
        delay: ms(20),
        queue: QueueLimit::Bytes(20_000),
        ..LinkConfig::default()
    };
    let overtaking = [&packets, &line].map(|config| LinkConfig {
        overtaking: true,
        ..config.clone()
    });
    let [packets_overtake, line_overtakes] = &overtaking;
    for seed in 1..=5 {
        let all = [&packets, &line, &trace, packets_overtake, line_overtakes];
        let counts = all.map(|config| compare(config, seed));
        assert!(
            counts.iter().all(|(right_count, _)| *right_count > 500),
            "{counts:?}"
        );
    }
}

#[test]
fn there_is_no_transit_time_while_the_link_is_down() {
    let mut link = lively().build(Seed(1)).unwrap();
    assert!(link.one_way_delay(at_ms(3_999), 1_000).is_some());
    assert_eq!(link.one_way_delay(at_ms(4_000), 1_000), None);
    assert_eq!(link.one_way_delay(at_ms(4_299), 1_000), None);
    assert_eq!(
        link.one_way_delay(at_ms(4_300), 1_000),
        Some(megabits(5).time_for(1_000) + ms(80))
    );
}

#[test]
fn packets_of_a_forecast_queue_behind_each_other_without_touching_the_link() {
    let config = LinkConfig {
        rate: Some(megabits(8)),
        delay: ms(10),
        queue: QueueLimit::Packets(2),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).unwrap();
    let mut forecast = link.forecast(Instant::ZERO, &mut Vec::new()).unwrap();
    let exits: Vec<_> = (0..3)
        .map(|_| forecast.pass(Instant::ZERO, 1_000))
        .collect();
    assert_eq!(exits, [Some(at_ms(11)), Some(at_ms(12)), None]);
    assert_eq!(link.held_packets(), 0);
}
