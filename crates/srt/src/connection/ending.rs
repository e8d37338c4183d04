//! The end of a connection whose last payloads should arrive.
//!
//! libsrt's receiver discards payloads that are not due yet when the shutdown arrives. So the
//! shutdown leaves only when all packets are acknowledged, and the last one is due at the peer.

use anabranch_units::{Duration, Instant};

use super::Connection;

/// Longest wait beside the peer's latency, which bounds the program's end. Chosen.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Least time between the last payload's delivery and the shutdown: the peer's program must read
/// the payload first. Chosen: ten of the 10 ms in which libsrt's threads look at their timers.
const LEAST_MARGIN: Duration = Duration::from_millis(100);

impl Connection {
    /// Ends the connection when the peer has acknowledged and delivered all payloads, or one second
    /// after the peer's latency. Until then the driver goes on as before; no payload is accepted.
    pub fn finish(&mut self, now: Instant) {
        self.finishing_since.get_or_insert(now);
        self.close_if_finished(now);
    }

    /// Returns whether [`Connection::finish`] was called.
    pub fn is_finishing(&self) -> bool {
        self.finishing_since.is_some()
    }

    /// Returns the time of the shutdown, if nothing else arrives.
    pub(super) fn finishes_at(&self) -> Option<Instant> {
        let since = self.finishing_since?;
        let latest = since + self.peer_latency + MAX_WAIT;
        if self.sending.unacknowledged() > 0 {
            return Some(latest);
        }
        let Some(origin_at) = self.sending.last_origin_at() else {
            return Some(since);
        };
        // The peer's clock began with a handshake that may have been slower than the shutdown.
        let slower = self.rtt.smoothed() + self.rtt.variation() * 4;
        let read_at = origin_at + self.peer_latency + slower.max(LEAST_MARGIN);
        Some(read_at.min(latest))
    }

    pub(super) fn close_if_finished(&mut self, now: Instant) {
        if self.closed.is_none() && self.finishes_at().is_some_and(|at| now >= at) {
            self.statistics.send_dropped_packets += self.sending.unacknowledged();
            self.close(now);
        }
    }
}
