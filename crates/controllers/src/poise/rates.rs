//! Rates of sending and of arrival over the packets of a moment ago.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Packets that are kept, so that memory is bounded: 0.6 s of 100 Mbit/s.
const MAX_PACKETS: usize = 8_192;
/// Spans that are shorter say nothing: a frame may leave within it.
const LEAST_SPAN: Duration = Duration::from_millis(30);

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) sent_at: Instant,
    /// By the receiver's clock.
    pub(super) received_at: Instant,
    pub(super) bytes: u32,
}

/// Rates over the same packets, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) sent: f64,
    pub(super) arrived: f64,
}

/// The packets of the last reports.
#[derive(Debug, Default)]
pub(super) struct Recent {
    packets: VecDeque<Arrived>,
}

impl Recent {
    pub(super) fn push(&mut self, packet: Arrived) {
        if self.packets.len() == MAX_PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back(packet);
    }

    /// Forgets packets that were sent this long before the newest.
    pub(super) fn keep(&mut self, span: Duration) {
        let Some(newest) = self.newest() else { return };
        let from = newest.saturating_sub(span);
        while self
            .packets
            .front()
            .is_some_and(|first| first.sent_at < from)
        {
            self.packets.pop_front();
        }
    }

    /// Returns the time of sending of the newest packet.
    pub(super) fn newest(&self) -> Option<Instant> {
        self.packets.back().map(|packet| packet.sent_at)
    }

    /// Returns the rates over the packets sent from `from` on; `None` if they are too few.
    pub(super) fn rates(&self, from: Instant) -> Option<Rates> {
        fn over(span: Duration, bits: u64) -> f64 {
            bits as f64 / span.as_secs_f64()
        }

        let begin = self.packets.partition_point(|packet| packet.sent_at < from);
        let mut packets = self.packets.range(begin..);
        let first = packets.next()?;
        let bits: u64 = packets.map(|packet| 8 * u64::from(packet.bytes)).sum();
        let last = self.packets.back()?;
        let sent = last.sent_at.saturating_since(first.sent_at);
        let arrived = last.received_at.saturating_since(first.received_at);
        (sent > LEAST_SPAN && !arrived.is_zero()).then(|| Rates {
            sent: over(sent, bits),
            arrived: over(arrived, bits),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn packets_that_arrive_half_as_fast_as_they_leave() {
        let mut recent = Recent::default();
        for number in 0..100 {
            recent.push(Arrived {
                sent_at: at(10 * number),
                received_at: at(5_000 + 20 * number),
                bytes: 1_250,
            });
        }
        let rates = recent.rates(at(0));
        assert_eq!(
            rates,
            Some(Rates {
                sent: 1e6,
                arrived: 0.5e6
            })
        );
        assert_eq!(recent.rates(at(500)), rates);
        assert_eq!(recent.rates(at(960)), None, "30 ms are too short");
        recent.keep(Duration::from_millis(100));
        assert_eq!(recent.packets.len(), 11);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..20_000 {
            recent.push(Arrived {
                sent_at: at(number),
                received_at: at(number),
                bytes: 100,
            });
        }
        assert_eq!(recent.packets.len(), MAX_PACKETS);
    }
}
