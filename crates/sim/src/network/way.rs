//! The links over which a party hears, and what is due on them.

use anabranch_link::Link;
use anabranch_units::{Ecn, Instant};

use crate::event_queue::{Alarm, EventQueue};
use crate::flow::{FlowId, Side};
use crate::parties::Party;
use crate::topology::LinkId;

/// More runs of entries than these are sorted, not merged.
const MOST_RUNS: usize = 64;

#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) link: Link,
    pub(super) alarm: Alarm,
    /// Who hears what passes it.
    pub(super) party: Party,
    /// Whether a route ends with it.
    pub(super) is_last: bool,
    /// Whom all that passes it is for, if all routes that it is part of end with it, on one side.
    pub(super) is_all_for: Option<Side>,
    /// Whether something has come to it since its alarm was set.
    pub(super) is_changed: bool,
}

impl LinkState {
    /// Plans the next event of this link, at `earliest` or later.
    pub(super) fn plan(&mut self, link: LinkId, earliest: Instant, way: &mut Way) {
        let events = match self.is_last {
            true => &mut way.deliveries,
            false => &mut way.relays,
        };
        let next_at = self.link.next_at().map(|at| at.max(earliest));
        self.alarm.set(next_at, link, events);
    }
}

/// A packet that is about to enter a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Instant,
    pub(super) flow: FlowId,
    /// How many were noted before.
    pub(super) number: u32,
    pub(super) id: u32,
    pub(super) size_bytes: u32,
    pub(super) link: LinkId,
    pub(super) ecn: Ecn,
}

impl Entry {
    /// By time; at the same time by flow, and then as they were noted.
    #[inline]
    fn order(&self) -> u128 {
        let tie = u64::from(self.flow.0) << 32 | u64::from(self.number);
        u128::from(self.at.as_nanos()) << 64 | u128::from(tie)
    }
}

/// What goes on on the links over which a party hears.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// What enters a link in this window: mostly each flow's in order, one flow after another.
    entries: Vec<Entry>,
    /// Where the entries begin that precede the one before them.
    starts: Vec<usize>,
    /// Empty, for putting entries in order.
    spare: Vec<Entry>,
    /// When links give packets back with which a route ends.
    pub(super) deliveries: EventQueue<LinkId>,
    /// When the other links give packets back.
    pub(super) relays: EventQueue<LinkId>,
    /// Links with which a route ends and that have changed in this window.
    pub(super) changed: Vec<LinkId>,
}

impl Way {
    #[inline]
    pub(super) fn enter(&mut self, entry: Entry) {
        let number = self.entries.len();
        let entry = Entry {
            number: number as u32,
            ..entry
        };
        if self
            .entries
            .last()
            .is_some_and(|last| entry.order() < last.order())
        {
            self.starts.push(number);
        }
        self.entries.push(entry);
    }

    /// Takes out what has been noted, in order; [`Way::give_back`] the vector when it is empty.
    pub(super) fn take_entries(&mut self) -> Vec<Entry> {
        if self.starts.len() > MOST_RUNS {
            self.starts.clear();
            self.entries.sort_unstable_by_key(Entry::order);
        }
        while !self.starts.is_empty() {
            self.merge_runs();
        }
        std::mem::take(&mut self.entries)
    }

    pub(super) fn give_back(&mut self, empty: Vec<Entry>) {
        self.entries = empty;
    }

    /// Merges every second run of entries with the one before it.
    fn merge_runs(&mut self) {
        let (mut from, mut kept_count) = (0, 0);
        for index in (0..self.starts.len()).step_by(2) {
            let middle = self.starts[index];
            let end = self.starts.get(index + 1).copied();
            let end = end.unwrap_or(self.entries.len());
            merge(
                &self.entries[from..middle],
                &self.entries[middle..end],
                &mut self.spare,
            );
            if end < self.entries.len() {
                self.starts[kept_count] = end;
                kept_count += 1;
            }
            from = end;
        }
        self.spare.extend_from_slice(&self.entries[from..]);
        self.starts.truncate(kept_count);
        std::mem::swap(&mut self.entries, &mut self.spare);
        self.spare.clear();
    }
}

/// Appends both, each of them in order, to `out`.
fn merge(mut one: &[Entry], mut other: &[Entry], out: &mut Vec<Entry>) {
    while let ([first, one_rest @ ..], [second, other_rest @ ..]) = (one, other) {
        if first.order() < second.order() {
            out.push(*first);
            one = one_rest;
        } else {
            out.push(*second);
            other = other_rest;
        }
    }
    out.extend_from_slice(one);
    out.extend_from_slice(other);
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    #[test]
    fn entries_are_taken_by_time_then_by_flow_then_as_noted_however_many_runs_they_make() {
        let mut rng = Seed(3).rng();
        for flow_count in [1, 2, 3, 8, 65, 66, 300] {
            let mut way = Way::default();
            for id in 0..2_000 {
                // Each flow's entries in order, but for some.
                let flow = id * flow_count / 2_000;
                let place = u64::from(id % (2_000_u32.div_ceil(flow_count)));
                let late = u64::from(rng.chance(0.01)) * 500;
                way.enter(Entry {
                    at: Instant::from_nanos(1_000 + place / 3 - place.min(late)),
                    flow: FlowId(flow),
                    number: 0,
                    id,
                    size_bytes: 40,
                    link: LinkId(0),
                    ecn: Ecn::NotEct,
                });
            }
            let taken = way.take_entries();
            let order = |entry: &Entry| (entry.at, entry.flow.0, entry.id);
            assert!(taken.is_sorted_by_key(order), "{flow_count} flows");
            let mut ids: Vec<u32> = taken.iter().map(|entry| entry.id).collect();
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..2_000));
            assert!(way.starts.is_empty() && way.take_entries().is_empty());
        }
    }
}
