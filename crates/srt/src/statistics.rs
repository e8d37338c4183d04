//! Counters of a connection.

use anabranch_units::Duration;

/// Counters since the connection began. Bytes are those of payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Variation of the round-trip time.
    pub rtt_variation: Duration,
    /// Packets that have left for the first time.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that have left again.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Packets that the peer has reported missing, each as often as it was marked as lost.
    pub reported_lost_packets: u64,
    /// Packets that were dropped before they were acknowledged: they were too late, or had not been
    /// acknowledged when [`Connection::finish`](crate::Connection::finish) gave up.
    pub send_dropped_packets: u64,
    /// Different packets that have arrived in time.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were missing when a later one arrived.
    pub missing_packets: u64,
    /// Missing packets that have arrived in time.
    pub recovered_packets: u64,
    /// Packets that were given up, so that later ones could leave in time.
    pub dropped_packets: u64,
    /// Packets that have arrived more than once, or after they were given up.
    pub useless_packets: u64,
    /// Packets without encryption where it was agreed on, or of an unknown key.
    pub undecrypted_packets: u64,
    /// Malformed packets, and those for which there is no place.
    pub refused_packets: u64,
}
