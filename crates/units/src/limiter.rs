//! Limit on requests from strangers, per network and in total.
//!
//! All doors of a program use it: handshakes, TCP connections, HTTP, groups of SRTLA and SRT
//! callers, also those through SRTLA. Each network has buckets of tokens ([`Network::around`]), and
//! all strangers share one. While that is at most half full, a network that was admitted within the
//! last two minutes waits. A flood then gets the upper half, and the lower half serves everyone
//! else. Sources that have proven a key keep a share of their own, which no flood of strangers uses
//! up.

use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::network::Network;
use crate::time::{Duration, Instant};

/// Time in which a network is admitted once while strangers' requests are many (chosen). A flood
/// from 250 networks delays strangers at 20 requests a second by up to 12 s once in this time, and
/// at 200 requests a second the entries take 6 MB.
const CROWDED_INTERVAL: Duration = Duration::from_secs(120);
/// Most known sources, of 60 bytes each; the one that has been known longest gives way.
const MAX_KNOWN: usize = 1_024;

/// Rate of requests, with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests that may come at once, at least 1.
    pub burst: u32,
    /// Time per request afterwards.
    pub interval: Duration,
}

/// Limits of a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rate of all strangers together, and again of all known sources together.
    pub total: Rate,
    /// Rate of each host; a network's is a multiple of it.
    pub host: Rate,
}

/// Limiter of one door. Its memory is bounded by the total rate: entries of networks last until
/// their buckets are full again, and only admitted requests make entries.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    strangers: Bucket,
    known: Bucket,
    networks: BTreeMap<Network, Buckets>,
    /// Hosts that have proven a key, with the time.
    known_since: BTreeMap<Network, Instant>,
    prune_at: Instant,
}

/// Buckets of a network.
#[derive(Clone, Copy, Debug, Default)]
struct Buckets {
    usual: Bucket,
    crowded: Bucket,
}

/// Bucket of tokens, as the time at which it is full.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    full_at: Instant,
}

impl Limiter {
    /// Creates a limiter that has seen nobody yet.
    pub fn new(limits: Limits) -> Self {
        Limiter {
            limits,
            strangers: Bucket::default(),
            known: Bucket::default(),
            networks: BTreeMap::new(),
            known_since: BTreeMap::new(),
            prune_at: Instant::ZERO,
        }
    }

    /// Sets the limits, which apply from the next request on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns whether the request of `source` is admitted, which then counts.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        self.prune(now);
        let is_known = self.known_since.contains_key(&Network::host(source));
        if is_known && self.known.has_token(now, self.limits.total) {
            // The share of known sources is for each of them.
            if self.networks_have_tokens(now, source, false) {
                self.known.take(now, self.limits.total);
                self.charge(now, source);
                return true;
            }
            return false;
        }
        let is_admitted = self.strangers.has_token(now, self.limits.total)
            && self.networks_have_tokens(now, source, !self.has_half(now));
        if is_admitted {
            self.strangers.take(now, self.limits.total);
            self.charge(now, source);
        }
        is_admitted
    }

    /// Returns whether more than half of the strangers' bucket is left, and takes a token of it
    /// for a source that may be forged. No network is charged.
    pub fn admit_unproven(&mut self, now: Instant) -> bool {
        let is_admitted = self.has_half(now);
        if is_admitted {
            self.strangers.take(now, self.limits.total);
        }
        is_admitted
    }

    /// Records that `source` has proven a key.
    pub fn trust(&mut self, now: Instant, source: IpAddr) {
        self.known_since.insert(Network::host(source), now);
        if self.known_since.len() > MAX_KNOWN {
            let oldest = self.known_since.iter().min_by_key(|(_, since)| **since);
            if let Some(oldest) = oldest.map(|(&network, _)| network) {
                self.known_since.remove(&oldest);
            }
        }
    }

    fn has_half(&self, now: Instant) -> bool {
        let rate = self.limits.total;
        let used = self.strangers.full_at.saturating_since(now);
        used < rate.interval * u64::from(rate.burst.div_ceil(2))
    }

    /// Returns whether all networks around the source have tokens.
    fn networks_have_tokens(&self, now: Instant, source: IpAddr, is_crowded: bool) -> bool {
        Network::around(source).all(|(network, share)| {
            let buckets = self.networks.get(&network).copied().unwrap_or_default();
            let has_room = buckets.usual.has_token(now, self.limits.host.times(share));
            has_room && (!is_crowded || buckets.crowded.has_token(now, crowded(share)))
        })
    }

    fn charge(&mut self, now: Instant, source: IpAddr) {
        for (network, share) in Network::around(source) {
            let buckets = self.networks.entry(network).or_default();
            buckets.usual.take(now, self.limits.host.times(share));
            buckets.crowded.take(now, crowded(share));
        }
    }

    /// Forgets networks whose buckets are full, once a second.
    fn prune(&mut self, now: Instant) {
        fn is_full(bucket: &Bucket, now: Instant) -> bool {
            bucket.full_at <= now
        }

        if now >= self.prune_at {
            self.prune_at = now + Duration::from_secs(1);
            self.networks
                .retain(|_, its| !is_full(&its.usual, now) || !is_full(&its.crowded, now));
        }
    }
}

/// Rate of a network while strangers' requests are many.
fn crowded(share: u32) -> Rate {
    Rate {
        burst: share,
        interval: CROWDED_INTERVAL / u64::from(share),
    }
}

impl Rate {
    /// Returns a multiple of the rate.
    pub fn times(self, factor: u32) -> Rate {
        Rate {
            burst: self.burst.saturating_mul(factor),
            interval: self.interval / u64::from(factor.max(1)),
        }
    }
}

impl Bucket {
    /// Takes a token, if there is one. Returns whether there was.
    pub fn take_if(&mut self, now: Instant, rate: Rate) -> bool {
        let has_token = self.has_token(now, rate);
        if has_token {
            self.take(now, rate);
        }
        has_token
    }

    fn has_token(self, now: Instant, rate: Rate) -> bool {
        let used = self.full_at.saturating_since(now);
        used + rate.interval <= rate.interval * u64::from(rate.burst)
    }

    /// Takes a token. Debts do not grow beyond the bucket.
    fn take(&mut self, now: Instant, rate: Rate) {
        let emptied = now + rate.interval * u64::from(rate.burst);
        self.full_at = (self.full_at.max(now) + rate.interval).min(emptied);
    }
}

#[cfg(test)]
mod tests;
