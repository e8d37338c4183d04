//! Times at which a link is down, without notice.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::element::{DropCause, Dropped, Element};
use crate::forecast::Departure;
use crate::packet::Packet;

/// Takes the inner element down at times. When an outage starts, everything inside is lost, in the
/// queue as well as in propagation. Packets that arrive during the outage are lost, too; then the
/// link is back, empty. An outage covers its first instant and not its last: a packet due at the
/// instant of the start is lost, one that arrives at the instant of the end passes.
#[derive(Clone, Debug)]
pub struct Outage<E> {
    /// Start and end, in order, none overlapping another.
    upcoming: VecDeque<(Instant, Instant)>,
    down_until: Instant,
    /// Packets that had left when an outage started and have not been popped.
    departed: VecDeque<(Instant, Packet)>,
    dropped: VecDeque<Dropped>,
    inner: E,
}

impl<E: Element> Outage<E> {
    /// Takes `inner` down at each of the instants for the duration that follows it. Outages may be
    /// in any order and overlap.
    pub fn new(outages: &[(Instant, Duration)], inner: E) -> Self {
        Outage {
            upcoming: merged(outages),
            down_until: Instant::ZERO,
            departed: VecDeque::new(),
            dropped: VecDeque::new(),
            inner,
        }
    }

    fn is_down(&self, now: Instant) -> bool {
        now < self.down_until
    }

    /// Returns the inner element unless it is down at `now`, the instant of the last call. Appends
    /// to `inside` the packets that left it before an outage and have not been popped.
    pub(crate) fn inner_if_up(&self, now: Instant, inside: &mut Vec<Departure>) -> Option<&E> {
        if self.is_down(now) {
            return None;
        }
        inside.extend(self.departed.iter().map(|(at, packet)| Departure {
            id: packet.id,
            size_bytes: packet.size_bytes,
            at: *at,
        }));
        Some(&self.inner)
    }

    /// Returns the inner element, to read its measurements. Packets must not be pushed or popped
    /// there.
    pub fn inner_mut(&mut self) -> &mut E {
        &mut self.inner
    }

    /// Begins an outage at `now` that has no end yet, in place of those to come.
    pub(crate) fn set_down(&mut self, now: Instant) {
        self.start_due_outages(now);
        if !self.is_down(now) {
            self.start_outage(now);
        }
        self.upcoming.clear();
        self.down_until = Instant::FAR_FUTURE;
    }

    /// Ends the outage at `now`, and forgets those to come.
    pub(crate) fn set_up(&mut self, now: Instant) {
        self.start_due_outages(now);
        self.upcoming.clear();
        self.down_until = self.down_until.min(now);
    }

    #[inline]
    fn start_due_outages(&mut self, now: Instant) {
        while let Some(&(start_at, end_at)) = self.upcoming.front().filter(|due| due.0 <= now) {
            self.upcoming.pop_front();
            self.start_outage(start_at);
            self.down_until = end_at;
        }
    }

    fn start_outage(&mut self, start_at: Instant) {
        while let Some(left_at) = self.inner.next_at().filter(|at| *at < start_at) {
            self.departed
                .extend(self.inner.pop(left_at).map(|packet| (left_at, packet)));
        }
        self.inner.advance(start_at);
        let mut lost = Vec::new();
        self.inner.flush(start_at, &mut lost);
        let cause = DropCause::Outage;
        self.dropped.extend(lost.into_iter().map(|packet| Dropped {
            cause,
            at: start_at,
            packet,
        }));
    }
}

/// Returns the intervals in order, without empty ones; those that overlap or touch are merged.
fn merged(outages: &[(Instant, Duration)]) -> VecDeque<(Instant, Instant)> {
    let mut outages: Vec<_> = outages.iter().filter(|(_, span)| !span.is_zero()).collect();
    outages.sort();
    let mut merged: VecDeque<(Instant, Instant)> = VecDeque::new();
    for &&(start_at, span) in &outages {
        match merged.back_mut() {
            Some((_, end_at)) if start_at <= *end_at => *end_at = (*end_at).max(start_at + span),
            _ => merged.push_back((start_at, start_at + span)),
        }
    }
    merged
}

impl<E: Element> Element for Outage<E> {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.start_due_outages(now);
        if self.is_down(now) {
            return Err(Dropped {
                cause: DropCause::Outage,
                at: now,
                packet,
            });
        }
        self.inner.push(now, packet)
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.start_due_outages(now);
        match self.departed.pop_front() {
            Some((_, packet)) => Some(packet),
            None => self.inner.pop(now),
        }
    }

    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        self.start_due_outages(now);
        if let Some(departed) = self.departed.pop_front() {
            return Some(departed);
        }
        // Packets that have not left when the next outage starts are lost.
        let outage_at = self.upcoming.front().map(|(start_at, _)| *start_at);
        let before = outage_at.map_or(before, |at| at.min(before));
        self.inner.pop_before(now, before)
    }

    fn next_at(&self) -> Option<Instant> {
        if let Some((left_at, _)) = self.departed.front() {
            return Some(*left_at);
        }
        if self.inner.held_packets() == 0 {
            return None;
        }
        let outage_at = self.upcoming.front().map(|(start_at, _)| *start_at);
        self.inner.next_at().into_iter().chain(outage_at).min()
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.dropped
            .pop_front()
            .or_else(|| self.inner.take_dropped())
    }

    fn advance(&mut self, now: Instant) {
        self.start_due_outages(now);
        self.inner.advance(now);
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        self.start_due_outages(now);
        lost.extend(self.departed.drain(..).map(|(_, packet)| packet));
        self.inner.flush(now, lost);
    }

    fn held_packets(&self) -> usize {
        self.departed.len() + self.inner.held_packets()
    }

    fn min_delay(&self) -> Duration {
        self.inner.min_delay()
    }

    /// Returns an earlier exit if an outage is coming, after which the queue is empty.
    fn earliest_exit(&self, entry: Instant) -> Instant {
        let exit_at = self.inner.earliest_exit(entry);
        match self.upcoming.front() {
            Some((_, end_at)) => exit_at.min(entry.max(*end_at) + self.inner.min_delay()),
            None => exit_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_outages_are_one() {
        let at = Instant::from_secs;
        let span = Duration::from_secs;
        let outages = [
            (at(9), span(1)),
            (at(1), span(3)),
            (at(2), span(1)),
            (at(4), span(2)),
        ];
        assert_eq!(merged(&outages), [(at(1), at(6)), (at(9), at(10))]);
        assert_eq!(merged(&[(at(1), Duration::ZERO)]), []);
    }
}
