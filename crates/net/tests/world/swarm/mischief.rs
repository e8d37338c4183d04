//! A bystander that copies, delays, replays and passes on, and a record of all that it sees.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anabranch_net::testing::{Bystander, Hands, Packet};
use anabranch_units::{Duration, Instant, Rng};

/// Initiations that a sender may send by a path in a second: the shortest pause is 50 ms, and the
/// pauses double from 250 ms on.
const MAX_INITIATIONS: usize = 8;
/// Kind of initiations, their first byte.
const INITIATION: u8 = 1;
/// Number of datagrams that are kept for replays.
const MAX_RECORDED: usize = 100;

/// Observations of a bystander.
#[derive(Default)]
pub struct Observations {
    /// Times of initiations, by their source.
    initiations: BTreeMap<SocketAddr, Vec<Instant>>,
    /// Bytes from and to each of the bystander's addresses.
    own_bytes: BTreeMap<SocketAddr, [u64; 2]>,
}

impl Observations {
    /// Checks that retries have a floor.
    pub fn check_retries(&self) {
        for (from, times) in &self.initiations {
            for at in times {
                let until = *at + Duration::from_secs(1);
                let count = times
                    .iter()
                    .filter(|time| (*at..until).contains(*time))
                    .count();
                assert!(
                    count <= MAX_INITIATIONS,
                    "{count} initiations in a second from {from}"
                );
            }
        }
    }

    /// Checks that no address of the bystander gets more than three times its bytes.
    pub fn check_amplification(&self) {
        for (address, [from, to]) in &self.own_bytes {
            assert!(*to <= 3 * from, "{to} bytes for {from} of {address}");
        }
    }
}

/// A bystander that copies, delays and replays at random, and drops nothing.
pub struct Mischief {
    pub rng: Rng,
    pub seen: Arc<Mutex<Observations>>,
    pub studio: SocketAddr,
    pub is_hostile: bool,
    /// Whether it passes the answers to its own addresses on, from the studio's address.
    pub passes_on: bool,
    camera: Option<SocketAddr>,
    recorded: Vec<Packet>,
}

impl Mischief {
    pub fn new(rng: Rng, studio: SocketAddr, is_hostile: bool, passes_on: bool) -> Self {
        Mischief {
            rng,
            seen: Arc::default(),
            studio,
            is_hostile,
            passes_on,
            camera: None,
            recorded: Vec::new(),
        }
    }

    fn replay(&mut self, packet: &Packet, hands: &mut Hands) {
        if self.recorded.len() < MAX_RECORDED && self.rng.chance(0.05) {
            self.recorded.push(packet.clone());
        }
        if !self.recorded.is_empty() && self.rng.chance(0.05) {
            let index = self.rng.below(self.recorded.len() as u64) as usize;
            hands.inject(Duration::from_millis(1), self.recorded[index].clone());
        }
    }
}

impl Bystander for Mischief {
    fn see(&mut self, now: Instant, packet: &Packet, hands: &mut Hands) {
        let mut seen = self.seen.lock().expect("no panic");
        if packet.bytes.first() == Some(&INITIATION) {
            seen.initiations.entry(packet.from).or_default().push(now);
        }
        if !self.is_hostile {
            return;
        }
        if self.rng.chance(0.2) {
            hands.hold(Duration::from_millis(self.rng.below(20)));
        }
        if packet.to != self.studio {
            return;
        }
        self.camera = Some(packet.from);
        if self.rng.chance(0.3) {
            let from = ([192, 0, 2, 66], 5_000 + self.rng.below(4) as u16).into();
            let after = Duration::from_millis(self.rng.below(30));
            seen.own_bytes.entry(from).or_default()[0] += packet.bytes.len() as u64;
            hands.inject(
                after,
                Packet {
                    from,
                    ..packet.clone()
                },
            );
        }
        drop(seen);
        self.replay(packet, hands);
    }

    fn receive(&mut self, _: Instant, packet: &Packet, hands: &mut Hands) {
        let mut seen = self.seen.lock().expect("no panic");
        seen.own_bytes.entry(packet.to).or_default()[1] += packet.bytes.len() as u64;
        if let Some(to) = self.camera
            && self.passes_on
            && self.rng.chance(0.8)
        {
            let from = self.studio;
            hands.inject(
                Duration::from_millis(1),
                Packet {
                    from,
                    to,
                    ..packet.clone()
                },
            );
        }
    }
}
