//! Bandwidth probing: short clusters of packets at a multiple of the rate (WebRTC's probe
//! controller, bitrate prober and probe bitrate estimator).

use anabranch_core::recovery::{AckedPacket, SentPacket};
use anabranch_units::{Duration, Instant};

/// Multiples of the rate of the clusters at the start, and after each success.
const FIRST_MULTIPLES: [f64; 2] = [3.0, 6.0];
const NEXT_MULTIPLE: f64 = 2.0;
/// Share of its rate that a cluster must find before another one follows.
const SUCCESS_SHARE: f64 = 0.7;
/// Least packets of a cluster, and least duration at its rate.
const MIN_PACKETS: u32 = 5;
const MIN_SPAN: Duration = Duration::from_millis(15);
/// Slack beyond twice its time after which a cluster is given up, since the source does not fill
/// it.
const SLACK: Duration = Duration::from_millis(50);
/// Time after which a result is given up.
const RESULT_TIMEOUT: Duration = Duration::from_secs(1);
/// Share of packets and bytes that must arrive.
const MIN_ARRIVED: f64 = 0.8;
/// Largest ratio of the received rate to the send rate in a measurement.
const MAX_COMPRESSION: f64 = 2.0;
/// Factors for a full path: if less than the second share of the send rate arrives, the path is
/// full, and the first share of the received rate is used.
const FULL_PATH_SHARE: f64 = 0.95;
const FULL_PATH_BELOW: f64 = 0.9;

#[derive(Clone, Copy, Debug)]
struct Cluster {
    rate: f64,
    first_packet_number: u64,
    began_at: Instant,
    sent_count: u32,
    sent_bytes: u64,
    is_complete: bool,
    /// Arrived packets and bytes, with the send and arrival times of the first and the last of
    /// them.
    arrived_count: u32,
    arrived_bytes: u64,
    sent: Option<Edges>,
    received: Option<Edges>,
}

#[derive(Clone, Copy, Debug)]
struct Edges {
    first_at: Instant,
    last_at: Instant,
    first_bytes: u64,
    last_bytes: u64,
}

impl Edges {
    fn widened(edges: Option<Edges>, at: Instant, bytes: u64) -> Option<Edges> {
        let mut edges = edges.unwrap_or(Edges {
            first_at: at,
            last_at: at,
            first_bytes: bytes,
            last_bytes: bytes,
        });
        if at < edges.first_at {
            (edges.first_at, edges.first_bytes) = (at, bytes);
        }
        if at >= edges.last_at {
            (edges.last_at, edges.last_bytes) = (at, bytes);
        }
        Some(edges)
    }

    fn seconds(&self) -> f64 {
        self.last_at.saturating_since(self.first_at).as_secs_f64()
    }
}

impl Cluster {
    fn on_sent(&mut self, packet: &SentPacket) {
        self.sent_count += 1;
        self.sent_bytes += u64::from(packet.bytes);
        let min_bytes = self.rate / 8.0 * MIN_SPAN.as_secs_f64();
        self.is_complete = self.sent_count >= MIN_PACKETS && self.sent_bytes as f64 >= min_bytes;
    }

    fn has(&self, packet_number: u64) -> bool {
        (self.first_packet_number..self.first_packet_number + u64::from(self.sent_count))
            .contains(&packet_number)
    }

    fn on_acked(&mut self, acked: &AckedPacket) {
        let Some(received_at) = acked.received_at else {
            return;
        };
        let bytes = u64::from(acked.sent.bytes);
        self.arrived_count += 1;
        self.arrived_bytes += bytes;
        self.sent = Edges::widened(self.sent, acked.sent.sent_at, bytes);
        self.received = Edges::widened(self.received, received_at, bytes);
    }

    /// Returns the rate that the cluster found, once enough of it has arrived.
    fn result(&self) -> Option<f64> {
        let is_enough = f64::from(self.arrived_count) >= MIN_ARRIVED * f64::from(self.sent_count)
            && self.arrived_bytes as f64 >= MIN_ARRIVED * self.sent_bytes as f64;
        if !self.is_complete || !is_enough {
            return None;
        }
        let (sent, received) = (self.sent?, self.received?);
        if sent.seconds() <= 0.0 || received.seconds() <= 0.0 {
            return None;
        }
        let send_rate = (self.arrived_bytes - sent.last_bytes) as f64 * 8.0 / sent.seconds();
        let receive_rate =
            (self.arrived_bytes - received.first_bytes) as f64 * 8.0 / received.seconds();
        if receive_rate > MAX_COMPRESSION * send_rate {
            return None;
        }
        Some(if receive_rate < FULL_PATH_BELOW * send_rate {
            FULL_PATH_SHARE * receive_rate
        } else {
            receive_rate.min(send_rate)
        })
    }
}

/// Sends clusters and reads their results.
#[derive(Clone, Debug)]
pub(super) struct Prober {
    is_on: bool,
    max_rate: f64,
    /// Rates of clusters that have not begun, the next one first.
    waiting: [Option<f64>; 2],
    /// Cluster that is being sent.
    leaving: Option<Cluster>,
    /// Clusters that have been sent completely.
    left: [Option<Cluster>; 2],
}

impl Prober {
    pub(super) fn new(is_on: bool, rate: f64, max_rate: f64) -> Self {
        let mut prober = Prober {
            is_on,
            max_rate,
            waiting: [None; 2],
            leaving: None,
            left: [None; 2],
        };
        prober.restart(rate);
        prober
    }

    /// Starts again, from this rate.
    pub(super) fn restart(&mut self, rate: f64) {
        self.stop();
        if self.is_on {
            let max_rate = self.max_rate;
            self.waiting = FIRST_MULTIPLES.map(|multiple| Some((rate * multiple).min(max_rate)));
        }
    }

    /// Stops sending clusters and forgets those in flight.
    pub(super) fn stop(&mut self) {
        (self.waiting, self.leaving, self.left) = ([None; 2], None, [None; 2]);
    }

    /// Returns the send rate while a cluster is due.
    pub(super) fn rate(&self) -> Option<f64> {
        match &self.leaving {
            Some(cluster) => Some(cluster.rate),
            None => self.waiting[0],
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if self.leaving.as_ref().is_some_and(|cluster| {
            let span = Duration::from_secs_f64(cluster.sent_bytes as f64 * 8.0 / cluster.rate);
            now.saturating_since(cluster.began_at) > span * 2 + SLACK
        }) {
            self.leaving = None;
        }
        if self.leaving.is_none()
            && let Some(rate) = self.waiting[0]
        {
            self.waiting = [self.waiting[1], None];
            self.leaving = Some(Cluster {
                rate,
                first_packet_number: packet.packet_number,
                began_at: now,
                sent_count: 0,
                sent_bytes: 0,
                is_complete: false,
                arrived_count: 0,
                arrived_bytes: 0,
                sent: None,
                received: None,
            });
        }
        let Some(cluster) = &mut self.leaving else {
            return;
        };
        cluster.on_sent(packet);
        if cluster.is_complete {
            self.left = [self.leaving.take(), self.left[0]];
        }
    }

    pub(super) fn on_acked(&mut self, acked: &AckedPacket) {
        let clusters = self.left.iter_mut().chain([&mut self.leaving]).flatten();
        for cluster in clusters.filter(|cluster| cluster.has(acked.sent.packet_number)) {
            cluster.on_acked(acked);
        }
    }

    /// Returns the best rate that clusters have found since the last report, if any.
    pub(super) fn take_result(&mut self, now: Instant) -> Option<f64> {
        let mut best: Option<f64> = None;
        for slot in &mut self.left {
            let Some(cluster) = slot else {
                continue;
            };
            if let Some(found) = cluster.result() {
                if found >= SUCCESS_SHARE * cluster.rate && self.waiting[0].is_none() {
                    let next = (NEXT_MULTIPLE * found).min(self.max_rate);
                    self.waiting[0] = (found < self.max_rate).then_some(next);
                }
                best = Some(best.map_or(found, |best| best.max(found)));
                *slot = None;
            } else if now.saturating_since(cluster.began_at) > RESULT_TIMEOUT {
                *slot = None;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::recovery::{DeliverySnapshot, PacketContent};

    fn packet(packet_number: u64, sent_at: Instant) -> SentPacket {
        SentPacket {
            packet_number,
            sent_at,
            bytes: 1_000,
            bytes_in_flight: 1_000,
            delivery: DeliverySnapshot::default(),
            content: PacketContent::Padding,
        }
    }

    /// Sends while a cluster is due, over a path that carries `capacity`; returns the result.
    fn probe(prober: &mut Prober, from: u64, mut now: Instant, capacity: f64) -> Option<f64> {
        fn gap(rate: f64) -> Duration {
            Duration::from_secs_f64(8_000.0 / rate)
        }

        let mut arrives_at = now;
        let mut number = from;
        while let Some(rate) = prober.rate() {
            let packet = packet(number, now);
            prober.on_sent(now, &packet);
            arrives_at = (arrives_at + gap(capacity)).max(now + gap(capacity));
            prober.on_acked(&AckedPacket {
                sent: packet,
                received_at: Some(arrives_at),
                rtt: None,
                delivered_bytes: 0,
            });
            // The ack of the last packet of a cluster comes after it has left.
            now += gap(rate);
            number += 1;
        }
        prober.take_result(now)
    }

    #[test]
    fn starts_with_three_and_six_times_the_rate_and_at_least_five_packets() {
        let mut prober = Prober::new(true, 3e5, 1e9);
        let mut rates = Vec::new();
        let mut number = 0;
        while let Some(rate) = prober.rate() {
            rates.push(rate);
            prober.on_sent(Instant::ZERO, &packet(number, Instant::ZERO));
            number += 1;
        }
        assert_eq!(rates, [[0.9e6; 5], [1.8e6; 5]].concat());
    }

    #[test]
    fn next_probe_doubles_the_found_rate() {
        let mut prober = Prober::new(true, 3e5, 1e9);
        let found = probe(&mut prober, 0, Instant::ZERO, 1e8).unwrap();
        assert!((found / 1.8e6 - 1.0).abs() < 0.01, "{found}");
        assert_eq!(prober.rate(), Some(2.0 * found));
    }

    #[test]
    fn full_path_ends_probing_at_95_percent() {
        let mut prober = Prober::new(true, 3e5, 1e9);
        let found = probe(&mut prober, 0, Instant::ZERO, 0.6e6).unwrap();
        assert!((found / (0.95 * 0.6e6) - 1.0).abs() < 0.02, "{found}");
        assert_eq!(prober.rate(), None);
    }

    #[test]
    fn a_cluster_that_the_source_cannot_fill_is_given_up() {
        let mut prober = Prober::new(true, 3e5, 1e9);
        for number in 0..30 {
            let now = Instant::from_millis(200 * number);
            prober.on_sent(now, &packet(number, now));
        }
        assert_eq!(prober.rate(), None);
        assert!(prober.left.iter().all(Option::is_none));
    }

    #[test]
    fn probing_off_asks_for_nothing() {
        assert_eq!(Prober::new(false, 3e5, 1e9).rate(), None);
    }
}
