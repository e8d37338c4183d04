//! The links over which a group receives, and their due events.

use anabranch_link::Link;
use anabranch_units::Instant;

use super::entries::Entries;
use crate::event_queue::{Alarm, EventQueue};
use crate::groups::Group;
use crate::ids::{LinkId, Side};

#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) link: Link,
    pub(super) alarm: Alarm,
    /// The group that receives the packets of this link.
    pub(super) group: Group,
    /// Whether a route ends with it.
    pub(super) is_last: bool,
    /// Recipient of all packets on the link, if all its routes end with it, on one side.
    pub(super) is_all_for: Option<Side>,
    /// Whether a packet has entered it since its alarm was set.
    pub(super) is_changed: bool,
}

impl LinkState {
    /// Plans the next event of this link, at `earliest` or later.
    pub(super) fn plan(&mut self, link: LinkId, earliest: Instant, inbound: &mut InboundLinks) {
        let events = if self.is_last {
            &mut inbound.deliveries
        } else {
            &mut inbound.relays
        };
        let next_at = self.link.next_at().map(|at| at.max(earliest));
        self.alarm.set(next_at, link, events);
    }
}

/// State of the links over which a group receives.
#[derive(Debug, Default)]
pub(super) struct InboundLinks {
    /// The links with which a route ends.
    pub(super) ends: Vec<LinkId>,
    /// Packets that enter a link in this window.
    pub(super) entries: Entries,
    /// Departures from links that end routes.
    pub(super) deliveries: EventQueue<LinkId>,
    /// Departures from other links.
    pub(super) relays: EventQueue<LinkId>,
    /// Links with which a route ends and that have changed in this window.
    pub(super) changed: Vec<LinkId>,
}
