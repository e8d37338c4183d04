//! The sender of one SRT connection over several links.
//!
//! Packets wait here, not in the network: each link is paced by its delivery rate, and a packet
//! goes to the link by which it arrives first. The receiver's SRT reports every packet missing that
//! another has overtaken. Such a report counts only once the packet's own link should have
//! delivered it, or if no time is left to wait. Lost packets are sent again from memory, so the SRT
//! sender learns only of those that are not in it.

mod link;
mod memory;
mod rate;
mod recovery;
mod registration;
mod rtt;
mod schedule;
mod target;
mod wire;

use std::collections::{BTreeSet, VecDeque};

use anabranch_units::{DataRate, Duration, Instant, REPEATED_PERCENT, RepeatBudget};

use crate::names::SECRET_BYTES;
use crate::receiver::MAX_LINKS;
use crate::srt::{self, Packet};
use crate::wire::group as join_request;
use link::Link;
pub use link::{LinkCounters, LinkOptions, LinkState};
use memory::Memory;
use registration::{Group, REFUSED_WAIT, RETRY, Registration};
use wire::Answer;

/// Latency before the handshake: libsrt's default.
const DEFAULT_LATENCY: Duration = Duration::from_millis(120);
/// Maximum latency of a handshake.
const MAX_LATENCY: Duration = Duration::from_secs(8);
/// Time beyond the latency for which packets are kept.
const LEAST_MEMORY: Duration = Duration::from_secs(1);
/// Interval of timers while packets are kept, and otherwise.
const BUSY_TICK: Duration = Duration::from_millis(10);
const IDLE_TICK: Duration = Duration::from_millis(100);
/// Longest silence beyond a late answer after which a link is out; a quarter of the latency if that
/// is shorter. A copy on another link must still be in time.
const MAX_PATIENCE: Duration = Duration::from_millis(250);
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// Maximum distance of sequence numbers within a stream. A larger one begins another stream.
const MAX_JUMP: u64 = 1 << 16;
/// Maximum number of datagrams that wait for the driver, of events, and of ranges in a NAK.
const MAX_WAITING: usize = 1_024;
const MAX_EVENTS: usize = 256;
const MAX_RANGES: usize = 256;

/// Identifies a link of a sender. Numbers of removed links are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u8);

/// A datagram that leaves by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Link by which it leaves.
    pub link: LinkId,
    /// Its bytes.
    pub datagram: Vec<u8>,
}

/// Events of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// A link can be used.
    LinkUp(LinkId),
    /// A link does not answer any more.
    LinkOut(LinkId),
    /// The receiver refuses a link, or has no place for a group. It is asked again.
    Refused(LinkId),
    /// The receiver has lost the group, as after a restart. The sender registers again.
    GroupLost,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Number of packets of media from the SRT sender; repetitions do not count.
    pub taken_packets: u64,
    /// Their bytes.
    pub taken_bytes: u64,
    /// Number of packets that left again, for whatever reason.
    pub sent_again: u64,
    /// Number of packets that could not leave in time.
    pub expired_packets: u64,
    /// Number of packets that the receiver reported missing and that were on their way.
    pub kept_back: u64,
    /// Number of missing packets that were reported to the SRT sender.
    pub passed_on: u64,
}

/// A link for statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkReport {
    /// Its number.
    pub id: LinkId,
    /// Whether it can be used.
    pub state: LinkState,
    /// Its settings.
    pub options: LinkOptions,
    /// Last round trip.
    pub rtt: Duration,
    /// Smallest round trip of the last 5 to 10 s.
    pub base_rtt: Duration,
    /// Rate of its pacer.
    pub rate: DataRate,
    /// Number of packets of media in flight.
    pub in_flight: usize,
    /// Its counters.
    pub counters: LinkCounters,
}

/// A sender of SRTLA.
///
/// The driver passes datagrams to [`handle_srt`](Self::handle_srt) and
/// [`handle_link`](Self::handle_link), and calls [`handle_time`](Self::handle_time) at
/// [`next_timeout`](Self::next_timeout). After each call it sends all that
/// [`poll_transmit`](Self::poll_transmit) and [`poll_srt`](Self::poll_srt) return.
#[derive(Debug)]
pub struct Sender {
    registration: Registration,
    links: Vec<Option<Link>>,
    latency: Duration,
    memory: Memory,
    /// Packets that wait for a link: for the first time, and again.
    fresh: VecDeque<u64>,
    again: BTreeSet<u64>,
    queued_bytes: u64,
    /// Limit on packets that leave again, for any reason.
    budget: RepeatBudget,
    /// Packets that the receiver misses, while they are on their way.
    wanted: BTreeSet<u64>,
    /// Highest number of media so far; `None` before the first.
    highest: Option<u64>,
    /// Highest number that a link has acknowledged.
    highest_arrived: u64,
    /// First number that the receiver's SRT has not acknowledged.
    next: u64,
    /// Number of the last acknowledgement of SRT that was passed on, and its content.
    last_ack: Option<(u32, u32)>,
    /// Socket of the SRT sender, which a message can end.
    caller: Option<u32>,
    to_links: VecDeque<Transmit>,
    to_srt: VecDeque<Vec<u8>>,
    events: VecDeque<SenderEvent>,
    counters: SenderCounters,
    /// Time at which a queued packet may leave.
    start_at: Option<Instant>,
    tick_at: Instant,
}

impl Sender {
    /// Creates a sender without links. Names of groups are derived from `secret`, which must be
    /// random.
    pub fn new(now: Instant, secret: &[u8; SECRET_BYTES]) -> Self {
        Sender {
            registration: Registration::new(now, secret),
            links: Vec::new(),
            latency: DEFAULT_LATENCY,
            memory: Memory::default(),
            fresh: VecDeque::new(),
            again: BTreeSet::new(),
            queued_bytes: 0,
            budget: RepeatBudget::new(now, REPEATED_PERCENT),
            wanted: BTreeSet::new(),
            highest: None,
            highest_arrived: 0,
            next: 0,
            last_ack: None,
            caller: None,
            to_links: VecDeque::new(),
            to_srt: VecDeque::new(),
            events: VecDeque::new(),
            counters: SenderCounters::default(),
            start_at: None,
            tick_at: now,
        }
    }

    /// Adds a link; `None` if there are [`MAX_LINKS`].
    pub fn add_link(&mut self, now: Instant, options: LinkOptions) -> Option<LinkId> {
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or(self.links.len());
        if index >= MAX_LINKS {
            return None;
        }
        let link = Some(Link::new(now, options));
        match free {
            Some(index) => self.links[index] = link,
            None => self.links.push(link),
        }
        if let Group::Probing { at } = &mut self.registration.group {
            *at = (*at).min(now);
        }
        self.tick_at = now;
        Some(LinkId(index as u8))
    }

    /// Removes a link. Its packets in flight are sent again by others.
    pub fn remove_link(&mut self, now: Instant, id: LinkId) {
        let Some(mut link) = self.links.get_mut(usize::from(id.0)).and_then(Option::take) else {
            return;
        };
        let open = link.lower(now, LinkState::Out);
        self.registration.give_up(now, Some(id));
        self.send_again(now, open);
    }

    /// Records that a link has another socket or network. It joins again.
    pub fn handle_new_network(&mut self, now: Instant, id: LinkId) {
        let Some(link) = self.link_mut(id) else {
            return;
        };
        let was_up = link.is_up();
        let open = link.forget_network(now);
        if was_up {
            self.report(SenderEvent::LinkOut(id));
        }
        self.registration.give_up(now, Some(id));
        if let Group::Probing { at } = &mut self.registration.group {
            *at = (*at).min(now);
        }
        self.send_again(now, open);
        self.tick_at = now;
    }

    /// Changes a link's settings.
    pub fn set_options(&mut self, id: LinkId, options: LinkOptions) {
        if let Some(link) = self.link_mut(id) {
            link.options = options;
        }
    }

    /// Takes a datagram of the SRT sender.
    pub fn handle_srt(&mut self, now: Instant, datagram: &[u8]) {
        match Packet::parse(datagram) {
            None => {}
            Some(Packet::Data { number }) => self.take(now, number, datagram),
            Some(Packet::Handshake {
                is_induction,
                socket,
                ..
            }) => {
                if is_induction && self.caller != Some(socket) {
                    self.forget_stream();
                }
                self.caller = Some(socket);
                self.send_control(datagram);
            }
            Some(_) => self.send_control(datagram),
        }
    }

    /// Takes a datagram of a link.
    pub fn handle_link(&mut self, now: Instant, id: LinkId, datagram: &[u8]) {
        let Some(link) = self.link_mut(id) else {
            return;
        };
        link.on_received(datagram.len());
        match Answer::parse(datagram) {
            None => {}
            Some(Answer::NoGroup) => self.on_no_group(now, id),
            Some(Answer::Name(name)) => self.on_name(now, id, name),
            Some(Answer::Joined) => self.on_joined(now, id),
            Some(Answer::Refused) => self.on_refused(now, id),
            Some(Answer::Echo { millis }) => {
                let is_awaited = link.on_echo(now, millis);
                if is_awaited && link.state == LinkState::Out {
                    self.raise(now, id);
                }
            }
            Some(Answer::Acked(numbers)) => self.on_acked(now, id, numbers.iter()),
            Some(Answer::Srt) => self.on_srt(now, datagram),
        }
    }

    /// Advances timers.
    pub fn handle_time(&mut self, now: Instant) {
        if now < self.tick_at {
            return;
        }
        let is_busy = !self.memory.is_empty();
        self.tick_at = now + if is_busy { BUSY_TICK } else { IDLE_TICK };
        self.register(now);
        for id in self.ids() {
            self.tend(now, id);
        }
        self.recover(now);
        let age = self.latency + LEAST_MEMORY;
        self.memory.forget_older(now, age);
    }

    /// Returns the time of the next call of [`handle_time`](Self::handle_time), or of
    /// [`poll_transmit`](Self::poll_transmit) for a packet that waits for a pacer.
    pub fn next_timeout(&self) -> Instant {
        self.start_at
            .map_or(self.tick_at, |at| at.min(self.tick_at))
    }

    /// Returns the next datagram for a link.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = match self.to_links.pop_front() {
            Some(transmit) => transmit,
            None => self.next_media(now)?,
        };
        let bytes = transmit.datagram.len();
        if let Some(link) = self.link_mut(transmit.link) {
            link.on_datagram(bytes);
        }
        Some(transmit)
    }

    /// Returns the next datagram for the SRT sender.
    pub fn poll_srt(&mut self) -> Option<Vec<u8>> {
        self.to_srt.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// Returns the latency of the SRT connection by its handshake.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Returns the counters.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Returns the links.
    pub fn links(&self) -> impl Iterator<Item = LinkReport> + '_ {
        self.ids().into_iter().filter_map(|id| {
            let link = self.link(id)?;
            Some(LinkReport {
                id,
                state: link.state,
                options: link.options,
                rtt: link.rtt.latest(),
                base_rtt: link.rtt.base(),
                rate: link.pacing_rate(),
                in_flight: link.in_flight_packets(),
                counters: link.counters,
            })
        })
    }

    /// Returns the bitrate of media that the links carry, for an encoder that follows it. Metered
    /// links count only if there is no other.
    pub fn target(&self, now: Instant) -> DataRate {
        let all = self.links.iter().flatten();
        let up: Vec<&Link> = all
            .filter(|link| link.is_up() && link.rtt.forward() < self.latency)
            .collect();
        let has_free = up.iter().any(|link| !link.options.is_metered);
        let used = up
            .iter()
            .filter(|link| !has_free || !link.options.is_metered);
        let queued: u64 = up.iter().map(|link| link.queued_bytes(now)).sum();
        let rates = used.map(|link| link.usable_rate(now));
        target::target(rates, self.queued_bytes + queued)
    }

    fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(usize::from(id.0))?.as_ref()
    }

    fn link_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(id.0))?.as_mut()
    }

    fn ids(&self) -> Vec<LinkId> {
        let all = self.links.iter().enumerate();
        let present = all.filter(|(_, link)| link.is_some());
        present.map(|(index, _)| LinkId(index as u8)).collect()
    }

    fn report(&mut self, event: SenderEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    fn send(&mut self, link: LinkId, datagram: Vec<u8>) {
        if self.to_links.len() < MAX_WAITING {
            self.to_links.push_back(Transmit { link, datagram });
        }
    }

    fn send_to_srt(&mut self, datagram: Vec<u8>) {
        if self.to_srt.len() < MAX_WAITING {
            self.to_srt.push_back(datagram);
        }
    }

    /// Sends a message of SRT by the link with the shortest round trip. Without a link it is lost,
    /// as in any network.
    fn send_control(&mut self, datagram: &[u8]) {
        let up = self.ids().into_iter().filter_map(|id| {
            let link = self.link(id).filter(|link| link.is_up())?;
            Some((link.options.is_metered, link.rtt.latest(), id))
        });
        if let Some((_, _, id)) = up.min() {
            self.send(id, datagram.to_vec());
        }
    }

    /// Sends what registration asks for.
    fn register(&mut self, now: Instant) {
        self.registration.give_up(now, None);
        if let Some((link, name)) = self.registration.repeats(now) {
            self.send(link, wire::asks(&name));
        }
        if self.registration.takes_probe(now) {
            let probe = join_request(&self.registration.fresh_name());
            self.ids()
                .into_iter()
                .for_each(|id| self.send(id, probe.clone()));
        }
    }

    /// Sends a link's keepalive and request to join, and takes it out of use if it is silent.
    fn tend(&mut self, now: Instant, id: LinkId) {
        let patience = (self.latency / 4).clamp(LEAST_PATIENCE, MAX_PATIENCE);
        let request = match &self.registration.group {
            Group::Named { id, .. } => Some(join_request(id)),
            _ => None,
        };
        let oldest = now.saturating_sub((self.latency + LEAST_MEMORY) * 2);
        let Some(link) = self.link_mut(id) else {
            return;
        };
        link.forget_before(oldest);
        link.update_rate(now);
        if link.is_up() && link.is_silent(now, patience) {
            let open = link.lower(now, LinkState::Out);
            self.report(SenderEvent::LinkOut(id));
            self.send_again(now, open);
        }
        let Some(link) = self.link_mut(id) else {
            return;
        };
        let is_due = !link.is_up() && now >= link.join_at;
        if is_due && let Some(request) = request {
            link.join_at = now + RETRY;
            link.join_sent_at.get_or_insert(now);
            self.send(id, request);
        }
        let link = self.link_mut(id);
        if let Some(keepalive) = link.and_then(|link| link.keepalive(now, u32::from(id.0))) {
            self.send(id, keepalive);
        }
    }

    fn raise(&mut self, now: Instant, id: LinkId) {
        if let Some(link) = self.link_mut(id) {
            link.raise(now);
            self.report(SenderEvent::LinkUp(id));
            self.tick_at = now;
        }
    }

    fn on_no_group(&mut self, now: Instant, id: LinkId) {
        let is_any_up = self.links.iter().flatten().any(Link::is_up);
        match &self.registration.group {
            Group::Probing { .. } => {}
            Group::Named { .. } if !is_any_up && self.registration.is_lost(now) => {
                self.lose_group(now);
            }
            // Another link still proves the group.
            Group::Named { .. } | Group::Asking { .. } => return,
        }
        let name = self.registration.ask(now, id);
        self.send(id, wire::asks(&name));
    }

    /// Ends the SRT connection, of which the receiver knows nothing any more: the SRT sender
    /// connects again at once, and not after its own timeout of seconds.
    fn lose_group(&mut self, now: Instant) {
        for link in self.links.iter_mut().flatten() {
            link.lower(now, LinkState::Joining);
        }
        if let Some(caller) = self.caller {
            self.send_to_srt(srt::shutdown(caller));
        }
        self.forget_stream();
        self.report(SenderEvent::GroupLost);
    }

    fn on_name(&mut self, now: Instant, id: LinkId, name: &crate::wire::Id) {
        match &self.registration.group {
            Group::Asking {
                link, id: asked, ..
            } if *link == id && wire::has_same_half(asked, name) => {}
            _ => return,
        }
        self.registration.group = Group::Named {
            id: Box::new(*name),
            since: now,
            is_joined: false,
        };
        self.links
            .iter_mut()
            .flatten()
            .for_each(|link| link.join_at = now);
        self.tick_at = now;
    }

    fn on_joined(&mut self, now: Instant, id: LinkId) {
        let link = self.link_mut(id).filter(|link| !link.is_up());
        let Some((link, sent_at)) = link.and_then(|link| link.join_sent_at.map(|at| (link, at)))
        else {
            return;
        };
        link.rtt.on_sample(now, now.saturating_since(sent_at));
        if let Group::Named { is_joined, .. } = &mut self.registration.group {
            *is_joined = true;
            self.raise(now, id);
        }
    }

    fn on_refused(&mut self, now: Instant, id: LinkId) {
        match &mut self.registration.group {
            Group::Asking { link, .. } if *link == id => {
                self.registration.group = Group::Probing {
                    at: now + REFUSED_WAIT,
                };
            }
            Group::Named { .. } => {
                let link = self.link_mut(id).filter(|link| !link.is_up());
                let Some(link) = link.filter(|link| link.join_sent_at.is_some()) else {
                    return;
                };
                link.join_sent_at = None;
                link.join_at = now + REFUSED_WAIT;
            }
            _ => return,
        }
        self.report(SenderEvent::Refused(id));
    }
}
