//! The pacer: spaces packets by exact gaps.
//!
//! A gap rounded to a clock's tick distorts the measurements of rate-based controllers: a 1 ms tick
//! lowers 3 Mbit/s by up to a quarter. So the schedule is kept to the nanosecond, and a driver that
//! wakes late catches up with it.

use anabranch_units::{DataRate, Duration, Instant};

/// When the next packet may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    next_at: Instant,
    /// Size of the last packet that left.
    last_bytes: u64,
    /// Time at which the present group of packets began to leave, and the bytes for which it has
    /// room.
    group_at: Instant,
    group_room: u64,
    /// Lag that the driver may catch up now.
    max_catch_up: Duration,
}

impl Pacer {
    /// Lag that any driver may catch up; beyond it, credit is forfeited.
    const MAX_CATCH_UP: Duration = Duration::from_millis(5);
    /// Lag that a driver may catch up which knows that its machine was late. A busy machine gives a
    /// process the processor up to 100 ms late; a process that was stalled for longer does not
    /// burst.
    const MAX_LATENESS: Duration = Duration::from_millis(100);

    pub(crate) fn new(now: Instant) -> Self {
        Pacer {
            next_at: now,
            last_bytes: 0,
            group_at: now,
            group_room: 0,
            max_catch_up: Self::MAX_CATCH_UP,
        }
    }

    /// Lets the driver catch up with a lag of this length, which its machine has caused, until the
    /// next call. Returns whether that is longer than any driver's.
    pub(crate) fn set_lateness(&mut self, lateness: Duration) -> bool {
        let is_late = lateness > Self::MAX_CATCH_UP;
        self.max_catch_up = Self::MAX_CATCH_UP.max(lateness.min(Self::MAX_LATENESS));
        is_late
    }

    /// Returns when the next packet may leave, with `burst_bytes` let through ahead of the
    /// schedule.
    pub(crate) fn ready_at(&self, rate: Option<DataRate>, burst_bytes: u64) -> Instant {
        match rate {
            Some(_) if self.group_room > 0 => self.group_at,
            Some(rate) if burst_bytes > 0 => {
                self.next_at.saturating_sub(rate.time_for(burst_bytes))
            }
            Some(_) => self.next_at,
            None => Instant::ZERO,
        }
    }

    /// Restarts the schedule after a time with nothing to send, for which no credit is kept.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.next_at = self.next_at.max(now);
        self.group_room = 0;
    }

    /// Ends the group of packets that was leaving, since the window is full: later packets are no
    /// part of it.
    pub(crate) fn end_group(&mut self) {
        self.group_room = 0;
    }

    /// Shortens a wait of more than a round trip, which an old rate set before the path was known.
    /// It then ends a packet's gap at the present rate from now, if that is sooner.
    pub(crate) fn forget_old_rate(&mut self, now: Instant, rtt: Duration, rate: Option<DataRate>) {
        if let Some(rate) = rate
            && self.next_at > now + rtt
        {
            self.next_at = self.next_at.min(now + rate.time_for(self.last_bytes));
        }
    }

    /// Records a packet of `bytes` bytes that leaves. The next gap is its serialization time at
    /// `rate`, counted from the schedule rather than from the moment of the driver's call. Packets
    /// of a group of `group_bytes` leave together, and their gaps follow.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        bytes: u32,
        rate: Option<DataRate>,
        group_bytes: u64,
    ) {
        if self.group_room == 0 {
            (self.group_at, self.group_room) = (now, group_bytes);
        }
        self.group_room = self.group_room.saturating_sub(u64::from(bytes));
        self.last_bytes = u64::from(bytes);
        let scheduled_at = self.next_at.max(now.saturating_sub(self.max_catch_up));
        self.next_at = match rate {
            Some(rate) => scheduled_at + rate.time_for(u64::from(bytes)),
            None => now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Option<DataRate> = Some(DataRate::from_megabits_per_second(3));

    #[test]
    fn the_long_run_rate_is_the_pacing_rate_even_when_the_driver_is_late() {
        let mut pacer = Pacer::new(Instant::ZERO);
        let mut now = Instant::ZERO;
        for packet in 0..3_000_u64 {
            now = pacer.ready_at(RATE, 0) + Duration::from_micros(packet % 7 * 100);
            pacer.on_sent(now, 1_000, RATE, 0);
        }
        let rate = DataRate::from_bytes_per(3_000_000, now - Instant::ZERO);
        assert!(
            (rate.megabits_per_second() / 3.0 - 1.0).abs() < 0.001,
            "{rate}"
        );
    }

    #[test]
    fn full_packets_are_never_closer_than_their_gap_when_the_driver_is_exact() {
        let mut pacer = Pacer::new(Instant::ZERO);
        pacer.on_sent(Instant::ZERO, 1_000, RATE, 0);
        assert_eq!(pacer.ready_at(RATE, 0), Instant::from_nanos(2_666_667));
    }

    #[test]
    fn packets_of_a_group_leave_together_and_their_gaps_follow() {
        let mut pacer = Pacer::new(Instant::ZERO);
        let mut left_at = Vec::new();
        for packet in 0..6 {
            let now = pacer.ready_at(RATE, 0);
            left_at.push(now.as_micros());
            pacer.on_sent(now, 1_000, RATE, 2_000);
            if packet == 4 {
                pacer.end_group();
            }
        }
        assert_eq!(left_at, [0, 0, 5_333, 5_333, 10_666, 13_333]);
    }

    #[test]
    fn a_wait_of_more_than_a_round_trip_ends_when_the_rate_has_grown() {
        let (now, rtt) = (Instant::from_millis(100), Duration::from_millis(50));
        let slow = Some(DataRate::from_bits_per_second(8_000));
        let mut pacer = Pacer::new(Instant::ZERO);
        pacer.on_sent(Instant::ZERO, 1_000, slow, 0);
        pacer.forget_old_rate(now, rtt, slow);
        assert_eq!(pacer.ready_at(slow, 0), Instant::from_secs(1));
        pacer.forget_old_rate(now, Duration::from_secs(1), RATE);
        assert_eq!(pacer.ready_at(RATE, 0), Instant::from_secs(1));
        pacer.forget_old_rate(now, rtt, RATE);
        let gap = Duration::from_nanos(2_666_667);
        assert_eq!(pacer.ready_at(RATE, 0), now + gap);
    }

    #[test]
    fn idle_time_earns_no_credit_and_a_burst_is_bounded() {
        let mut pacer = Pacer::new(Instant::ZERO);
        let now = Instant::from_secs(1);
        let rate = Some(DataRate::from_megabits_per_second(8));
        pacer.restart(now);
        let mut count = 0;
        while pacer.ready_at(rate, 4_000) <= now {
            pacer.on_sent(now, 1_000, rate, 0);
            count += 1;
        }
        assert_eq!(count, 5);
    }

    /// Wakes 50 ms late each time: 5 ms are caught up unless the machine is to blame.
    #[test]
    fn lateness_of_the_machine_is_caught_up() {
        for (lateness, expected) in [(0, 0.24), (50, 2.9)] {
            let mut pacer = Pacer::new(Instant::ZERO);
            pacer.set_lateness(Duration::from_millis(lateness));
            let (mut now, mut bytes) = (Instant::ZERO, 0);
            while now < Instant::from_secs(10) {
                now = pacer.ready_at(RATE, 0).max(now) + Duration::from_millis(50);
                while pacer.ready_at(RATE, 0) <= now {
                    pacer.on_sent(now, 1_000, RATE, 0);
                    bytes += 1_000;
                }
            }
            let rate = DataRate::from_bytes_per(bytes, now - Instant::ZERO).megabits_per_second();
            assert!(
                (expected..expected + 0.4).contains(&rate),
                "{lateness}: {rate}"
            );
        }
    }
}
