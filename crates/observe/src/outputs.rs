//! Outputs whose protocol measures its connections, sampled beside the streams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_units::{Duration, Instant};

use super::meter::{RateMeter, Series};
use super::status::{Connection, ConnectionCounters, Output};

/// State of an output at one time.
#[derive(Clone, Debug)]
pub struct OutputSnapshot {
    /// Address without parameters.
    pub name: String,
    /// Name of the stream that it gets.
    pub stream: String,
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Whether this end calls; otherwise it listens.
    pub calls: bool,
    /// Number of connections so far.
    pub connection_count: u64,
    /// Present connections.
    pub connections: Vec<ConnectionSnapshot>,
}

/// State of a connection at one time.
#[derive(Clone, Debug)]
pub struct ConnectionSnapshot {
    /// Number among all connections of the output.
    pub number: u64,
    /// Address of the receiver.
    pub peer: SocketAddr,
    /// Stream ID that the caller gave.
    pub stream_id: Option<String>,
    /// Word for its state.
    pub state: &'static str,
    /// Start of the connection.
    pub began_at: Instant,
    /// Time of the receiver's last packet.
    pub heard_at: Instant,
    /// Delay that both ends agreed on.
    pub latency: Duration,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Packets reported missing / packets sent.
    pub loss_ratio: f64,
    /// Counters since the connection began.
    pub counters: ConnectionCounters,
}

/// Returns the state of an output.
type ReadOutput = Box<dyn Fn() -> OutputSnapshot + Send>;

/// The program's outputs.
#[derive(Default)]
pub(super) struct Outputs(Mutex<Vec<ObservedOutput>>);

struct ObservedOutput {
    read: ReadOutput,
    last: Option<(Instant, OutputSnapshot)>,
    meters: BTreeMap<u64, Meters>,
}

/// Values of a connection in the interval.
#[derive(Debug, Default)]
struct Meters {
    sent: RateMeter,
    rtt: Series,
}

impl Outputs {
    fn lock(&self) -> MutexGuard<'_, Vec<ObservedOutput>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an output to those that are sampled.
    pub(super) fn add(&self, read: ReadOutput) {
        self.lock().push(ObservedOutput {
            read,
            last: None,
            meters: BTreeMap::new(),
        });
    }

    /// Takes a sample of all outputs.
    pub(super) fn sample(&self, now: Instant) {
        for output in self.lock().iter_mut() {
            output.sample(now);
        }
    }

    /// Ends the interval and returns its status.
    pub(super) fn state(&self) -> Vec<Output> {
        let mut outputs = self.lock();
        let numbered = outputs.iter_mut().enumerate();
        numbered
            .filter_map(|(index, output)| output.state(index))
            .collect()
    }
}

impl ObservedOutput {
    fn sample(&mut self, now: Instant) {
        let snapshot = (self.read)();
        let is_present =
            |number: &u64| snapshot.connections.iter().any(|its| its.number == *number);
        self.meters.retain(|number, _| is_present(number));
        let last_at = self.last.as_ref().map(|(at, _)| *at);
        for connection in &snapshot.connections {
            let meters = self.meters.entry(connection.number).or_default();
            // A new connection has sent its bytes since it began.
            let since = last_at
                .unwrap_or(connection.began_at)
                .max(connection.began_at);
            let counters = &connection.counters;
            let bytes = counters.sent_bytes + counters.retransmitted_bytes;
            meters
                .sent
                .see(bytes, now.saturating_since(since).as_secs_f64());
            let rtt = connection.rtt.map(Duration::as_secs_f64);
            if let Some(rtt_s) = rtt {
                meters.rtt.add(rtt_s);
            }
        }
        self.last = Some((now, snapshot));
    }

    fn state(&mut self, index: usize) -> Option<Output> {
        let (now, snapshot) = self.last.as_ref()?;
        let connections = snapshot.connections.iter().map(|connection| {
            let meters = self.meters.entry(connection.number).or_default();
            state(*now, connection, meters)
        });
        Some(Output {
            output: index,
            name: snapshot.name.clone(),
            stream: snapshot.stream.clone(),
            protocol: snapshot.protocol.to_owned(),
            mode: if snapshot.calls { "caller" } else { "listener" }.to_owned(),
            connection_count: snapshot.connection_count,
            connections: connections.collect(),
        })
    }
}

fn state(now: Instant, snapshot: &ConnectionSnapshot, meters: &mut Meters) -> Connection {
    Connection {
        connection: snapshot.number,
        peer: snapshot.peer.to_string(),
        stream_id: snapshot.stream_id.clone(),
        state: snapshot.state.to_owned(),
        connected_s: now.saturating_since(snapshot.began_at).as_secs_f64(),
        silent_s: now.saturating_since(snapshot.heard_at).as_secs_f64(),
        latency_s: snapshot.latency.as_secs_f64(),
        sent_rate_bps: meters.sent.take(),
        rtt_s: meters.rtt.take(),
        loss_ratio: snapshot.loss_ratio,
        counters: snapshot.counters,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::noalbs::with_publishers;
    use crate::status::{Spread, Status, Stream, StreamCounters};

    fn with(connections: Vec<ConnectionSnapshot>) -> OutputSnapshot {
        OutputSnapshot {
            name: "srt://:9001".to_owned(),
            stream: "front".to_owned(),
            protocol: "srt",
            calls: false,
            connection_count: 7,
            connections,
        }
    }

    fn connection(number: u64, sent_bytes: u64) -> ConnectionSnapshot {
        ConnectionSnapshot {
            number,
            peer: ([192, 0, 2, 1], 5_000).into(),
            stream_id: Some("front".to_owned()),
            state: "active",
            began_at: Instant::from_secs(10),
            heard_at: Instant::from_millis(11_900),
            latency: Duration::from_millis(120),
            rtt: Some(Duration::from_millis(20 * number)),
            loss_ratio: 0.02,
            counters: ConnectionCounters {
                sent_bytes,
                retransmitted_bytes: sent_bytes / 10,
                ..ConnectionCounters::default()
            },
        }
    }

    #[test]
    fn rates_are_those_of_the_interval_and_of_each_connection() {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (outputs, its) = (Outputs::default(), Arc::clone(&shown));
        outputs.add(Box::new(move || with(its.lock().unwrap().clone())));
        assert!(outputs.state().is_empty(), "nothing was sampled");
        *shown.lock().unwrap() = vec![connection(1, 100_000)];
        outputs.sample(Instant::from_millis(11_000));
        let first = &outputs.state()[0];
        assert_eq!(first.connections[0].sent_rate_bps.avg, 880_000.0);
        *shown.lock().unwrap() = vec![connection(1, 100_000), connection(2, 0)];
        outputs.sample(Instant::from_millis(11_500));
        *shown.lock().unwrap() = vec![connection(1, 200_000), connection(2, 0)];
        outputs.sample(Instant::from_millis(12_000));
        let second = &outputs.state()[0];
        let [one, other] = &second.connections[..] else {
            panic!("{second:?}")
        };
        assert_eq!(one.sent_rate_bps.max, 1_760_000.0);
        assert_eq!(one.sent_rate_bps.avg, 880_000.0);
        assert_eq!(other.sent_rate_bps, Spread::default());
        assert_eq!(other.rtt_s.unwrap().avg, 0.04);
        assert_eq!((one.connected_s, one.silent_s), (2.0, 0.1));
        assert_eq!((&*second.mode, second.connection_count), ("listener", 7));
        // A connection that has gone leaves nothing behind.
        shown.lock().unwrap().clear();
        outputs.sample(Instant::from_millis(13_000));
        assert!(outputs.state()[0].connections.is_empty());
        assert!(outputs.lock()[0].meters.is_empty());
    }

    /// Readers of streams and totals see the same with and without an output.
    #[test]
    fn an_output_is_not_taken_for_a_stream() {
        let front = Stream {
            name: "front".to_owned(),
            connected: true,
            delivered_rate_bps: Spread {
                avg: 2e6,
                ..Spread::default()
            },
            counters: StreamCounters {
                delivered_bytes: 1_000,
                ..StreamCounters::default()
            },
            ..Stream::default()
        };
        let without = Status {
            streams: vec![front],
            ..Status::default()
        };
        let outputs = Outputs::default();
        outputs.add(Box::new(|| with(vec![connection(1, 900_000)])));
        outputs.sample(Instant::from_secs(11));
        let with = Status {
            outputs: outputs.state(),
            ..without.clone()
        };
        assert!(with.outputs[0].connections[0].sent_rate_bps.avg > 7e6);
        assert_eq!(with.line(), without.line());
        let [mut with, without] = [&with, &without].map(|status| with_publishers(status, None));
        assert_eq!(with["publisher"]["bitrate"], 2_000);
        assert!(with.as_object_mut().unwrap().remove("outputs").is_some());
        assert_eq!(with, without);
    }
}
