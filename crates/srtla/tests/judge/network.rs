//! Links in virtual time, each with a way there and a way back.

use std::collections::BTreeMap;

use anabranch_link::{
    JitterAmount, JitterModel, JitterOrder, Link, LinkConfig, LossModel, Packet, QueueLimit,
};
use anabranch_units::{DataRate, Duration, Instant, Seed};

/// Bytes of IP and UDP headers.
const HEADER_BYTES: u32 = 28;
/// Least jitter of each way. Chosen: that of a quiet mobile network.
const LEAST_JITTER: u64 = 5;

/// A link of a case. All times are of one way.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Rate in kbit/s.
    pub rate: u64,
    /// Delay in milliseconds.
    pub delay: u64,
    /// Share of packets that are lost each way.
    pub loss: f64,
    /// Jitter in milliseconds, if it is above [`LEAST_JITTER`].
    pub jitter: u64,
    /// Rates in kbit/s from a time in milliseconds on.
    pub rates: &'static [(u64, u64)],
    /// Delays from a time on, both in milliseconds.
    pub delays: &'static [(u64, u64)],
    /// Whether it pauses for 120 ms each second.
    pub pauses: bool,
    /// Outages: begin and length in milliseconds.
    pub outages: &'static [(u64, u64)],
}

/// One direction of a link.
#[derive(Debug)]
struct Way {
    link: Link,
    datagrams: BTreeMap<u64, Vec<u8>>,
    next_id: u64,
}

/// A link with both directions.
#[derive(Debug)]
pub struct Wire {
    there: Way,
    back: Way,
}

impl Way {
    fn push(&mut self, now: Instant, datagram: Vec<u8>) {
        let packet = Packet {
            id: self.next_id,
            ..Packet::of_size(datagram.len() as u32 + HEADER_BYTES)
        };
        if self.link.push(now, packet).is_ok() {
            self.datagrams.insert(self.next_id, datagram);
        }
        self.next_id += 1;
    }

    fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        while let Some(dropped) = self.link.take_dropped() {
            self.datagrams.remove(&dropped.packet.id);
        }
        let packet = self.link.pop(now)?;
        self.datagrams.remove(&packet.id)
    }
}

impl Wire {
    /// Builds the link of a case whose events are `shift` later.
    pub fn new(path: &Path, shift: Duration, seed: Seed) -> Self {
        fn way(config: &LinkConfig, name: &str, seed: Seed) -> Way {
            Way {
                link: config.build(seed.derive(name)).expect("a valid link"),
                datagrams: BTreeMap::new(),
                next_id: 0,
            }
        }

        fn at(millis: u64, shift: Duration) -> Instant {
            Instant::from_millis(millis) + shift
        }
        let span = Duration::from_millis;
        let rate = DataRate::from_kilobits_per_second;
        let pauses = (0..25_u64).filter(|_| path.pauses).flat_map(|second| {
            let begin = 1_000 * second + 300;
            [(begin, path.delay + 120), (begin + 120, path.delay)]
        });
        let delays = path.delays.iter().copied().chain(pauses);
        let there = LinkConfig {
            rate: Some(rate(path.rate)),
            rate_schedule: path
                .rates
                .iter()
                .map(|&(time, kbps)| (at(time, shift), rate(kbps)))
                .collect(),
            delay: span(path.delay),
            delay_schedule: delays
                .map(|(time, delay)| (at(time, shift), span(delay)))
                .collect(),
            queue: QueueLimit::Time(span(300)),
            loss: match path.loss {
                0.0 => LossModel::None,
                probability => LossModel::Bernoulli { probability },
            },
            outages: path
                .outages
                .iter()
                .map(|&(time, length)| (at(time, shift), span(length)))
                .collect(),
            jitter: Some(JitterModel {
                amount: JitterAmount::Uniform(span(path.jitter.max(LEAST_JITTER))),
                order: JitterOrder::Bunched,
            }),
            ..LinkConfig::default()
        };
        let back = LinkConfig {
            delay_schedule: Vec::new(),
            rate_schedule: Vec::new(),
            ..there.clone()
        };
        Wire {
            there: way(&there, "there", seed),
            back: way(&back, "back", seed),
        }
    }

    pub fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        self.there.push(now, datagram);
    }

    pub fn answer(&mut self, now: Instant, datagram: Vec<u8>) {
        self.back.push(now, datagram);
    }

    /// Returns the next datagram at the receiver.
    pub fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.there.pop(now)
    }

    /// Returns the next datagram at the sender.
    pub fn answered(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.back.pop(now)
    }
}
