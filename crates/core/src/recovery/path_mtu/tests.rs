use super::*;
use crate::fragment::FrameId;
use crate::recovery::DeliverySnapshot;

const LIMITS: MtuDiscovery = MtuDiscovery {
    base_bytes: 1_228,
    max_bytes: 1_500,
    unit_bytes: 188,
};

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn sent(packet_number: u64, bytes: u32, content: PacketContent) -> SentPacket {
    SentPacket {
        packet_number,
        sent_at: at(0),
        bytes,
        bytes_in_flight: 0,
        delivery: DeliverySnapshot::default(),
        content,
    }
}

fn probe(bytes: u32) -> SentPacket {
    sent(0, bytes, PacketContent::MtuProbe)
}

fn media(packet_number: u64, bytes: u32) -> SentPacket {
    let content = PacketContent::Fragment {
        frame: FrameId(0),
        fragment: 0,
        is_piece: false,
    };
    sent(packet_number, bytes, content)
}

/// Runs a search over a path with this MTU. Returns the sizes of the probes.
fn search(mtu: &mut PathMtu, path_mtu: u32) -> Vec<u32> {
    let mut probes = Vec::new();
    let mut now = at(0);
    while mtu.found().is_none() {
        now += Duration::from_millis(250);
        let Some(bytes) = mtu.due_probe(now) else {
            continue;
        };
        probes.push(bytes);
        mtu.on_probe_sent(bytes);
        if bytes <= path_mtu {
            mtu.on_acked(now, &probe(bytes));
        } else {
            mtu.on_lost(now, &probe(bytes), false);
        }
    }
    probes
}

#[test]
fn the_largest_size_is_tried_first_and_one_probe_is_enough_for_it() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    assert_eq!((mtu.carried(), mtu.found()), (1_228, None));
    assert_eq!(search(&mut mtu, 1_500), [1_500]);
    assert_eq!(mtu.found(), Some(1_500));
}

#[test]
fn sizes_that_networks_have_are_found_with_three_probes_each() {
    for (path_mtu, found) in [
        (1_492, 1_492),
        (1_280, 1_280),
        (1_430, 1_420),
        (1_250, 1_228),
    ] {
        let mut mtu = PathMtu::new(LIMITS, at(0));
        let probes = search(&mut mtu, path_mtu);
        assert_eq!(mtu.found(), Some(found), "{probes:?}");
        assert!(probes.len() <= 15, "{probes:?}");
        assert_eq!(probes[..3], [1_500; 3]);
    }
}

#[test]
fn refused_size_is_not_probed_again() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    mtu.on_probe_sent(mtu.clone().due_probe(at(0)).unwrap());
    mtu.on_too_large(at(1), 1_500);
    // The refused probe is declared lost later, which is no news.
    mtu.on_lost(at(1), &probe(1_500), false);
    let next = mtu.due_probe(at(1)).expect("the next size is due at once");
    assert!(next < 1_500);
    assert!(!search(&mut mtu, 1_400).contains(&1_500));
    assert_eq!(mtu.found(), Some(1_400));
}

#[test]
fn a_search_starts_again_after_ten_minutes() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    search(&mut mtu, 1_280);
    assert_eq!(mtu.due_probe(at(500_000)), None);
    assert_eq!(mtu.due_probe(at(700_000)), Some(1_500));
}

#[test]
fn three_full_size_packets_lost_in_a_row_are_a_black_hole() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    search(&mut mtu, 1_500);
    mtu.on_acked(at(900), &media(1, 1_395));
    for packet_number in [2, 3] {
        mtu.on_lost(at(1_000), &media(packet_number, 1_390), false);
    }
    // Smaller ones arrive, and say nothing of it.
    mtu.on_acked(at(1_000), &media(5, 600));
    assert_eq!(mtu.carried(), 1_500);
    mtu.on_lost(at(1_000), &media(4, 1_390), false);
    assert_eq!(mtu.carried(), 1_228);
    assert_eq!(
        mtu.due_probe(at(1_000)),
        Some(1_500),
        "it is searched again"
    );
}

#[test]
fn bursts_of_losses_and_silence_are_no_black_hole() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    search(&mut mtu, 1_500);
    // A report lists an arrival after the burst before the burst counts as lost.
    mtu.on_acked(at(900), &media(9, 1_395));
    for packet_number in 2..9 {
        mtu.on_lost(at(1_000), &media(packet_number, 1_395), false);
    }
    for packet_number in 10..20 {
        mtu.on_lost(at(1_000), &media(packet_number, 1_395), true);
        mtu.on_lost(at(1_000), &media(packet_number, 1_100), false);
    }
    assert_eq!(mtu.carried(), 1_500);
}

#[test]
fn only_packets_within_64_bytes_of_the_longest_are_full_size() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    search(&mut mtu, 1_500);
    mtu.on_acked(at(900), &media(1, 1_395));
    for packet_number in 2..9 {
        mtu.on_lost(at(1_000), &media(packet_number, 1_330), false);
    }
    assert_eq!(mtu.carried(), 1_500);
    for packet_number in 9..12 {
        mtu.on_lost(at(1_000), &media(packet_number, 1_331), false);
    }
    assert_eq!(mtu.carried(), 1_228);
}

#[test]
fn a_path_that_loses_all_long_packets_and_no_short_ones_is_below_the_base() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    for number in 0..29 {
        mtu.on_lost(at(1), &media(2 * number, 1_186), false);
        mtu.on_acked(at(1), &media(2 * number + 1, 300));
        assert!(!mtu.is_below_base(), "{number}");
    }
    mtu.on_lost(at(1), &media(60, 1_186), false);
    assert!(mtu.is_below_base());
    mtu.on_acked(at(2), &media(61, 1_180));
    assert!(!mtu.is_below_base(), "one has arrived");
}

#[test]
fn a_path_that_loses_all_packets_is_not_below_the_base() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    mtu.on_acked(at(1), &media(0, 300));
    for number in 1..100 {
        mtu.on_lost(at(1), &media(number, 1_186), false);
        mtu.on_lost(at(1), &media(number + 100, 300), false);
    }
    assert!(!mtu.is_below_base());
    // Silence says nothing of sizes.
    let mut mtu = PathMtu::new(LIMITS, at(0));
    for number in 0..100 {
        mtu.on_lost(at(1), &media(number, 1_186), true);
        mtu.on_acked(at(1), &media(number + 100, 300));
    }
    assert!(!mtu.is_below_base());
}

#[test]
fn an_interface_that_refuses_the_base_is_below_it() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    mtu.on_too_large(at(1), 1_400);
    assert!(!mtu.is_below_base());
    mtu.on_too_large(at(1), 1_210);
    assert!(mtu.is_below_base());
}

#[test]
fn probes_that_silence_takes_leave_ever_less_often_and_refuse_no_size() {
    let mut mtu = PathMtu::new(LIMITS, at(0));
    let mut sent_at = Vec::new();
    for millis in (0..60_000).step_by(10) {
        if let Some(bytes) = mtu.due_probe(at(millis)) {
            sent_at.push(millis);
            mtu.on_probe_sent(bytes);
            mtu.on_lost(at(millis), &probe(bytes), true);
        }
    }
    assert_eq!(sent_at[..6], [0, 200, 600, 1_400, 3_000, 6_200]);
    assert!(sent_at.len() <= 10, "{sent_at:?}");
    mtu.on_acked(at(60_000), &probe(1_500));
    assert_eq!(mtu.found(), Some(1_500));
}
