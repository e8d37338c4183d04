//! Only packets longer than a link's MTU vanish.

use anabranch_link::{DropCause, LinkConfig, Packet};
use anabranch_units::{DataRate, Duration, Instant, Seed};

/// Returns the sizes that pass, among packets of these sizes, pushed a second apart from 0 s on.
fn passed(config: &LinkConfig, sizes: &[u32]) -> Vec<u32> {
    let mut link = config.build(Seed(1)).unwrap();
    let mut passed = Vec::new();
    for (second, &size) in sizes.iter().enumerate() {
        let at = Instant::from_secs(second as u64);
        if let Err(dropped) = link.push(at, Packet::of_size(size)) {
            assert_eq!((dropped.cause, dropped.at), (DropCause::TooLarge, at));
            assert_eq!(dropped.packet.size_bytes, size);
        }
        let popped = link.pop(at + Duration::from_millis(999));
        passed.extend(popped.map(|packet| packet.size_bytes));
    }
    let end = Instant::from_secs(sizes.len() as u64);
    let statistics = link.statistics(end);
    let dropped = (sizes.len() - passed.len()) as u64;
    assert_eq!(statistics.dropped.of(DropCause::TooLarge), dropped);
    assert_eq!(statistics.dropped.total(), dropped);
    assert_eq!(statistics.queue.served_packets, passed.len() as u64);
    passed
}

#[test]
fn longer_packets_vanish_on_lines_and_bottlenecks() {
    for rate in [None, Some(DataRate::from_megabits_per_second(1))] {
        let mut config = LinkConfig {
            rate,
            delay: Duration::from_millis(10),
            mtu: Some(1_280),
            ..LinkConfig::default()
        };
        let sizes = [1_280, 1_281, 100, 1_500, 1_280];
        assert_eq!(passed(&config, &sizes), [1_280, 100, 1_280]);
        config.mtu_schedule = vec![(Instant::from_secs(3), 1_500), (Instant::from_secs(4), 99)];
        assert_eq!(passed(&config, &sizes), [1_280, 100, 1_500]);
        config.mtu = None;
        assert_eq!(passed(&config, &sizes), [1_280, 1_281, 100, 1_500]);
    }
}
