//! A token bucket releases the unused bytes of a pause at once, and no more than it holds.

use anabranch_link::{CoDelOptions, Discipline, LinkConfig, LinkConfigError, Packet};
use anabranch_units::{DataRate, Instant, Seed};

/// Returns a link of 1 Mbit/s: 10 ms for 1,250 B, of which the bucket holds two.
fn config() -> LinkConfig {
    LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(1)),
        burst_bytes: 2_500,
        ..LinkConfig::default()
    }
}

/// Returns the departures of packets of 1,250 B that arrive at these milliseconds.
fn leave(config: &LinkConfig, come_at: &[u64]) -> Vec<u64> {
    let mut link = config.build(Seed(1)).unwrap();
    for &millis in come_at {
        let taken = link.push(Instant::from_millis(millis), Packet::of_size(1_250));
        taken.unwrap();
    }
    let counts: Vec<usize> = (0..2_000)
        .map(|milli| {
            let now = Instant::from_millis(milli);
            std::iter::from_fn(|| link.pop(now)).count()
        })
        .collect();
    counts
        .iter()
        .enumerate()
        .flat_map(|(milli, count)| vec![milli as u64; *count])
        .collect()
}

#[test]
fn saved_burst_leaves_at_once_and_the_rest_at_rate() {
    assert_eq!(
        leave(&config(), &[1_000; 5]),
        [1_000, 1_000, 1_010, 1_020, 1_030]
    );
    // 15 ms after the last one there is room for one and a half.
    assert_eq!(
        leave(&config(), &[1_000, 1_000, 1_015, 1_015]),
        [1_000, 1_000, 1_015, 1_020]
    );
    let without = LinkConfig {
        burst_bytes: 0,
        ..config()
    };
    assert_eq!(leave(&without, &[1_000; 3]), [1_010, 1_020, 1_030]);
}

#[test]
fn packets_slower_than_the_rate_do_not_wait() {
    let come_at: Vec<u64> = (1..100).map(|index| 12 * index).collect();
    assert_eq!(leave(&config(), &come_at), come_at);
}

#[test]
fn it_needs_a_rate_and_a_drop_tail_queue() {
    let managed = LinkConfig {
        discipline: Discipline::CoDel(CoDelOptions::default()),
        ..config()
    };
    let unlimited = LinkConfig {
        rate: None,
        ..config()
    };
    for config in [managed, unlimited] {
        let error = config.build(Seed(1)).unwrap_err();
        assert_eq!(error, LinkConfigError::Burst);
    }
}
