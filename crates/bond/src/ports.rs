//! Sockets of the links.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use anabranch_core::PathId;
use anabranch_net::system::is_gone;
use anabranch_net::{ClientPath, Event, LinkCap, PlainSocket, Remote, ResolveError, Surroundings};
use anabranch_srtla::{LinkId, LinkOptions};
use anabranch_units::{Duration, Instant};

/// Interval at which an absent interface or address is checked. Chosen.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a name without addresses, or a link that does not answer, is looked up again.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of lookups at a time.
const MAX_PENDING_LOOKUPS: usize = 32;
/// Silence of a link that is not up, after which it tries the next address of its receiver from
/// another local port. Chosen: three requests and round trips of a far network.
const TURN_SILENCE: Duration = Duration::from_secs(3);

/// The local side of one link.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) path: ClientPath,
    pub(super) cap: Option<LinkCap>,
    /// The socket; `None` while its interface, its address or the receiver's is absent.
    socket: Option<PlainSocket>,
    /// Whether its owner has removed it: nothing is opened then.
    is_closed: bool,
    /// Address that the socket sends to.
    pub(super) peer: Option<SocketAddr>,
    /// The receiver's addresses.
    addresses: Vec<SocketAddr>,
    /// Number of addresses that were tried in vain.
    turn: usize,
    /// Time at which the socket was opened or last heard.
    heard_at: Instant,
    look_at: Instant,
    lookup_at: Instant,
    is_up: bool,
    is_absence_reported: bool,
    /// Datagrams that the system refused, and its last reason.
    pub(super) unsent: u64,
    pub(super) last_error: Option<String>,
    /// Number of links that had this number before.
    pub(super) succession: u64,
}

/// All ports, by the numbers of their links.
#[derive(Debug)]
pub(super) struct Ports {
    entries: Vec<Port>,
    /// Answers of resolvers, and the number of those that are awaited.
    answers: (Sender<Answer>, Receiver<Answer>),
    pending: usize,
}

impl Default for Ports {
    fn default() -> Self {
        Ports {
            entries: Vec::new(),
            answers: channel(),
            pending: 0,
        }
    }
}

/// The number of a port, and its receiver's addresses or the reason why there are none.
type Answer = (usize, Result<Vec<SocketAddr>, ResolveError>);

/// Returns a path's settings for the sender.
pub(super) fn link_options(path: &ClientPath) -> LinkOptions {
    LinkOptions {
        weight: path.options.weight,
        is_metered: path.options.is_metered,
        max_rate: path.options.max_rate,
    }
}

impl Port {
    fn new(now: Instant, path: ClientPath) -> Self {
        let addresses = match &path.remote {
            Remote::Address(address) => vec![*address],
            Remote::Name(_) => Vec::new(),
        };
        Port {
            path,
            cap: None,
            socket: None,
            is_closed: false,
            peer: None,
            addresses,
            turn: 0,
            heard_at: now,
            look_at: now,
            lookup_at: now,
            is_up: false,
            is_absence_reported: false,
            unsent: 0,
            last_error: None,
            succession: 0,
        }
    }

    /// Opens the socket towards the first address that its interface reaches, beginning with the
    /// one whose turn it is.
    ///
    /// # Errors
    /// The reason for the last address.
    fn open(&mut self, now: Instant, surroundings: &Surroundings) -> Result<(), String> {
        let mut reason = "the receiver's address is not known yet".to_owned();
        let count = self.addresses.len();
        for step in 0..count {
            let address = self.addresses[(self.turn + step) % count];
            match PlainSocket::open(surroundings, &self.path.via, address) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    self.peer = Some(address);
                    self.heard_at = now;
                    return Ok(());
                }
                Err(error) => reason = with_causes(&error),
            }
        }
        Err(reason)
    }

    fn send(&mut self, datagram: &[u8]) {
        let Some(socket) = &self.socket else {
            self.unsent += 1;
            return;
        };
        let Err(error) = socket.send(datagram) else {
            return;
        };
        if is_gone(&error) {
            self.socket = None;
            self.look_at = Instant::ZERO;
        } else if matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
        ) {
            // An earlier datagram found no receiver.
            return;
        }
        self.unsent += 1;
        self.last_error = Some(error.to_string());
    }
}

/// Returns an error's text with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Ports {
    /// Adds the port of a link with the next number.
    pub(super) fn add(&mut self, now: Instant, index: usize, path: ClientPath) {
        debug_assert_eq!(index, self.entries.len(), "links are never removed");
        self.entries.push(Port::new(now, path));
    }

    /// Puts another port in place of one.
    pub(super) fn replace(&mut self, now: Instant, index: usize, path: ClientPath) {
        if let Some(port) = self.entries.get_mut(index) {
            let succession = port.succession + 1;
            *port = Port {
                succession,
                is_absence_reported: port.is_absence_reported,
                ..Port::new(now, path)
            };
        }
    }

    /// Closes the socket of a link that is removed.
    pub(super) fn close(&mut self, id: PathId) {
        if let Some(port) = self.entries.get_mut(id.index()) {
            port.socket = None;
            port.is_up = false;
            port.is_closed = true;
        }
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Port> {
        self.entries.get(usize::from(id.0))
    }

    pub(super) fn set_cap(&mut self, id: PathId, cap: Option<LinkCap>) {
        if let Some(port) = self.entries.get_mut(id.index()) {
            port.cap = cap;
        }
    }

    /// Marks a link as metered. Returns its settings.
    pub(super) fn set_metered(&mut self, id: PathId, is_metered: bool) -> Option<LinkOptions> {
        let port = self.entries.get_mut(id.index())?;
        port.path.options.is_metered = is_metered;
        Some(link_options(&port.path))
    }

    pub(super) fn on_up(&mut self, id: LinkId) {
        if let Some(port) = self.entries.get_mut(usize::from(id.0)) {
            port.is_up = true;
        }
    }

    /// Records that a link's socket has received a datagram.
    pub(super) fn on_heard(&mut self, now: Instant, id: LinkId) {
        if let Some(port) = self.entries.get_mut(usize::from(id.0)) {
            port.heard_at = now;
        }
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = &PlainSocket> {
        self.entries.iter().filter_map(|port| port.socket.as_ref())
    }

    /// Returns the sockets with their links' numbers.
    pub(super) fn numbered_sockets(&self) -> Vec<(LinkId, PlainSocket)> {
        let all = self.entries.iter().enumerate();
        let open =
            all.filter_map(|(index, port)| Some((LinkId(index as u8), port.socket.clone()?)));
        open.collect()
    }

    pub(super) fn send(&mut self, id: LinkId, datagram: &[u8]) {
        if let Some(port) = self.entries.get_mut(usize::from(id.0)) {
            port.send(datagram);
        }
    }

    /// Looks for absent interfaces and names. Returns the links that have another socket.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        surroundings: &Surroundings,
        events: &mut VecDeque<Event>,
    ) -> Vec<LinkId> {
        while let Ok((index, found)) = self.answers.1.try_recv() {
            self.pending -= 1;
            if let (Some(port), Ok(found)) = (self.entries.get_mut(index), found) {
                let is_moved = port.peer.is_some_and(|peer| !found.contains(&peer));
                port.addresses = found;
                if is_moved || port.socket.is_none() {
                    port.socket = None;
                    port.look_at = now;
                }
            }
        }
        let mut opened = Vec::new();
        for (index, port) in self.entries.iter_mut().enumerate() {
            let path = PathId(index as u8);
            if port.is_closed {
                continue;
            }
            let needs_lookup = port.addresses.is_empty() || !port.is_up;
            let is_name = matches!(port.path.remote, Remote::Name(_));
            let may_ask = self.pending < MAX_PENDING_LOOKUPS;
            if is_name && needs_lookup && now >= port.lookup_at {
                port.lookup_at = now + LOOKUP_INTERVAL;
                let answers = self.answers.0.clone();
                let is_asked = may_ask
                    && surroundings.resolve_beside(
                        &port.path.remote,
                        // Nobody reads it once the sender is gone.
                        Box::new(move |found| drop(answers.send((index, found)))),
                    );
                self.pending += usize::from(is_asked);
            }
            if port.socket.is_some() && !port.is_up && now >= port.heard_at + TURN_SILENCE {
                // Its address may not answer, or a translator's entry may lead nowhere.
                port.turn = port.turn.wrapping_add(1);
                port.socket = None;
                port.look_at = now;
            }
            if port.socket.is_some() || now < port.look_at {
                continue;
            }
            port.look_at = now + POLL_INTERVAL;
            match port.open(now, surroundings) {
                Ok(()) => {
                    opened.push(LinkId(index as u8));
                    if core::mem::take(&mut port.is_absence_reported) {
                        events.push_back(Event::PathPresent { path });
                    }
                }
                Err(reason) => {
                    port.is_up = false;
                    if !core::mem::replace(&mut port.is_absence_reported, true) {
                        events.push_back(Event::PathAbsent { path, reason });
                    }
                }
            }
        }
        opened
    }

    /// Records that a link does not answer: its receiver's name may have moved.
    pub(super) fn on_out(&mut self, id: LinkId) {
        if let Some(port) = self.entries.get_mut(usize::from(id.0)) {
            port.is_up = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use anabranch_core::PathOptions;
    use anabranch_net::{Clock, Via};

    use super::*;

    /// Returns ports with one link to a receiver of these addresses.
    fn ports(addresses: &[SocketAddr]) -> Ports {
        let path = ClientPath {
            via: Via::DefaultRoute,
            remote: addresses[0].into(),
            options: PathOptions::default(),
        };
        let mut ports = Ports::default();
        ports.add(Instant::ZERO, 0, path);
        ports.entries[0].addresses = addresses.to_vec();
        ports
    }

    fn receivers() -> [UdpSocket; 2] {
        [1, 2].map(|last| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap())
    }

    #[test]
    fn a_link_tries_all_addresses_until_one_answers_and_each_from_another_port() {
        let receivers = receivers();
        let addresses = receivers.each_ref().map(|one| one.local_addr().unwrap());
        let (mut ports, surroundings) = (ports(&addresses), Surroundings::system(Clock::start()));
        let (mut events, link) = (VecDeque::new(), LinkId(0));
        let mut locals = Vec::new();
        for turn in 0..4 {
            let now = Instant::ZERO + TURN_SILENCE * turn;
            assert_eq!(
                ports.tend(now, &surroundings, &mut events),
                [link],
                "{turn}"
            );
            let port = ports.get(link).unwrap();
            assert_eq!(port.peer, Some(addresses[turn as usize % 2]));
            let local = port.socket.as_ref().unwrap().local_addr().unwrap();
            assert!(!locals.contains(&local), "{local}");
            locals.push(local);
            let soon = (now + TURN_SILENCE).saturating_sub(Duration::from_millis(1));
            assert_eq!(ports.tend(soon, &surroundings, &mut events), []);
        }
        assert_eq!(events, []);
    }

    #[test]
    fn a_link_that_is_heard_or_up_keeps_its_address() {
        let addresses = receivers().map(|one| one.local_addr().unwrap());
        let (mut ports, surroundings) = (ports(&addresses), Surroundings::system(Clock::start()));
        let (mut events, link) = (VecDeque::new(), LinkId(0));
        ports.tend(Instant::ZERO, &surroundings, &mut events);
        for second in 1..10 {
            let now = Instant::from_secs(second);
            ports.on_heard(now, link);
            assert_eq!(ports.tend(now, &surroundings, &mut events), []);
        }
        ports.on_up(link);
        assert_eq!(
            ports.tend(Instant::from_secs(100), &surroundings, &mut events),
            []
        );
        ports.on_out(link);
        assert_eq!(
            ports.tend(Instant::from_secs(100), &surroundings, &mut events),
            [link]
        );
        assert_eq!(ports.get(link).unwrap().peer, Some(addresses[1]));
    }
}
