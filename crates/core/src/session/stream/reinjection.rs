//! Segments in flight on one path are sent on another as well, and unsent ones move there:
//! [`crate::Reinjection`].

use anabranch_units::Duration;

use super::queue::packet_view;
use super::reinjector::{Reinjector, latest_arrival};
use super::schedule::Binding;
use crate::config::Reinjection;
use crate::copies;
use crate::path_view::{PathId, PathView};
use crate::stream::Chunk;

/// Time until the copies of a segment in flight are expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    arrives_after: Duration,
    /// Whether their acknowledgement is overdue.
    is_overdue: bool,
}

impl Reinjector<'_> {
    /// Reinjects segments if a path has room, and nothing else can be sent there.
    pub(super) fn reinject(&mut self, segment_bytes: usize, binding: &mut Binding) {
        match self.config.stream.reinjection {
            Reinjection::Off => {}
            Reinjection::Linux if self.stream.send.is_blocked(segment_bytes) => {
                self.reinject_awaited(binding);
            }
            Reinjection::Linux => {}
            Reinjection::Tail => self.reinject_tail(),
            Reinjection::Xlink => {
                self.reinject_all_below(u64::MAX);
            }
        }
    }

    /// Speeds up the end of the data on the path with room that delivers a packet first. That path
    /// takes over bound packets that would arrive later elsewhere, and copies of segments in flight
    /// that it delivers earlier.
    fn reinject_tail(&mut self) {
        let Some(by) = self.earliest() else {
            return;
        };
        self.move_later_ones(by);
        let earliest = latest_arrival(&self.views[by.index()], 0);
        // Overdue segments take another round trip; all others arrive before a new packet.
        let is_later = |view: &PathView| {
            let latest = view.rtt.latest.map(|_| view.forecast.overdue_arrival());
            view.id != by && view.bytes_in_flight > 0 && latest.is_none_or(|it| earliest < it)
        };
        if self.views.iter().any(is_later) {
            self.copy_in_flight(by, u64::MAX, |reinjector, chunk| {
                Some(reinjector.expected(chunk.offset))
            });
        }
    }

    /// Copies to the path, as far as it has room, those of the segments in flight elsewhere below
    /// an offset for which the rule asks. `expected` says when the copy in flight is expected;
    /// `None` if it does not count. Returns whether it copied any.
    pub(super) fn copy_in_flight(
        &mut self,
        by: PathId,
        offset: u64,
        expected: impl Fn(&Self, &Chunk) -> Option<Expected>,
    ) -> bool {
        let view = &self.views[by.index()];
        let mut allowance = self.stream.copies;
        let (mut bytes, mut copies) = (0, Vec::new());
        for (chunk, in_flight_on) in self.stream.send.in_flight_elsewhere(by, offset) {
            let packet = packet_view(self.config, &chunk, in_flight_on);
            let with_it = bytes + u64::from(packet.bytes);
            if with_it > view.sendable_bytes {
                break;
            }
            let expected = expected(self, &chunk);
            let is_paid = expected.is_some_and(|expected| !expected.is_overdue);
            let arrives_after = expected.map(|expected| expected.arrives_after);
            if copies::is_worth_sending(arrives_after, latest_arrival(view, with_it))
                && (!is_paid || allowance.covers(u64::from(packet.bytes)))
            {
                if is_paid {
                    allowance.pay(u64::from(packet.bytes));
                }
                bytes = with_it;
                copies.push(packet);
            }
        }
        for packet in &copies {
            self.stream.send.on_reinjected(packet.frame.0);
            self.bind_to(by, *packet);
        }
        self.stream.copies = allowance;
        !copies.is_empty()
    }

    /// Returns when the copy in flight of a segment is expected. One whose acknowledgement is
    /// overdue takes another round trip at the least.
    fn expected(&self, offset: u64) -> Expected {
        let last_copy = self.stream.send.last_copy(offset);
        let packet = last_copy.and_then(|(on, number)| {
            let packet = self.paths[on.index()].recovery.sent_packet(number)?;
            Some((on, packet))
        });
        let Some((on, packet)) = packet else {
            return Expected {
                arrives_after: Duration::ZERO,
                is_overdue: false,
            };
        };
        let (path, forecast) = (&self.paths[on.index()], &self.views[on.index()].forecast);
        let age = self.now.saturating_since(packet.sent_at);
        let overdue_after = forecast.overdue_after(self.stream.config.delayed_ack);
        let is_overdue = age > overdue_after || self.stream.paths[on.index()].probe.is_wanted();
        let bytes_behind = path.recovery.sent_bytes() - packet.delivery.sent_bytes;
        let bytes = path.recovery.bytes_in_flight().saturating_sub(bytes_behind);
        let arrives_after = match is_overdue {
            // A path that has never answered is not known to deliver.
            _ if !path.recovery.rtt().has_sample() => Duration::MAX,
            true => forecast.overdue_arrival(),
            false => forecast.arrival_in_flight(age, bytes),
        };
        Expected {
            arrives_after,
            is_overdue,
        }
    }
}
