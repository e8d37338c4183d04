//! Groups of links: registration, acknowledgements, timeouts.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use anabranch_units::{Duration, Instant, Limiter, Occupant, Right};

use crate::group_limits::{self, FOUNDINGS, GroupId, GroupOccupant, MAX_GROUPS};
use crate::names::{Names, SECRET_BYTES};
use crate::wire::{self, ACKED_AT_ONCE, Id, Message, SenderInfo};

/// Maximum number of links of a sender.
pub const MAX_LINKS: usize = 16;
/// Silence after which a link is forgotten, and then a group without links. Idle links send a
/// keepalive each second.
const LINK_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence of SRT after which a group is no longer accepted. Its listener acknowledges every 10 ms,
/// and sends a keepalive each second when no data arrives.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes from the SRT listener that a link gets for each byte that it brought, as its
/// address may be forged. With SRTLA's own answers these are less than three, as in RFC 9000,
/// section 8.1.
const ANSWERS_PER_BYTE: u64 = 2;
/// Maximum number of queued events; beyond it, the oldest are forgotten. One call makes a quarter
/// of it at most.
const MAX_EVENTS: usize = 4 * MAX_GROUPS * (MAX_LINKS + 1);

/// Result of a datagram from a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// No action: the link is unknown, or the datagram is not SRTLA.
    Nothing,
    /// These bytes go back to the link.
    Answer(Vec<u8>),
    /// The datagram goes to the SRT listener by the group's socket, and these bytes to the link.
    Forward {
        /// Group whose socket sends it.
        group: GroupId,
        /// An acknowledgement, at every tenth packet.
        ack: Option<Vec<u8>>,
    },
}

/// Events of groups and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link of a sender that the SRT listener has accepted. Strangers' links are not reported.
    LinkAccepted(GroupId, SocketAddr),
    /// A link has fallen silent, or its group is over.
    LinkLeft(GroupId, LinkSummary),
    /// A sender is gone; its socket to the SRT listener can be closed.
    GroupEnded(GroupId),
}

/// A link and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSummary {
    /// The sender's address on the link.
    pub address: SocketAddr,
    /// Number of datagrams of SRT that it brought.
    pub datagram_count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Last report of the sender on this link.
    pub info: Option<SenderInfo>,
    /// Whether [`Event::LinkAccepted`] was reported.
    pub was_accepted: bool,
}

/// The receiver of many senders.
#[derive(Debug)]
pub struct Receiver {
    names: Names,
    groups: BTreeMap<GroupId, Group>,
    foundings: Limiter,
    /// The group of each link.
    members: BTreeMap<SocketAddr, GroupId>,
    next_id: u64,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Group {
    id: Box<Id>,
    address: IpAddr,
    founded_at: Instant,
    links: Vec<Link>,
    /// The link of the newest datagram of SRT, which gets the listener's answers.
    latest: Option<SocketAddr>,
    /// Time of the last sign that the SRT listener has accepted this sender: an acknowledgement,
    /// and after that also a keepalive.
    accepted_at: Option<Instant>,
}

#[derive(Debug)]
struct Link {
    summary: LinkSummary,
    heard_at: Instant,
    /// Bytes from the SRT listener that it may still get.
    credit: u64,
    /// Packets that are not acknowledged yet; the first `unacked_count` entries are valid.
    unacked: [u32; ACKED_AT_ONCE],
    unacked_count: usize,
}

impl Receiver {
    /// Creates a receiver without senders, which makes names of groups with the secret.
    pub fn new(secret: &[u8; SECRET_BYTES]) -> Self {
        Receiver {
            names: Names::new(secret),
            groups: BTreeMap::new(),
            foundings: Limiter::new(FOUNDINGS),
            members: BTreeMap::new(),
            next_id: 0,
            events: VecDeque::new(),
        }
    }

    /// Takes a datagram of a link.
    pub fn handle_link(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Taken {
        match Message::parse(datagram) {
            None => Taken::Nothing,
            // No state is kept: the address may be forged.
            Some(Message::WantsGroup { half }) => {
                let name = self.names.make(now, from.ip(), half);
                Taken::Answer(wire::group(&name))
            }
            Some(Message::Joins { id }) => Taken::Answer(self.join(now, from, id)),
            Some(message) => self.handle_member(now, from, datagram, message),
        }
    }

    /// Takes an answer of the SRT listener to a group. Returns the links that it goes to.
    pub fn handle_srt(&mut self, now: Instant, group: GroupId, datagram: &[u8]) -> Vec<SocketAddr> {
        fn is_asked(link: &Link, is_ack: bool, latest: Option<SocketAddr>) -> bool {
            if is_ack {
                // It increases the sender's windows, and any link may be the one that still works.
                link.summary.datagram_count > 0
            } else {
                // Lost packets requested twice would be sent twice.
                Some(link.summary.address) == latest
            }
        }

        let id = group;
        if !wire::is_srt(datagram) {
            return Vec::new();
        }
        let Some(group) = self.groups.get_mut(&id) else {
            return Vec::new();
        };
        let is_ack = wire::is_srt_ack(datagram);
        if is_ack || (wire::is_srt_keepalive(datagram) && group.is_accepted(now)) {
            group.accepted_at = Some(now);
            self.foundings.trust(now, group.address);
            group.report_links(id, &mut self.events);
        }
        let latest = group.latest;
        let links = group
            .links
            .iter_mut()
            .filter(|link| is_asked(link, is_ack, latest));
        let paid = links.filter_map(|link| {
            link.credit = link.credit.checked_sub(datagram.len() as u64)?;
            Some(link.summary.address)
        });
        paid.collect()
    }

    /// Removes links and groups that have been silent for too long. Must be called once a second.
    pub fn handle_time(&mut self, now: Instant) {
        fn is_silent(link: &Link, now: Instant) -> bool {
            now.saturating_since(link.heard_at) > LINK_TIMEOUT
        }

        let mut gone = Vec::new();
        for (&id, group) in &mut self.groups {
            for link in group.links.extract_if(.., |link| is_silent(link, now)) {
                self.members.remove(&link.summary.address);
                push(&mut self.events, Event::LinkLeft(id, link.summary));
            }
            if group.links.is_empty() {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the number of senders.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the addresses of a group's links.
    pub fn links(&self, group: GroupId) -> impl Iterator<Item = SocketAddr> + '_ {
        let group = self.groups.get(&group).into_iter();
        group.flat_map(Group::addresses)
    }

    /// Returns the links of a group, each with the time at which it was last heard.
    pub fn group_links(&self, group: GroupId) -> impl Iterator<Item = (&LinkSummary, Instant)> {
        let group = self.groups.get(&group).into_iter();
        let links = group.flat_map(|group| &group.links);
        links.map(|link| (&link.summary, link.heard_at))
    }

    /// Returns the address from which a group was registered.
    pub fn address(&self, group: GroupId) -> Option<IpAddr> {
        self.groups.get(&group).map(|group| group.address)
    }

    /// Returns whether a link of a registered sender is at this address.
    pub fn has_link(&self, address: SocketAddr) -> bool {
        self.members.contains_key(&address)
    }

    /// Returns the links of the senders that the SRT listener has accepted, each with the time at
    /// which it was last heard.
    pub fn accepted_links(&self, now: Instant) -> impl Iterator<Item = (&LinkSummary, Instant)> {
        let groups = self
            .groups
            .values()
            .filter(move |group| group.is_accepted(now));
        let links = groups.flat_map(|group| &group.links);
        links.map(|link| (&link.summary, link.heard_at))
    }

    /// Founds the group of a name that was given to a sender; `None` if it was not, or if there is
    /// no place.
    fn found(&mut self, now: Instant, id: &Id) -> Option<GroupId> {
        let address = self.names.address(now, id)?;
        let groups = self.groups.iter();
        let places: Vec<_> = groups.map(|(&id, group)| group.place(id, now)).collect();
        let newcomer = Occupant {
            id: GroupId(self.next_id),
            address,
            right: Right::Stranger,
            used_at: now,
        };
        let given_up = group_limits::given_up(&places, &newcomer).ok()?;
        if !self.foundings.admit(now, address) {
            return None;
        }
        given_up.into_iter().for_each(|other| self.remove(other));
        let group = GroupId(self.next_id);
        self.next_id += 1;
        self.groups.insert(
            group,
            Group {
                id: Box::new(*id),
                address,
                founded_at: now,
                links: Vec::new(),
                latest: None,
                accepted_at: None,
            },
        );
        Some(group)
    }

    /// Handles a REG2.
    fn join(&mut self, now: Instant, from: SocketAddr, id: &Id) -> Vec<u8> {
        let mut all = self.groups.iter();
        let found = all.find(|(_, group)| is_same(&group.id, id));
        let known = found.map(|(&known, _)| known);
        let other = self.members.get(&from);
        if other.is_some_and(|&other| Some(other) != known) {
            return wire::refused();
        }
        let Some(known) = known.or_else(|| self.found(now, id)) else {
            return wire::no_group();
        };
        let Some(group) = self.groups.get_mut(&known) else {
            return wire::no_group();
        };
        let has_room = group.links.len() < MAX_LINKS;
        match group.link(from) {
            Some(link) => link.heard_at = now,
            None if !has_room => return wire::refused(),
            None => {
                group.links.push(Link::new(from, now));
                self.members.insert(from, known);
                if group.is_accepted(now) {
                    group.report_links(known, &mut self.events);
                }
            }
        }
        wire::joined()
    }

    fn handle_member(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        message: Message<'_>,
    ) -> Taken {
        let Some(&id) = self.members.get(&from) else {
            return Taken::Nothing;
        };
        let Some(group) = self.groups.get_mut(&id) else {
            return Taken::Nothing;
        };
        let Some(link) = group.link(from) else {
            return Taken::Nothing;
        };
        link.heard_at = now;
        let earned = ANSWERS_PER_BYTE * datagram.len() as u64;
        link.credit = link.credit.saturating_add(earned);
        let number = match message {
            Message::Keepalive { info } => {
                link.summary.info = info.or(link.summary.info);
                return Taken::Answer(datagram.to_vec());
            }
            Message::Srt { number } => number,
            Message::WantsGroup { .. } | Message::Joins { .. } => return Taken::Nothing,
        };
        link.summary.datagram_count += 1;
        link.summary.bytes += datagram.len() as u64;
        let ack = number.and_then(|number| link.acknowledge(number));
        group.latest = Some(from);
        Taken::Forward { group: id, ack }
    }

    fn remove(&mut self, id: GroupId) {
        let Some(group) = self.groups.remove(&id) else {
            return;
        };
        for link in group.links {
            self.members.remove(&link.summary.address);
            push(&mut self.events, Event::LinkLeft(id, link.summary));
        }
        push(&mut self.events, Event::GroupEnded(id));
    }
}

impl Group {
    fn link(&mut self, address: SocketAddr) -> Option<&mut Link> {
        let mut links = self.links.iter_mut();
        links.find(|link| link.summary.address == address)
    }

    fn place(&self, id: GroupId, now: Instant) -> GroupOccupant {
        let right = if self.is_accepted(now) {
            Right::Kept
        } else {
            Right::Stranger
        };
        Occupant {
            id,
            address: self.address,
            right,
            used_at: self.founded_at,
        }
    }

    fn is_accepted(&self, now: Instant) -> bool {
        let mut at = self.accepted_at.into_iter();
        at.any(|at| now.saturating_since(at) <= ACCEPTANCE_TIMEOUT)
    }

    /// Reports the links that were not reported yet.
    fn report_links(&mut self, id: GroupId, events: &mut VecDeque<Event>) {
        for link in &mut self.links {
            if !core::mem::replace(&mut link.summary.was_accepted, true) {
                push(events, Event::LinkAccepted(id, link.summary.address));
            }
        }
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.links.iter().map(|link| link.summary.address)
    }
}

impl Link {
    fn new(address: SocketAddr, now: Instant) -> Self {
        Link {
            summary: LinkSummary {
                address,
                datagram_count: 0,
                bytes: 0,
                info: None,
                was_accepted: false,
            },
            heard_at: now,
            credit: 0,
            unacked: [0; ACKED_AT_ONCE],
            unacked_count: 0,
        }
    }

    /// Records a packet. Returns the acknowledgement, if it is the tenth.
    fn acknowledge(&mut self, number: u32) -> Option<Vec<u8>> {
        self.unacked[self.unacked_count] = number;
        self.unacked_count += 1;
        if self.unacked_count < ACKED_AT_ONCE {
            return None;
        }
        self.unacked_count = 0;
        Some(wire::ack(&self.unacked))
    }
}

/// Compares in constant time, so that it does not reveal the correct part of a name.
fn is_same(left: &Id, right: &Id) -> bool {
    let differences = left.iter().zip(right).map(|(left, right)| left ^ right);
    core::hint::black_box(differences.fold(0, |all, one| all | one)) == 0
}

fn push(events: &mut VecDeque<Event>, event: Event) {
    if events.len() >= MAX_EVENTS {
        events.pop_front();
    }
    events.push_back(event);
}

#[cfg(test)]
mod tests;
