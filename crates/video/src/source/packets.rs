//! A stream of packets of equal size, such as MPEG-TS from an encoder over UDP.

use anabranch_units::{DataRate, Importance, Instant};

use super::{FrameShape, FrameSource, SourceConfigError, check_rates};

/// Packets as frames of their own, spaced by their duration at the target bitrate. None is more
/// important than another, as their content is unknown.
#[derive(Clone, Debug)]
pub struct Packets {
    packet_bytes: u32,
    min_rate: DataRate,
    max_rate: DataRate,
    next_at: Instant,
}

impl Packets {
    /// Creates a source whose first packet is due at `start`.
    ///
    /// # Errors
    /// If a packet is not 1 B to 65,535 B, or the rates not `0 < min_rate <= max_rate <=
    /// 100 Gbit/s`.
    pub fn new(
        start: Instant,
        packet_bytes: u32,
        min_rate: DataRate,
        max_rate: DataRate,
    ) -> Result<Self, SourceConfigError> {
        check_rates(min_rate, max_rate)?;
        if !(1..=65_535).contains(&packet_bytes) {
            return Err(SourceConfigError::PacketBytes(packet_bytes));
        }
        Ok(Packets {
            packet_bytes,
            min_rate,
            max_rate,
            next_at: start,
        })
    }
}

impl FrameSource for Packets {
    fn next_at(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let next_at = self.next_at;
        assert!(
            now >= next_at,
            "no frame is due at {now}, the next is at {next_at}"
        );
        let rate = target.clamp(self.min_rate, self.max_rate);
        self.next_at += rate.time_for(u64::from(self.packet_bytes));
        FrameShape {
            bytes: self.packet_bytes,
            importance: Importance::Reference,
        }
    }

    fn max_rate(&self) -> Option<DataRate> {
        Some(self.max_rate)
    }

    fn is_adaptive(&self) -> bool {
        self.min_rate < self.max_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABIT: DataRate = DataRate::from_megabits_per_second(1);

    #[test]
    fn packets_are_spaced_by_their_time_at_the_target() {
        let max_rate = DataRate::from_megabits_per_second(4);
        let mut source = Packets::new(Instant::ZERO, 1_316, MEGABIT, max_rate).unwrap();
        for (target, gap_micros) in [(MEGABIT, 10_528), (DataRate::MAX, 2_632), (max_rate, 2_632)] {
            let before = source.next_at().unwrap();
            assert_eq!(source.produce(before, target).bytes, 1_316);
            let gap = source.next_at().unwrap() - before;
            assert_eq!(gap.as_micros(), gap_micros);
        }
        assert!(source.is_adaptive());
    }

    #[test]
    fn a_fixed_stream_follows_nothing() {
        let mut source = Packets::new(Instant::ZERO, 1_316, MEGABIT, MEGABIT).unwrap();
        let mut bytes = 0;
        while source.next_at().unwrap() < Instant::from_secs(10) {
            let now = source.next_at().unwrap();
            bytes += u64::from(source.produce(now, DataRate::ZERO).bytes);
        }
        assert!(bytes.abs_diff(1_250_000) <= 1_316, "{bytes}");
        assert!(!source.is_adaptive());
    }
}
