//! Groups of links: how they register, what is acknowledged, when they are over.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use anabranch_units::{Duration, Instant};

use crate::wire::{self, ACKED_AT_ONCE, ID_BYTES, Id, Message, SenderInfo};

/// So many senders at a time.
pub const MAX_GROUPS: usize = 64;
/// So many links of a sender.
pub const MAX_LINKS: usize = 16;
/// A link that is silent for longer is forgotten, and a group without links. Idle links send a
/// keepalive each second.
const LINK_TIMEOUT: Duration = Duration::from_secs(10);
/// A group whose first link does not join within this time is forgotten.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// What was not asked for is forgotten, the oldest first. One call makes a quarter of it at most.
const MAX_EVENTS: usize = 4 * MAX_GROUPS * (MAX_LINKS + 1);

/// A sender, as long as it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(u64);

/// What a datagram of a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing: nobody knows the link, or it is not SRTLA.
    Nothing,
    /// These bytes go back to the link.
    Answer(Vec<u8>),
    /// The datagram goes to the SRT listener by the group's socket, and these bytes to the link.
    Forward {
        /// Whose socket.
        group: GroupId,
        /// An acknowledgement, at every tenth packet.
        ack: Option<Vec<u8>>,
    },
}

/// What has become of groups and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sender has registered.
    GroupBegan(GroupId),
    /// A link of it has joined.
    LinkJoined(GroupId, SocketAddr),
    /// A link has fallen silent, or its group is over.
    LinkLeft(GroupId, LinkSummary),
    /// A sender is gone; its socket to the SRT listener can be closed.
    GroupEnded(GroupId),
}

/// A link, and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSummary {
    /// The sender's address there.
    pub address: SocketAddr,
    /// Datagrams of SRT that it brought.
    pub datagram_count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the sender told of it at last.
    pub info: Option<SenderInfo>,
}

/// The receiver of many senders. `F` gives random bytes, of which the receiver's halves of groups'
/// names are made: whoever knows a name can join.
#[derive(Debug)]
pub struct Receiver<F> {
    random: F,
    groups: BTreeMap<GroupId, Group>,
    /// The group of each link, and of each founder.
    members: BTreeMap<SocketAddr, GroupId>,
    next_id: u64,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Group {
    id: Box<Id>,
    founder: SocketAddr,
    founded_at: Instant,
    links: Vec<Link>,
    /// The link of the newest datagram: what the SRT listener answers goes there.
    latest: SocketAddr,
    /// Whether the SRT listener has acknowledged something: it has accepted this sender.
    is_accepted: bool,
}

#[derive(Debug)]
struct Link {
    summary: LinkSummary,
    heard_at: Instant,
    /// Packets that are not acknowledged yet, of which `unacked_count` are some.
    unacked: [u32; ACKED_AT_ONCE],
    unacked_count: usize,
}

impl<F: FnMut() -> [u8; ID_BYTES / 2]> Receiver<F> {
    /// One without senders.
    pub fn new(random: F) -> Self {
        Receiver {
            random,
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            next_id: 0,
            events: VecDeque::new(),
        }
    }

    /// Takes a datagram of a link.
    pub fn handle_link(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Taken {
        match Message::parse(datagram) {
            None => Taken::Nothing,
            Some(Message::WantsGroup { half }) => Taken::Answer(self.found(now, from, half)),
            Some(Message::Joins { id }) => Taken::Answer(self.join(now, from, id)),
            Some(message) => self.handle_member(now, from, datagram, message),
        }
    }

    /// Takes what the SRT listener answers a group. Returns the links that it goes to.
    pub fn handle_srt(&mut self, group: GroupId, datagram: &[u8]) -> Vec<SocketAddr> {
        let group = self.groups.get_mut(&group);
        let Some(group) = group.filter(|_| wire::is_srt(datagram)) else {
            return Vec::new();
        };
        match wire::is_srt_ack(datagram) {
            // The sender's windows grow by it, and any link may be the one that still works.
            true => {
                group.is_accepted = true;
                group.addresses().collect()
            }
            // Lost packets asked for twice would be sent twice.
            false => vec![group.latest],
        }
    }

    /// Forgets what has been silent for too long. To be called once a second.
    pub fn handle_time(&mut self, now: Instant) {
        let mut gone = Vec::new();
        for (&id, group) in &mut self.groups {
            let is_silent = |link: &Link| now.saturating_since(link.heard_at) > LINK_TIMEOUT;
            for link in group.links.extract_if(.., |link| is_silent(link)) {
                self.members.remove(&link.summary.address);
                push(&mut self.events, Event::LinkLeft(id, link.summary));
            }
            let age = now.saturating_since(group.founded_at);
            if group.links.is_empty() && age > JOIN_TIMEOUT {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// What has happened since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How many senders there are.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The addresses of a group's links.
    pub fn links(&self, group: GroupId) -> impl Iterator<Item = SocketAddr> + '_ {
        let group = self.groups.get(&group).into_iter();
        group.flat_map(Group::addresses)
    }

    /// Whether a link of a registered sender is at this address.
    pub fn has_link(&self, address: SocketAddr) -> bool {
        let group = self
            .members
            .get(&address)
            .and_then(|id| self.groups.get(id));
        group.is_some_and(|group| group.addresses().any(|link| link == address))
    }

    /// The links of the senders that the SRT listener has accepted, each with when it was heard
    /// last.
    pub fn accepted_links(&self) -> impl Iterator<Item = (&LinkSummary, Instant)> {
        let groups = self.groups.values().filter(|group| group.is_accepted);
        let links = groups.flat_map(|group| &group.links);
        links.map(|link| (&link.summary, link.heard_at))
    }

    /// REG1.
    fn found(&mut self, now: Instant, from: SocketAddr, half: &[u8; ID_BYTES / 2]) -> Vec<u8> {
        if let Some(&known) = self.members.get(&from) {
            match self.groups.get(&known) {
                Some(group) if !group.links.is_empty() => return wire::refused(),
                // The answer was lost, and the sender asks again.
                Some(group) if group.id.starts_with(half) => return wire::group(&group.id),
                _ => self.remove(known),
            }
        }
        if self.groups.len() >= MAX_GROUPS && !self.make_room() {
            return wire::refused();
        }
        let mut id = Box::new([0; ID_BYTES]);
        let (first, second) = id.split_at_mut(ID_BYTES / 2);
        first.copy_from_slice(half);
        second.copy_from_slice(&(self.random)());
        let answer = wire::group(&id);
        let group = GroupId(self.next_id);
        self.next_id += 1;
        self.members.insert(from, group);
        self.groups.insert(
            group,
            Group {
                id,
                founder: from,
                founded_at: now,
                links: Vec::new(),
                latest: from,
                is_accepted: false,
            },
        );
        push(&mut self.events, Event::GroupBegan(group));
        answer
    }

    /// Ends the oldest group that the SRT listener has not accepted, so that a flood of
    /// registrations keeps nobody out. Whether there was one.
    fn make_room(&mut self) -> bool {
        let mut strangers = self.groups.iter().filter(|(_, group)| !group.is_accepted);
        let oldest = strangers.next().map(|(&id, _)| id);
        oldest.map(|id| self.remove(id)).is_some()
    }

    /// REG2.
    fn join(&mut self, now: Instant, from: SocketAddr, id: &Id) -> Vec<u8> {
        let mut all = self.groups.iter_mut();
        let Some((&known, group)) = all.find(|(_, group)| is_same(&group.id, id)) else {
            return wire::no_group();
        };
        match self.members.get(&from) {
            Some(&other) if other != known => return wire::refused(),
            _ => {}
        }
        let has_room = group.links.len() < MAX_LINKS;
        match group.link(from) {
            Some(link) => link.heard_at = now,
            None if !has_room => return wire::refused(),
            None => {
                group.links.push(Link::new(from, now));
                self.members.insert(from, known);
                push(&mut self.events, Event::LinkJoined(known, from));
            }
        }
        group.latest = from;
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
        group.latest = from;
        Taken::Forward { group: id, ack }
    }

    fn remove(&mut self, id: GroupId) {
        let Some(group) = self.groups.remove(&id) else {
            return;
        };
        if self.members.get(&group.founder) == Some(&id) {
            self.members.remove(&group.founder);
        }
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
            },
            heard_at: now,
            unacked: [0; ACKED_AT_ONCE],
            unacked_count: 0,
        }
    }

    /// A packet has come. The acknowledgement, if it is the tenth.
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

/// In a time that does not tell how much of a name was right.
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
