//! One test bed for all doors: floods from one host, from a network and from everywhere, beside a
//! stranger and a known source that ask now and then.

use super::*;

const LIMITS: Limits = Limits {
    total: Rate {
        burst: 20,
        interval: Duration::from_millis(50),
    },
    host: Rate {
        burst: 4,
        interval: Duration::from_millis(500),
    },
};

fn ipv4(number: u32) -> IpAddr {
    number.to_be_bytes().into()
}

fn ipv6(number: u32) -> IpAddr {
    (u128::from(number) << 64 | 1).to_be_bytes().into()
}

/// Counts of a minute, in which every source of `flood` asks once in 20 ms. From 15 s on a stranger
/// asks once a second until it is admitted, and 5 s later the next one.
struct Minute {
    of_flood: usize,
    /// Longest wait of strangers.
    longest_wait: Duration,
    largest: usize,
}

fn minute(flood: &[IpAddr], stranger: impl Fn(u64) -> IpAddr) -> Minute {
    let mut limiter = Limiter::new(LIMITS);
    let mut counts = Minute {
        of_flood: 0,
        longest_wait: Duration::ZERO,
        largest: 0,
    };
    let mut asked_since = Instant::from_secs(15);
    let mut stranger_number = 0;
    for millis in (0..60_000).step_by(20) {
        let now = Instant::from_millis(millis);
        let admitted = flood.iter().filter(|&&source| limiter.admit(now, source));
        counts.of_flood += admitted.count();
        counts.largest = counts.largest.max(limiter.networks.len());
        let is_asked = now
            .saturating_since(asked_since)
            .as_nanos()
            .is_multiple_of(1_000_000_000);
        if now >= asked_since && is_asked && limiter.admit(now, stranger(stranger_number)) {
            let wait = now.saturating_since(asked_since);
            counts.longest_wait = counts.longest_wait.max(wait);
            asked_since = now + Duration::from_secs(5);
            stranger_number += 1;
        }
    }
    assert!(stranger_number >= 6, "{stranger_number} strangers");
    counts
}

#[test]
fn one_host_keeps_nobody_out() {
    for (flood, stranger) in [
        (ipv4(0xc000_0201), ipv4 as fn(u32) -> IpAddr),
        (ipv6(7), ipv6),
    ] {
        let counts = minute(&[flood], |number| {
            stranger(0x0a00_0000 + number as u32 * 256)
        });
        assert_eq!(counts.longest_wait, Duration::ZERO);
        assert!(
            (120..=125).contains(&counts.of_flood),
            "{}",
            counts.of_flood
        );
    }
}

#[test]
fn a_network_of_256_hosts_keeps_nobody_out() {
    let flood: Vec<_> = (0..256).map(|host| ipv4(0xc000_0200 + host)).collect();
    let counts = minute(&flood, |number| ipv4(0x0a00_0000 + number as u32 * 256));
    assert_eq!(counts.longest_wait, Duration::ZERO);
    let prefix: Vec<_> = (0..256).map(|host| ipv6(0x2001_0000 + host)).collect();
    let counts = minute(&prefix, |number| ipv6(0x0a00_0000 + number as u32 * 65_536));
    assert_eq!(counts.longest_wait, Duration::ZERO);
}

#[test]
fn hosts_beside_a_flooding_one_are_admitted() {
    let counts = minute(&[ipv4(0xc000_0201)], |number| {
        ipv4(0xc000_0210 + number as u32)
    });
    assert_eq!(counts.longest_wait, Duration::ZERO);
}

#[test]
fn a_stranger_is_admitted_beside_250_networks_after_their_first_requests() {
    let flood: Vec<_> = (0..250).map(|net| ipv4(0xc000_0001 + net * 256)).collect();
    let counts = minute(&flood, |number| ipv4(0x0a00_0000 + number as u32 * 256));
    assert_eq!(counts.longest_wait, Duration::ZERO);
    // No more than the total, and its entries.
    assert!(counts.of_flood <= 20 + 60 * 20, "{}", counts.of_flood);
    assert!(counts.largest <= 500, "{}", counts.largest);
}

#[test]
fn a_host_that_is_alone_gets_all_that_is_not_reserved() {
    let limits = Limits {
        host: LIMITS.total,
        ..LIMITS
    };
    let mut limiter = Limiter::new(limits);
    let asked = (0..10_000).step_by(10).map(Instant::from_millis);
    let admitted = asked.filter(|&now| limiter.admit(now, ipv4(1)));
    let count = admitted.count();
    assert!((200..=220).contains(&count), "{count}");
}

#[test]
fn known_sources_are_admitted_in_any_flood() {
    let known = ipv4(0x0a00_0001);
    let mut limiter = Limiter::new(LIMITS);
    limiter.trust(Instant::ZERO, known);
    for millis in 0..10_000_u64 {
        let now = Instant::from_millis(millis);
        // A new network each time.
        let mut admitted = 0;
        for number in 0..4 {
            let flood = ipv4(0x2000_0000 + (millis as u32 * 4 + number) * 256);
            admitted += usize::from(limiter.admit(now, flood));
        }
        assert!(admitted <= 4);
        if millis % 1_000 == 999 {
            assert!(limiter.admit(now, known), "{millis}");
            let other = ipv4(0x0a00_0101);
            assert!(!limiter.admit(now, other), "the flood shows nothing");
        }
    }
}

#[test]
fn known_sources_have_limits_too() {
    let mut limiter = Limiter::new(LIMITS);
    limiter.trust(Instant::ZERO, ipv4(1));
    let asked = (0..1_000).map(Instant::from_millis);
    let count = asked.filter(|&now| limiter.admit(now, ipv4(1))).count();
    assert!((5..=6).contains(&count), "{count}");
    for number in 0..5_000 {
        limiter.trust(Instant::from_secs(number), ipv4(number as u32));
    }
    assert_eq!(limiter.known_since.len(), MAX_KNOWN);
}

#[test]
fn unproven_sources_get_half_and_leave_half() {
    let mut limiter = Limiter::new(LIMITS);
    let now = Instant::from_secs(9);
    let count = (0..100).filter(|_| limiter.admit_unproven(now)).count();
    assert_eq!(count, 10);
    let proven = (0..100).filter(|&net| limiter.admit(now, ipv4(net * 256)));
    assert_eq!(proven.count(), 10);
}

#[test]
fn memory_lasts_as_long_as_a_network_counts() {
    let mut limiter = Limiter::new(LIMITS);
    for millis in (0..300_000).step_by(5) {
        let source = ipv4(0x2000_0000 + millis as u32 * 256);
        limiter.admit(Instant::from_millis(millis), source);
    }
    // 20 a second for 121 s, each with its network, and the burst.
    let most = 2 * (20 * 121 + 20);
    assert!(limiter.networks.len() <= most, "{}", limiter.networks.len());
    limiter.admit(Instant::from_secs(600), ipv4(0));
    assert_eq!(limiter.networks.len(), 2);
}
