//! Queues and their limits.

use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;

use anabranch_units::{ByteCount, DataRate, Duration, Instant, ParseQuantityError};

use crate::packet::Packet;

/// Capacity of a queue, the packet in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of bytes on the wire.
    Bytes(u64),
    /// The bytes that the link's rate before any change (of a trace: its average rate) carries in
    /// this time. A real buffer does not grow and shrink with the rate.
    Time(Duration),
    /// A number of packets of any size.
    Packets(usize),
    /// No limit.
    #[default]
    Unlimited,
}

impl QueueLimit {
    /// Returns the capacity in front of a link of `rate`.
    pub(crate) fn capacity(self, rate: DataRate) -> Capacity {
        let (max_bytes, max_packets) = match self {
            QueueLimit::Bytes(bytes) => (bytes, usize::MAX),
            QueueLimit::Time(span) => (rate.bytes_in(span), usize::MAX),
            QueueLimit::Packets(count) => (u64::MAX, count),
            QueueLimit::Unlimited => (u64::MAX, usize::MAX),
        };
        Capacity {
            max_bytes,
            max_packets,
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
        fn as_bytes(trimmed: &str) -> Result<QueueLimit, ParseQuantityError> {
            trimmed
                .parse()
                .map(|ByteCount(bytes)| QueueLimit::Bytes(bytes))
        }

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
        as_time
            .or_else(|_| as_bytes(trimmed))
            .map_err(|_| ParseQueueLimitError {
                text: text.to_owned(),
            })
    }
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) bytes: u64,
    pub(crate) packets: usize,
}

impl Load {
    #[inline]
    pub(crate) fn of(packet: &Packet) -> Load {
        Load::of_bytes(packet.size_bytes)
    }

    /// Returns the load of a packet of `size_bytes`.
    #[inline]
    pub(crate) fn of_bytes(size_bytes: u32) -> Load {
        Load {
            bytes: u64::from(size_bytes),
            packets: 1,
        }
    }

    #[inline]
    pub(crate) fn plus(self, other: Load) -> Load {
        Load {
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
        }
    }

    #[inline]
    pub(crate) fn minus(self, other: Load) -> Load {
        Load {
            bytes: self.bytes - other.bytes,
            packets: self.packets - other.packets,
        }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.packets == 0
    }
}

/// A [`QueueLimit`] before a known link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    max_bytes: u64,
    max_packets: usize,
}

impl Capacity {
    #[inline]
    pub(crate) fn holds(self, load: Load) -> bool {
        load.bytes <= self.max_bytes && load.packets <= self.max_packets
    }
}

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl Fifo {
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, mut packet: Packet) {
        packet.entered_at = now;
        self.bytes += u64::from(packet.size_bytes);
        self.packets.push_back(packet);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size_bytes);
        Some(packet)
    }

    #[inline]
    pub(crate) fn load(&self) -> Load {
        Load {
            bytes: self.bytes,
            packets: self.packets.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    /// Returns the waiting time of the first packet; zero if there is none.
    pub(crate) fn head_age(&self, now: Instant) -> Duration {
        let head = self.packets.front();
        head.map_or(Duration::ZERO, |head| now.saturating_since(head.entered_at))
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
        let capacity = limit.capacity(DataRate::from_megabits_per_second(3));
        assert_eq!(capacity.max_bytes, 112_500);
    }
}
