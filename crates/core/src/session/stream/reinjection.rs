//! Segments in flight on one path are sent on another as well, and unsent ones move there:
//! [`crate::Reinjection`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::mtu::segment_bytes;
use super::placement::{Placement, latest_arrival};
use super::queue::packet_view;
use crate::copies;
use crate::path_view::PathId;
use crate::reinjection::{Occasion, Reinjection, Request, Segments};
use crate::stream::Chunk;

/// Time until the copies of a segment in flight are expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    arrives_after: Duration,
    /// Whether their acknowledgement is overdue.
    is_overdue: bool,
}

impl StreamSession {
    /// Passes to the configured reinjector that the receiver's application can play for `left`
    /// without further data. Returns whether there may be something to send.
    pub fn on_play_time_left(&mut self, now: Instant, left: Duration) -> bool {
        let reinjector = self.content.reinjector.as_mut();
        let is_wanted = reinjector.is_some_and(|it| it.on_play_time_left(now, left, &self.views));
        if is_wanted {
            self.content.request_scheduling();
        }
        is_wanted
    }
}

impl Placement<'_> {
    /// Reinjects segments if a path has room, and nothing else can be sent there.
    pub(super) fn reinject(&mut self) {
        match self.config.stream.reinjection {
            Reinjection::Off => {}
            Reinjection::Tail => self.reinject_tail(),
            Reinjection::By(_) => self.ask_reinjector(Occasion::NothingElse),
        }
    }

    /// Does as the configured reinjector asks. No copy in flight counts.
    pub(super) fn ask_reinjector(&mut self, occasion: Occasion) {
        let segments = self.segments();
        let Some(reinjector) = &mut self.stream.reinjector else {
            return;
        };
        let mut requests = Vec::new();
        reinjector.reinject(self.now, occasion, &segments, self.views, &mut requests);
        for request in requests {
            match request {
                Request::Copy { by, below } => self.copy_in_flight(by, below, |_, _| None),
                Request::Penalise(path) => self.paths[path.index()].on_penalty(),
            }
        }
    }

    /// Returns the state of the segments for reinjectors.
    fn segments(&self) -> Segments {
        let send = &self.stream.send;
        Segments {
            acked_offset: send.acked_offset(),
            unsent_offset: send.unsent_offset(),
            is_window_full: send.is_blocked(segment_bytes(self.sizes, self.paths)),
            awaited: send.awaited(),
            max_packet_bytes: self.sizes.max_packet_bytes,
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
        if self.views.iter().any(|view| {
            let latest = view.rtt.latest.map(|_| view.forecast.overdue_arrival());
            view.id != by && view.bytes_in_flight > 0 && latest.is_none_or(|it| earliest < it)
        }) {
            self.copy_in_flight(by, u64::MAX, |placement, chunk| {
                Some(placement.expected(chunk.offset))
            });
        }
    }

    /// Copies to the path, as far as it has room, those of the segments in flight elsewhere below
    /// an offset for which the rule asks. `expected` says when the copy in flight is expected;
    /// `None` if it does not count.
    pub(super) fn copy_in_flight(
        &mut self,
        by: PathId,
        offset: u64,
        expected: impl Fn(&Self, &Chunk) -> Option<Expected>,
    ) {
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
        let arrives_after = if !path.recovery.rtt().has_sample() {
            // A path that has never answered is not known to deliver.
            Duration::MAX
        } else if is_overdue {
            forecast.overdue_arrival()
        } else {
            forecast.arrival_in_flight(age, bytes)
        };
        Expected {
            arrives_after,
            is_overdue,
        }
    }
}
