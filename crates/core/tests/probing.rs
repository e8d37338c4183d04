//! The cost of probing for bandwidth that an adaptive source may use.

use anabranch_core::{Config, MediaConfig, PaddingPolicy, PathId, SourceLimits};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const FRAME_INTERVAL: Duration = Duration::from_millis(40);

fn kbps(rate: u64) -> DataRate {
    DataRate::from_kilobits_per_second(rate)
}

/// A session whose encoder follows the target between 500 kbit/s and `max`.
fn config(max: DataRate) -> Config {
    let source = SourceLimits::Adaptive {
        min: kbps(500),
        max,
    };
    Config {
        media: MediaConfig {
            source,
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// Bytes of padding, and all bytes, that have left.
fn sent(network: &Network, path_count: u8) -> (u64, u64) {
    let counters = (0..path_count).map(|id| network.sender.path_counters(PathId(id)).unwrap());
    counters.fold((0, 0), |(padding, all), counters| {
        (padding + counters.padding_bytes, all + counters.sent_bytes)
    })
}

/// Sends a film of constant bitrate, whatever the target is.
fn play(network: &mut Network, rate: DataRate, end: Instant) {
    let bytes = rate.bytes_in(FRAME_INTERVAL) as usize;
    let mut index = 0;
    while network.now < end {
        network.send(bytes, index % 50 == 0);
        index += 1;
        network.run_until(network.now + FRAME_INTERVAL);
    }
}

#[test]
fn a_film_below_its_range_is_not_padded_once_the_network_is_known() {
    // Both of the trial: 38.9 % and 51.7 % of all bytes were padding.
    for (rate, max, link) in [(1_600, 5_000, 20), (1_000, 8_000, 20), (1_600, 5_000, 3)] {
        let mut network = Network::new(config(kbps(max)), vec![TestPath::new(link, 20)]);
        play(&mut network, kbps(rate), at(15));
        let before = sent(&network, 1);
        play(&mut network, kbps(rate), at(75));
        let after = sent(&network, 1);
        let share = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
        assert!(share < 0.005, "{rate} of {max} kbit/s over {link}: {share}");
        let target = network.sender.target_bitrate();
        assert!(target > kbps(rate), "there is headroom: {target}");
    }
}

#[test]
fn probes_of_a_steady_network_cost_less_than_three_percent_of_any_minute() {
    for (link, delay) in [(3, 20), (3, 60), (8, 30)] {
        let path = TestPath::new(link, delay);
        let mut network = Network::new(config(kbps(20_000)), vec![path]);
        network.stream_until(at(30));
        let mut minutes = vec![sent(&network, 1)];
        for second in 31..=150 {
            network.stream_until(at(second));
            minutes.push(sent(&network, 1));
            if let Some(before) = minutes.len().checked_sub(61).map(|index| minutes[index]) {
                let now = minutes[minutes.len() - 1];
                let share = (now.0 - before.0) as f64 / (now.1 - before.1) as f64;
                assert!(
                    share < 0.03,
                    "{link} Mbit/s, {delay} ms, {second} s: {share}"
                );
                assert!(share > 0.001, "it still probes: {share}");
            }
        }
        let target = network.sender.target_bitrate();
        assert!(target.mul_f64(1.0 / 0.75) > kbps(link * 1_000), "{target}");
    }
}

/// The mean of ten times until the target follows a link that returns to 4 Mbit/s, after it has
/// fallen to 1 Mbit/s for 40 s. A single one depends on when the controller probes.
fn recovery_time(padding: PaddingPolicy) -> Duration {
    let config = Config {
        padding,
        ..config(kbps(8_000))
    };
    let mut network = Network::new(config, vec![TestPath::new(4, 30)]);
    network.stream_until(at(30));
    const TIMES: u64 = 10;
    let mut sum = Duration::ZERO;
    for _ in 0..TIMES {
        let begin = network.now;
        network.paths[0].rate = kbps(1_000);
        network.stream_until(begin + Duration::from_secs(40));
        assert!(network.sender.target_bitrate() < kbps(1_000));
        network.paths[0].rate = kbps(4_000);
        let returned_at = network.now;
        while network.sender.target_bitrate() < kbps(2_800) {
            network.stream_until(network.now + Duration::from_millis(40));
        }
        sum += network.now.saturating_since(returned_at);
        network.stream_until(begin + Duration::from_secs(90));
    }
    sum / TIMES
}

#[test]
fn bandwidth_that_comes_back_is_found_within_seconds() {
    let each = recovery_time(PaddingPolicy::WhileProbing);
    let earned = recovery_time(PaddingPolicy::Earned);
    println!("{each} with padding in each probe, {earned} with padding that is earned");
    assert!(
        earned < each + Duration::from_secs(3),
        "{earned} instead of {each}"
    );
}

#[test]
fn a_path_with_a_cap_is_padded_only_if_it_is_alone() {
    fn padding_on_capped(count: usize) -> u64 {
        let capped = TestPath {
            is_capped: true,
            ..TestPath::new(2, 30)
        };
        let mut paths = vec![capped];
        paths.resize_with(count, || TestPath::new(2, 20));
        let mut network = Network::new(config(kbps(8_000)), paths);
        network.stream_until(at(20));
        network
            .sender
            .path_counters(PathId(0))
            .unwrap()
            .padding_bytes
    }
    assert_eq!(padding_on_capped(2), 0);
    assert!(padding_on_capped(1) > 0);
}
