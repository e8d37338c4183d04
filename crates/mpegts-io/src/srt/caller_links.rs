//! Counters of a connection for the statistics and the last line about it.

use core::fmt;
use std::net::SocketAddr;

use anabranch_srt::{Connection, Statistics};
use anabranch_units::{Duration, Instant};

use crate::links::{Link, LinkQuality, Links};

/// Time between updates.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Period of the loss ratio.
const LOSS_PERIOD: Duration = Duration::from_secs(1);

/// Links of an input, one for its caller, and the loss of the last period.
#[derive(Debug, Default)]
pub(super) struct CallerLinks {
    links: Links,
    began_at: Instant,
    before: Statistics,
    loss_ratio: f64,
}

impl CallerLinks {
    pub(super) fn new(links: Links) -> Self {
        CallerLinks {
            links,
            ..CallerLinks::default()
        }
    }

    /// Updates the link of the connection with `peer`; `None`: nobody is connected.
    pub(super) fn update(&mut self, now: Instant, connection: Option<(SocketAddr, &Connection)>) {
        let link = connection.map(|(address, connection)| {
            let statistics = connection.statistics();
            self.on_statistics(now, statistics);
            Link {
                address,
                datagram_count: statistics.received_packets,
                bytes: statistics.received_bytes,
                heard_at: connection.heard_at(),
                is_there: true,
                quality: Some(LinkQuality {
                    rtt: statistics.rtt,
                    rtt_variation: statistics.rtt_variation,
                    loss_ratio: self.loss_ratio,
                    missing_packets: statistics.missing_packets,
                }),
            }
        });
        self.links.set(link.as_slice());
    }

    fn on_statistics(&mut self, now: Instant, current: Statistics) {
        let before = self.before;
        if current.received_packets < before.received_packets {
            // Another connection.
            (self.before, self.began_at, self.loss_ratio) = (current, now, 0.0);
        } else if now.saturating_since(self.began_at) >= LOSS_PERIOD {
            let missing = current.missing_packets - before.missing_packets;
            let recovered = current.recovered_packets - before.recovered_packets;
            let received = current.received_packets - before.received_packets;
            // Every packet of the period, by its first arrival or its gap.
            let all = (received.saturating_sub(recovered) + missing).max(1);
            self.loss_ratio = missing as f64 / all as f64;
            (self.before, self.began_at) = (current, now);
        }
    }
}

/// Summary of a connection that is over.
pub(super) struct Summary(pub(super) Statistics);

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statistics {
            rtt,
            sent_packets,
            retransmitted_packets,
            reported_lost_packets,
            send_dropped_packets,
            received_packets,
            missing_packets,
            dropped_packets,
            ..
        } = self.0;
        if sent_packets > 0 {
            write!(
                f,
                "{sent_packets} packets sent, {reported_lost_packets} reported missing, \
                 {retransmitted_packets} sent again, {send_dropped_packets} dropped"
            )?;
        }
        if received_packets > 0 || sent_packets == 0 {
            let comma = if sent_packets > 0 { ", " } else { "" };
            write!(
                f,
                "{comma}{received_packets} packets came, {missing_packets} were lost at first, "
            )?;
            write!(f, "{dropped_packets} for good")?;
        }
        if let Some(rtt) = rtt {
            write!(f, ", round trip {:.0} ms", rtt.as_millis_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_that_of_the_last_second() {
        let mut seen = CallerLinks::default();
        for (second, received_packets, missing_packets, recovered_packets, loss_ratio) in [
            (10, 100, 0, 0, 0.0),
            (11, 200, 20, 20, 0.2),
            (12, 300, 20, 20, 0.0),
            // Another connection, whose counts begin again.
            (13, 10, 5, 0, 0.0),
        ] {
            let statistics = Statistics {
                received_packets,
                missing_packets,
                recovered_packets,
                ..Statistics::default()
            };
            seen.on_statistics(Instant::from_secs(second), statistics);
            assert_eq!(seen.loss_ratio, loss_ratio, "second {second}");
        }
    }

    #[test]
    fn summary_lists_sent_and_received_packets() {
        let statistics = Statistics {
            rtt: Some(Duration::from_micros(20_400)),
            received_packets: 90,
            missing_packets: 12,
            dropped_packets: 2,
            ..Statistics::default()
        };
        let said = Summary(statistics).to_string();
        let expected = "90 packets came, 12 were lost at first, 2 for good, round trip 20 ms";
        assert_eq!(said, expected);
        let sent = Statistics {
            sent_packets: 9,
            reported_lost_packets: 2,
            retransmitted_packets: 1,
            send_dropped_packets: 3,
            ..Statistics::default()
        };
        let expected = "9 packets sent, 2 reported missing, 1 sent again, 3 dropped";
        assert_eq!(Summary(sent).to_string(), expected);
    }
}
