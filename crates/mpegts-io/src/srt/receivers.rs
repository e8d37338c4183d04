//! Connections of an output for the statistics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_srt::{Connection, Statistics};
use anabranch_units::{Duration, Instant};

use super::Mode;

/// Period of the loss ratio.
const LOSS_PERIOD: Duration = Duration::from_secs(1);

/// A receiver of an SRT output: one connection.
#[derive(Clone, Debug)]
pub struct SrtReceiver {
    /// Number of the connection among all of the output, from 0.
    pub number: u64,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Stream ID that the caller has given. None if this end calls: services take it as a key.
    pub stream_id: Option<String>,
    /// Start of the connection.
    pub began_at: Instant,
    /// Time of the peer's last packet.
    pub heard_at: Instant,
    /// Whether the output has ended, and waits for acknowledgements.
    pub is_ending: bool,
    /// Delay between a packet's origin and its delivery by the peer.
    pub latency: Duration,
    /// Packets reported missing / packets sent, in the last second.
    pub loss_ratio: f64,
    /// Counters since the connection began.
    pub statistics: Statistics,
}

/// Connections of an output, shared with its thread.
#[derive(Clone, Debug)]
pub struct SrtReceivers {
    calls: bool,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of connections so far.
    count: u64,
    present: BTreeMap<u64, (SrtReceiver, LossMeter)>,
}

/// Loss of the last whole period.
#[derive(Clone, Copy, Debug)]
struct LossMeter {
    began_at: Instant,
    before: Statistics,
    ratio: f64,
}

impl SrtReceivers {
    pub(super) fn new(mode: Mode) -> Self {
        SrtReceivers {
            calls: mode == Mode::Caller,
            shared: Arc::default(),
        }
    }

    /// Returns whether this end calls; otherwise it listens.
    pub fn calls(&self) -> bool {
        self.calls
    }

    /// Returns the number of connections so far.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Returns the present connections, in the order of their numbers.
    pub fn get(&self) -> Vec<SrtReceiver> {
        let shared = self.lock();
        let present = shared.present.values();
        present.map(|(receiver, _)| receiver.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and returns its number.
    pub(super) fn add(
        &self,
        now: Instant,
        peer: SocketAddr,
        stream_id: Option<&str>,
        connection: &Connection,
    ) -> u64 {
        let mut shared = self.lock();
        let number = shared.count;
        shared.count += 1;
        let receiver = SrtReceiver {
            number,
            peer,
            stream_id: stream_id.map(str::to_owned),
            began_at: now,
            heard_at: connection.heard_at(),
            is_ending: connection.is_finishing(),
            latency: connection.peer_latency(),
            loss_ratio: 0.0,
            statistics: connection.statistics(),
        };
        let meter = LossMeter {
            began_at: now,
            before: receiver.statistics,
            ratio: 0.0,
        };
        shared.present.insert(number, (receiver, meter));
        number
    }

    pub(super) fn update(&self, now: Instant, number: u64, connection: &Connection) {
        let mut shared = self.lock();
        let Some((receiver, meter)) = shared.present.get_mut(&number) else {
            return;
        };
        let statistics = connection.statistics();
        meter.see(now, statistics);
        receiver.heard_at = connection.heard_at();
        receiver.is_ending = connection.is_finishing();
        receiver.loss_ratio = meter.ratio;
        receiver.statistics = statistics;
    }

    pub(super) fn remove(&self, number: u64) {
        self.lock().present.remove(&number);
    }
}

impl LossMeter {
    fn see(&mut self, now: Instant, current: Statistics) {
        fn packets(of: &Statistics) -> u64 {
            of.sent_packets + of.retransmitted_packets
        }

        if now.saturating_since(self.began_at) < LOSS_PERIOD {
            return;
        }
        let sent = packets(&current) - packets(&self.before);
        let lost = current.reported_lost_packets - self.before.reported_lost_packets;
        // Reports of packets that left before the period can exceed those of the period.
        self.ratio = (lost as f64 / sent.max(1) as f64).min(1.0);
        (self.began_at, self.before) = (now, current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_that_of_the_last_second_and_of_all_packets() {
        fn counts(
            sent_packets: u64,
            retransmitted_packets: u64,
            reported_lost_packets: u64,
        ) -> Statistics {
            Statistics {
                sent_packets,
                retransmitted_packets,
                reported_lost_packets,
                ..Statistics::default()
            }
        }

        let at = Instant::from_secs;
        let mut meter = LossMeter {
            began_at: at(10),
            before: counts(100, 0, 0),
            ratio: 0.0,
        };
        for (second, current, expected) in [
            (11, counts(180, 20, 25), 0.25),
            (12, counts(280, 20, 25), 0.0),
            (13, counts(280, 21, 35), 1.0),
            (14, counts(280, 21, 35), 0.0),
        ] {
            meter.see(at(second), current);
            assert_eq!(meter.ratio, expected);
        }
    }
}
