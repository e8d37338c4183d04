//! Two fast paths, one of them metered: the additional bytes needed to avoid the metered one, and
//! the frames that come late.

use anabranch_core::{Config, Media, MediaConfig, PathId, PathOptions, Session, SourceLimits};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

/// 2.4 Mbit/s, whatever the network.
const FIXED: SourceLimits = SourceLimits::Fixed;
/// 2.4 Mbit/s, which is all that is ever wanted.
const AT_ITS_MOST: SourceLimits = SourceLimits::Adaptive {
    min: DataRate::from_kilobits_per_second(2_000),
    max: DataRate::from_kilobits_per_second(2_400),
};
/// Bytes that the source produces in a second.
const A_SECOND_BYTES: u64 = 300_000;
/// Maximum bytes on a path in reserve in a second.
const PROBE_BYTES: u64 = 60;

fn network(source: SourceLimits, megabits_per_second: u64, delay: Duration) -> Network {
    let config = Config {
        media: MediaConfig {
            source,
            ..MediaConfig::default()
        },
        ..support::usual()
    };
    let path = TestPath {
        delay,
        ..TestPath::new(megabits_per_second, 0)
    };
    let metered = TestPath {
        is_metered: true,
        ..path.clone()
    };
    Network::new(config, vec![path, metered])
}

/// Sends for `seconds` seconds. Returns the metered path's bytes in the last of them.
fn stream(network: &mut Network, seconds: u64) -> u64 {
    let on_metered =
        |network: &Network| network.sender.path_counters(PathId(1)).unwrap().sent_bytes;
    let mut before = 0;
    for _ in 0..seconds {
        before = on_metered(network);
        for index in 0..25 {
            let bytes = if index == 0 { 60_000 } else { 10_000 };
            network.send(bytes, index == 0);
            network.run_until(network.now + Duration::from_millis(40));
        }
    }
    on_metered(network) - before
}

#[test]
fn a_path_that_comes_to_be_paid_for_stands_by() {
    let path = TestPath::new(2, 20);
    let mut network = Network::new(support::usual(), vec![TestPath::new(10, 40), path]);
    assert!(stream(&mut network, 3) > 10_000);
    let options = PathOptions {
        is_metered: true,
        ..PathOptions::default()
    };
    network.sender.set_options(PathId(1), options);
    stream(&mut network, 2);
    assert!(stream(&mut network, 1) <= PROBE_BYTES);
    let outage = (network.now, network.now + Duration::from_secs(2));
    network.paths[0].outage = Some(outage);
    assert!(stream(&mut network, 2) > 100_000, "it is the only one");
}

#[test]
fn a_path_is_never_sent_on_faster_than_allowed() {
    let limit = DataRate::from_kilobits_per_second(800);
    let limited = TestPath {
        max_rate: Some(limit),
        ..TestPath::new(10, 10)
    };
    let mut network = Network::new(support::usual(), vec![TestPath::new(10, 40), limited]);
    let allowed = limit.bytes_in(Duration::from_secs(1));
    let carried: Vec<u64> = (0..5).map(|_| stream(&mut network, 1)).collect();
    // A packet and a report more may fall into a second.
    assert!(
        carried.iter().all(|bytes| *bytes <= allowed + 4_000),
        "{carried:?} of {allowed} B"
    );
    assert!(
        carried.iter().max().unwrap() * 2 > allowed,
        "{carried:?} of {allowed} B"
    );
    assert_eq!(network.dropped, [], "the other carries the rest");
}

fn padding_bytes(network: &Network) -> u64 {
    fn of(path: PathId, sender: &Session<Media>) -> u64 {
        sender.path_counters(path).unwrap().padding_bytes
    }
    of(PathId(0), &network.sender) + of(PathId(1), &network.sender)
}

#[test]
fn padding_after_an_outage_is_bounded() {
    for source in [FIXED, AT_ITS_MOST] {
        for rate in [100, 300, 1_000] {
            for micros in [100, 1_000, 10_000, 50_000] {
                let mut network = network(source, rate, Duration::from_micros(micros));
                let (from, to) = (Instant::from_millis(1_000), Instant::from_millis(1_500));
                network.paths[0].outage = Some((from, to));
                let on_metered_at_end = stream(&mut network, 6);
                let case = format!("{source:?}, {rate} Mbit/s, {micros} µs");
                let padding_bytes = padding_bytes(&network);
                assert!(padding_bytes < A_SECOND_BYTES, "{case}: {padding_bytes} B");
                assert_eq!(network.dropped, [], "{case}");
                assert!(
                    on_metered_at_end <= PROBE_BYTES,
                    "{case}: {on_metered_at_end} B"
                );
            }
        }
    }
}

#[test]
fn a_path_that_was_too_narrow_takes_all_again_with_little_padding() {
    fn sent(network: &Network) -> u64 {
        let counters = network.sender.path_counters(PathId(1));
        counters.unwrap().sent_bytes
    }

    let mut found_with = 0;
    for source in [FIXED, AT_ITS_MOST] {
        for rate in [100, 300] {
            for micros in [100, 1_000, 10_000] {
                let mut network = network(source, rate, Duration::from_micros(micros));
                stream(&mut network, 2);
                network.paths[0].rate = DataRate::from_kilobits_per_second(2_200);
                // It is relieved before its controller has learnt how narrow it is: that takes a
                // second try.
                let before_narrow = sent(&network);
                stream(&mut network, 6);
                let on_metered_when_narrow = sent(&network) - before_narrow;
                network.paths[0].rate = DataRate::from_megabits_per_second(rate);
                let before = padding_bytes(&network);
                let on_metered_at_end = stream(&mut network, 6);
                let case = format!("{source:?}, {rate} Mbit/s, {micros} µs");
                // Half of the time at least.
                assert!(on_metered_when_narrow > 3 * A_SECOND_BYTES, "{case}");
                assert!(
                    on_metered_at_end <= PROBE_BYTES,
                    "{case}: {on_metered_at_end} B"
                );
                let padded = padding_bytes(&network) - before;
                assert!(padded < A_SECOND_BYTES / 4, "{case}: {padded} B");
                found_with += padded;
            }
        }
    }
    assert!(found_with > 0);
}

#[test]
fn a_path_that_is_just_wide_enough_is_not_relieved() {
    for micros in [100, 1_000] {
        let mut network = network(FIXED, 100, Duration::from_micros(micros));
        stream(&mut network, 2);
        network.paths[0].rate = DataRate::from_kilobits_per_second(2_600);
        let on_metered = stream(&mut network, 6);
        assert!(on_metered <= PROBE_BYTES, "{micros} µs: {on_metered} B");
        assert_eq!(network.dropped, [], "{micros} µs");
    }
}
