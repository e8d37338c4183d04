//! Propagation: every packet leaves a while after it entered, any number of them at a time.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::detour::{Detour, DetourModel};
use crate::element::{Dropped, Element};
use crate::forecast::{Departure, Forecast};
use crate::jitter::{Jitter, JitterModel};
use crate::moves::{Moved, take_move};
use crate::packet::Packet;
use crate::schedule::Schedule;

/// A propagation delay, which may change at known instants and vary at random. A packet takes the
/// delay at its entry. When the delay shrinks, packets leave no earlier than those before them. A
/// packet only overtakes another if the line lets packets overtake, the jitter may reorder, or the
/// other takes a detour.
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Schedule<Duration>,
    jitter: Option<Jitter>,
    /// Boxed, since few links have one.
    detour: Option<Box<Detour>>,
    /// Whether a packet may leave before those that entered when the delay was longer.
    is_overtaking: bool,
    /// Packets in the order of release.
    in_flight: VecDeque<(Instant, Packet)>,
    last_release_at: Instant,
}

impl Delay {
    /// Creates a line without packets in flight.
    pub fn new(delay: Schedule<Duration>) -> Self {
        Delay {
            delay,
            jitter: None,
            detour: None,
            is_overtaking: false,
            in_flight: VecDeque::new(),
            last_release_at: Instant::ZERO,
        }
    }

    /// Creates a line whose delay varies by `model`, at random from `seed`. `rate` gives packets'
    /// serialisation times, below which jitter without reordering does not bring them together.
    pub fn with_jitter(
        delay: Schedule<Duration>,
        model: JitterModel,
        rate: Schedule<DataRate>,
        seed: Seed,
    ) -> Self {
        Delay {
            jitter: Some(Jitter::new(model, rate, seed)),
            ..Delay::new(delay)
        }
    }

    /// Returns the same line, on which random packets, from `seed`, take a detour.
    pub fn with_detour(self, model: DetourModel, seed: Seed) -> Self {
        Delay {
            detour: Some(Box::new(Detour::new(model, seed))),
            ..self
        }
    }

    /// The same line, on which each packet takes the delay that held when it entered, whatever the
    /// packets before it take: as netem delays packets without a rate.
    #[must_use]
    pub fn overtaking(self) -> Self {
        Delay {
            is_overtaking: true,
            ..self
        }
    }

    /// Returns the earliest release of a packet that enters now, by those before it.
    fn floor(&self) -> Instant {
        if self.is_overtaking {
            Instant::ZERO
        } else {
            self.last_release_at
        }
    }
}

impl Delay {
    /// Sets the delay of packets that enter from now on.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.delay = Schedule::constant(delay);
    }

    /// Sets the rate of the link before it, for jitter that keeps packets apart.
    pub(crate) fn set_rate(&mut self, rate: DataRate) {
        if let Some(jitter) = &mut self.jitter {
            jitter.set_rate(rate);
        }
    }

    /// Returns the longest time by which a packet may leave before the end of the delay.
    pub(crate) fn max_advance(&self) -> Duration {
        let jitter = self.jitter.as_ref();
        jitter.map_or(Duration::ZERO, Jitter::max_advance)
    }

    /// Moves packets that enter earlier or later than they were announced at `now`.
    pub(crate) fn move_entries(&mut self, now: Instant, moves: &mut [Moved]) {
        for (release_at, packet) in self.in_flight.iter_mut().rev() {
            if let Some(moved) = take_move(moves, packet.entered_at, packet.size_bytes) {
                *release_at = moved.after + release_at.saturating_since(moved.before);
            }
        }
        self.in_flight
            .make_contiguous()
            .sort_by_key(|(release_at, _)| *release_at);
        let last_at = self.in_flight.back().map_or(now, |(at, _)| *at);
        self.last_release_at = last_at;
        if let Some(jitter) = &mut self.jitter {
            jitter.set_next_release_at(last_at);
        }
    }

    /// Returns the effect on new packets, and appends the departures of the packets in flight.
    pub(crate) fn forecast(&self, inside: &mut Vec<Departure>) -> Forecast {
        inside.extend(self.in_flight.iter().map(|(at, packet)| Departure {
            id: packet.id,
            size_bytes: packet.size_bytes,
            at: *at,
        }));
        Forecast {
            transmitter: None,
            capacity: None,
            queued: VecDeque::new(),
            free_at: Instant::ZERO,
            delay: self.delay.clone(),
            is_overtaking: self.is_overtaking,
            last_release_at: self.last_release_at,
        }
    }
}

impl Element for Delay {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let delay = self.delay.value_at(now);
        let mut release_at = match &mut self.jitter {
            Some(jitter) => jitter.release_at(now, delay, packet.size_bytes),
            None => {
                self.last_release_at = (now + delay).max(self.floor());
                self.last_release_at
            }
        };
        match &mut self.detour {
            Some(detour) => release_at += detour.next_delay(),
            None if self.jitter.is_none() && !self.is_overtaking => {
                self.in_flight.push_back((release_at, packet));
                return Ok(());
            }
            None => {}
        }
        let place = self.in_flight.partition_point(|(at, _)| *at <= release_at);
        self.in_flight.insert(place, (release_at, packet));
        Ok(())
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.next_at().filter(|release_at| *release_at <= now)?;
        self.in_flight.pop_front().map(|(_, packet)| packet)
    }

    fn pop_before(&mut self, _now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        self.next_at().filter(|release_at| *release_at < before)?;
        self.in_flight.pop_front()
    }

    fn next_at(&self) -> Option<Instant> {
        self.in_flight.front().map(|(release_at, _)| *release_at)
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        lost.extend(self.in_flight.drain(..).map(|(_, packet)| packet));
        // No packet is left to be overtaken.
        self.last_release_at = now;
        if let Some(jitter) = &mut self.jitter {
            jitter.forget(now);
        }
    }

    fn held_packets(&self) -> usize {
        self.in_flight.len()
    }

    fn min_delay(&self) -> Duration {
        let jitter = self.jitter.as_ref();
        let advance = jitter.map_or(Duration::ZERO, Jitter::max_advance);
        let (first, changes) = self.delay.from(Instant::ZERO);
        let delays = changes.iter().map(|(_, delay)| *delay);
        let least = delays.fold(first, Duration::min);
        least.saturating_sub(advance)
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        fn exit_at(entry: Instant, delay: Duration, advance: Duration) -> Instant {
            entry + delay.saturating_sub(advance)
        }

        let (advance, floor) = match &self.jitter {
            Some(jitter) => (jitter.max_advance(), jitter.next_release_at()),
            None => (Duration::ZERO, self.floor()),
        };
        let (delay, changes) = self.delay.from(entry);
        let first_at = exit_at(entry, delay, advance);
        // A packet that enters later may find a shorter delay and leave earlier.
        let changes = changes.iter().take_while(|(at, _)| *at < first_at);
        let earliest = changes.fold(first_at, |earliest, &(at, delay)| {
            earliest.min(exit_at(at, delay, advance))
        });
        earliest.max(floor)
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
    fn an_overtaking_line_gives_each_packet_the_delay_of_its_entry() {
        let ms = Duration::from_millis;
        let changes = vec![(Instant::from_millis(10), ms(20))];
        let mut delay = Delay::new(Schedule::new(ms(50), changes)).overtaking();
        for (id, at) in [(0, 0), (1, 9), (2, 10), (3, 45)] {
            let packet = Packet {
                id,
                ..Packet::of_size(100)
            };
            assert!(delay.push(Instant::from_millis(at), packet).is_ok());
        }
        let at_45 = Instant::from_millis(45);
        assert_eq!(delay.earliest_exit(at_45), Instant::from_millis(65));
        assert_eq!(popped_at(&mut delay), [(30, 2), (50, 0), (59, 1), (65, 3)]);
    }

    #[test]
    fn a_detour_lets_others_overtake_and_holds_none_up() {
        let model = DetourModel {
            share: 0.5,
            delay: Duration::from_millis(20),
        };
        let line = Delay::new(Schedule::new(Duration::from_millis(50), Vec::new()));
        let mut delay = line.with_detour(model, Seed(1));
        for id in 0..1_000 {
            let packet = Packet {
                id,
                ..Packet::of_size(100)
            };
            assert!(delay.push(Instant::from_millis(id), packet).is_ok());
        }
        let mut late_count = 0;
        for (at, id) in popped_at(&mut delay) {
            assert!(at == id + 50 || at == id + 70, "{id} at {at}");
            late_count += usize::from(at == id + 70);
        }
        assert!((450..550).contains(&late_count), "{late_count}");
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
