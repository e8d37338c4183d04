//! The queue before a bottleneck, and its limit.

use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;

use anabranch_units::{ByteCount, DataRate, Duration, Instant};

use crate::packet::Packet;

/// How much a queue holds, the packet in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many bytes on the wire.
    Bytes(u64),
    /// As many bytes as the link's rate before any change carries in this time: a real buffer does
    /// not grow and shrink with the rate.
    Time(Duration),
    /// So many packets of any size.
    Packets(usize),
    /// Everything.
    #[default]
    Unlimited,
}

impl QueueLimit {
    /// The limits in bytes and in packets, before a link of `rate`.
    fn resolve(self, rate: DataRate) -> (u64, usize) {
        match self {
            QueueLimit::Bytes(bytes) => (bytes, usize::MAX),
            QueueLimit::Time(span) => (rate.bytes_in(span), usize::MAX),
            QueueLimit::Packets(count) => (u64::MAX, count),
            QueueLimit::Unlimited => (u64::MAX, usize::MAX),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueLimit::Bytes(bytes) => ByteCount(bytes).fmt(f),
            QueueLimit::Time(span) => span.fmt(f),
            QueueLimit::Packets(count) => write!(f, "{count} packets"),
            QueueLimit::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// A text that is no queue limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQueueLimitError {
    text: String,
}

impl fmt::Display for ParseQueueLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a queue limit: write a time as in \"300 ms\", an amount as in \"64 kB\", \
             \"50 packets\" or \"unlimited\"",
            self.text
        )
    }
}

impl core::error::Error for ParseQueueLimitError {}

impl FromStr for QueueLimit {
    type Err = ParseQueueLimitError;
    fn from_str(text: &str) -> Result<Self, ParseQueueLimitError> {
        let trimmed = text.trim();
        if trimmed == "unlimited" {
            return Ok(QueueLimit::Unlimited);
        }
        if let Some(count) = trimmed.strip_suffix("packets")
            && let Ok(count) = count.trim().parse()
        {
            return Ok(QueueLimit::Packets(count));
        }
        let as_time = trimmed.parse().map(QueueLimit::Time);
        let as_bytes = || {
            trimmed
                .parse()
                .map(|ByteCount(bytes)| QueueLimit::Bytes(bytes))
        };
        as_time
            .or_else(|_| as_bytes())
            .map_err(|_| ParseQueueLimitError {
                text: text.to_owned(),
            })
    }
}

/// First in, first out; what does not fit on arrival is refused.
#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    packets: VecDeque<Packet>,
    bytes: u64,
    max_bytes: u64,
    max_packets: usize,
}

impl DropTail {
    pub(crate) fn new(limit: QueueLimit, rate: DataRate) -> Self {
        let (max_bytes, max_packets) = limit.resolve(rate);
        DropTail {
            packets: VecDeque::new(),
            bytes: 0,
            max_bytes,
            max_packets,
        }
    }

    /// Takes the packet, unless it with all that waits and with what is in service exceeds a limit.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        mut packet: Packet,
        in_service: Option<&Packet>,
    ) -> Result<(), Packet> {
        let (service_bytes, service_packets) =
            in_service.map_or((0, 0), |packet| (u64::from(packet.size_bytes), 1));
        let size = u64::from(packet.size_bytes);
        let fits = self.bytes + service_bytes + size <= self.max_bytes
            && self.packets.len() + service_packets < self.max_packets;
        if !fits {
            return Err(packet);
        }
        packet.entered_at = now;
        self.bytes += size;
        self.packets.push_back(packet);
        Ok(())
    }

    pub(crate) fn dequeue(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size_bytes);
        Some(packet)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_and_write_as_people_do() {
        for (text, limit) in [
            ("300 ms", QueueLimit::Time(Duration::from_millis(300))),
            ("64 kB", QueueLimit::Bytes(64_000)),
            ("50 packets", QueueLimit::Packets(50)),
            ("unlimited", QueueLimit::Unlimited),
        ] {
            assert_eq!(text.parse(), Ok(limit));
            assert_eq!(limit.to_string(), text);
        }
        let error = "much".parse::<QueueLimit>().unwrap_err().to_string();
        assert!(
            error.contains("300 ms") && error.contains("much"),
            "{error}"
        );
    }

    #[test]
    fn a_limit_in_time_is_the_rate_times_the_time() {
        let limit = QueueLimit::Time(Duration::from_millis(300));
        assert_eq!(
            limit.resolve(DataRate::from_megabits_per_second(3)).0,
            112_500
        );
    }
}
