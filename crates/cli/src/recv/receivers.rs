//! Receivers of SRT outputs for the statistics.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_mpegts_io::{SrtReceiver, SrtReceivers};
use anabranch_net::Clock;
use anabranch_observe::status::ConnectionCounters;
use anabranch_observe::{ConnectionSnapshot, OutputSnapshot};
use anabranch_units::Instant;

use super::stream_counters::SUSPECT_AFTER;

/// Returns a function that takes samples of an output, which it does not keep open.
pub(super) fn sampler(
    name: String,
    stream: Arc<Mutex<String>>,
    receivers: SrtReceivers,
    clock: Clock,
) -> impl Fn() -> OutputSnapshot + Send + 'static {
    move || {
        let now = clock.now();
        let connections = receivers.get().into_iter();
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        OutputSnapshot {
            name: name.clone(),
            stream: stream.clone(),
            protocol: "srt",
            calls: receivers.calls(),
            connection_count: receivers.count(),
            connections: connections.map(|its| connection(its, now)).collect(),
        }
    }
}

fn connection(receiver: SrtReceiver, now: Instant) -> ConnectionSnapshot {
    let counted = receiver.statistics;
    let state = if receiver.is_ending {
        "ending"
    } else if now.saturating_since(receiver.heard_at) < SUSPECT_AFTER {
        "active"
    } else {
        "suspect"
    };
    ConnectionSnapshot {
        number: receiver.number,
        peer: receiver.peer,
        stream_id: receiver.stream_id,
        state,
        began_at: receiver.began_at,
        heard_at: receiver.heard_at,
        latency: receiver.latency,
        rtt: counted.rtt,
        loss_ratio: receiver.loss_ratio,
        counters: ConnectionCounters {
            sent_packets: counted.sent_packets,
            sent_bytes: counted.sent_bytes,
            retransmitted_packets: counted.retransmitted_packets,
            retransmitted_bytes: counted.retransmitted_bytes,
            lost_packets: counted.reported_lost_packets,
            dropped_packets: counted.send_dropped_packets,
        },
    }
}
