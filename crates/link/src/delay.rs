//! Propagation: every packet leaves a while after it entered, any number of them at a time.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::element::{Dropped, Element};
use crate::packet::Packet;
use crate::schedule::Schedule;

/// A propagation delay, which may change at known instants. A packet takes the delay that holds
/// when it enters; when the delay shrinks, packets leave no earlier than those before them, so that
/// none is overtaken.
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Schedule<Duration>,
    in_flight: VecDeque<(Instant, Packet)>,
    last_release_at: Instant,
}

impl Delay {
    /// A line without packets in flight.
    pub fn new(delay: Schedule<Duration>) -> Self {
        Delay {
            delay,
            in_flight: VecDeque::new(),
            last_release_at: Instant::ZERO,
        }
    }
}

impl Element for Delay {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let release_at = (now + self.delay.advance(now)).max(self.last_release_at);
        self.last_release_at = release_at;
        self.in_flight.push_back((release_at, packet));
        Ok(())
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.next_at().filter(|release_at| *release_at <= now)?;
        self.in_flight.pop_front().map(|(_, packet)| packet)
    }

    fn next_at(&self) -> Option<Instant> {
        self.in_flight.front().map(|(release_at, _)| *release_at)
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        lost.extend(self.in_flight.drain(..).map(|(_, packet)| packet));
        // Nothing is left to be overtaken.
        self.last_release_at = now;
    }

    fn held_packets(&self) -> usize {
        self.in_flight.len()
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        // A packet that enters later may find a shorter delay and leave earlier.
        let exit_at = entry + self.delay.value_at(entry);
        let changes = self
            .delay
            .upcoming()
            .iter()
            .skip_while(|(at, _)| *at <= entry);
        let changes = changes.take_while(|(at, _)| *at < exit_at);
        let earliest = changes.fold(exit_at, |earliest, &(at, delay)| earliest.min(at + delay));
        earliest.max(self.last_release_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped_at(delay: &mut Delay) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        while let Some(at) = delay.next_at() {
            assert!(
                delay
                    .pop(at.saturating_sub(Duration::from_nanos(1)))
                    .is_none()
            );
            out.push((at.as_micros() / 1_000, delay.pop(at).expect("due").id));
        }
        out
    }

    #[test]
    fn a_shrinking_delay_lets_no_packet_overtake() {
        let ms = Duration::from_millis;
        let changes = vec![(Instant::from_millis(10), ms(20))];
        let mut delay = Delay::new(Schedule::new(ms(50), changes));
        for (id, at) in [(0, 0), (1, 9), (2, 10), (3, 45)] {
            let packet = Packet {
                id,
                ..Packet::of_size(100)
            };
            assert!(delay.push(Instant::from_millis(at), packet).is_ok());
        }
        assert_eq!(popped_at(&mut delay), [(50, 0), (59, 1), (59, 2), (65, 3)]);
    }

    #[test]
    fn the_earliest_exit_bounds_later_entries_too() {
        let ms = Duration::from_millis;
        let delay = Delay::new(Schedule::new(
            ms(50),
            vec![(Instant::from_millis(10), ms(20))],
        ));
        assert_eq!(delay.earliest_exit(Instant::ZERO), Instant::from_millis(30));
        assert_eq!(
            delay.earliest_exit(Instant::from_millis(40)),
            Instant::from_millis(60)
        );
    }
}
