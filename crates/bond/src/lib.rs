//! SRTLA's sending side over sockets: several links to a receiver, for one SRT connection whose
//! datagrams the owner hands in and takes out.
//!
//! A [`Bond`] has no thread. Its owner is [`Work`](anabranch_net::Work) of a worker: it calls
//! [`read_links`](Bond::read_links) and [`tend`](Bond::tend) in each turn, and takes what
//! [`poll_srt`](Bond::poll_srt) returns.
//!
//! | file | idea |
//! |---|---|
//! | `ports.rs` | the links' sockets, whose interfaces may vanish and return |
//! | `snapshot.rs` | the state as the statistics of sessions show it |

mod ports;
mod snapshot;

use std::collections::VecDeque;
use std::io;

use anabranch_core::{PathId, PathState, SourceLimits};
use anabranch_net::{ClientPath, Event, LinkCap, PlainSocket, Snapshot, Surroundings};
use anabranch_srtla::{LinkId, MAX_LINKS, Sender, SenderEvent};
use anabranch_units::{DataRate, Instant};

use ports::Ports;

/// Maximum datagrams read from one socket before the others have their turn.
const AT_ONCE: usize = 64;
/// Maximum number of events that wait for their reader.
const MAX_EVENTS: usize = 1_024;

/// A report about the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It refuses a link: it has no place for it now, and is asked again.
    Refused(PathId),
    /// It does not know this sender any more, as after a restart. SRT connects again.
    GroupLost,
}

/// Links to a receiver of SRTLA.
#[derive(Debug)]
pub struct Bond {
    sender: Sender,
    ports: Ports,
    limits: SourceLimits,
    connected_at: Option<Instant>,
    events: VecDeque<Event>,
    notices: VecDeque<Notice>,
    surroundings: Surroundings,
}

impl Bond {
    /// Maximum number of paths.
    pub const MAX_PATHS: usize = MAX_LINKS;
    /// Longest datagram of a link, for buffers.
    pub const MAX_DATAGRAM_BYTES: usize = 1_500;

    /// Creates a bond without paths for an encoder with these limits.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(limits: SourceLimits, surroundings: &Surroundings) -> io::Result<Self> {
        let now = surroundings.clock().now();
        Ok(Bond {
            sender: Sender::new(now, &surroundings.random_bytes()?),
            ports: Ports::default(),
            limits,
            connected_at: None,
            events: VecDeque::new(),
            notices: VecDeque::new(),
            surroundings: surroundings.clone(),
        })
    }

    fn now(&self) -> Instant {
        self.surroundings.clock().now()
    }

    /// Adds a path, and returns its number; `None` if there are [`MAX_PATHS`](Self::MAX_PATHS).
    pub fn add_path(&mut self, path: ClientPath) -> Option<PathId> {
        let now = self.now();
        let id = self.sender.add_link(now, ports::link_options(&path))?;
        self.ports.add(now, usize::from(id.0), path);
        Some(PathId(id.0))
    }

    /// Gives a path the number of another, which may have been removed before.
    pub fn replace_path(&mut self, id: PathId, by: ClientPath) {
        let (now, link) = (self.now(), LinkId(id.0));
        self.sender.remove_link(now, link);
        // It gets the free number.
        let _ = self.sender.add_link(now, ports::link_options(&by));
        self.ports.replace(now, id.index(), by);
    }

    /// Removes a path. Its packets in flight are sent again by others. The lowest number that is
    /// free must be the next to be [replaced](Self::replace_path).
    pub fn remove_path(&mut self, id: PathId) {
        let now = self.now();
        self.sender.remove_link(now, LinkId(id.0));
        self.ports.close(id);
    }

    /// Marks a path as metered, or not.
    pub fn set_metered(&mut self, id: PathId, is_metered: bool) {
        if let Some(options) = self.ports.set_metered(id, is_metered) {
            self.sender.set_options(LinkId(id.0), options);
        }
    }

    /// Sets the volume that a path may carry, for statistics.
    pub fn set_cap(&mut self, id: PathId, cap: Option<LinkCap>) {
        self.ports.set_cap(id, cap);
    }

    /// Returns the target bitrate within the encoder's range.
    pub fn target(&self, now: Instant) -> DataRate {
        let target = self.sender.target(now);
        match self.limits {
            SourceLimits::Adaptive { min, max } => target.clamp(min, max),
            SourceLimits::Fixed => target,
        }
    }

    /// Returns the target bitrate of the present.
    pub fn present_target(&self) -> DataRate {
        self.target(self.now())
    }

    /// Returns the state for statistics.
    pub fn snapshot(&self) -> Snapshot {
        self.state_at(self.now())
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the next report about the receiver.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Returns the sockets of the links.
    pub fn sockets(&self) -> impl Iterator<Item = &PlainSocket> {
        self.ports.sockets()
    }

    /// Returns the time of the next call of [`tend`](Self::tend), if nothing arrives before.
    pub fn next_timeout(&self) -> Instant {
        self.sender.next_timeout()
    }

    /// Takes a datagram of the SRT sender.
    pub fn handle_srt(&mut self, now: Instant, datagram: &[u8]) {
        self.sender.handle_srt(now, datagram);
        self.send(now);
    }

    /// Returns the next datagram for the SRT sender.
    pub fn poll_srt(&mut self) -> Option<Vec<u8>> {
        self.sender.poll_srt()
    }

    /// Takes the datagrams that have arrived by links.
    pub fn read_links(&mut self, now: Instant, buffer: &mut [u8]) {
        for (id, socket) in self.ports.numbered_sockets() {
            for _ in 0..AT_ONCE {
                let length = match socket.recv(buffer) {
                    Ok((length, _, _)) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => continue,
                };
                self.ports.on_heard(now, id);
                self.sender.handle_link(now, id, &buffer[..length]);
            }
        }
    }

    /// Advances timers, and looks for interfaces and names.
    pub fn tend(&mut self, now: Instant) {
        for id in self.ports.tend(now, &self.surroundings, &mut self.events) {
            self.sender.handle_new_network(now, id);
        }
        self.sender.handle_time(now);
        self.send(now);
        while let Some(event) = self.sender.poll_event() {
            self.on_event(now, event);
        }
        self.events.truncate(MAX_EVENTS);
        self.notices.truncate(MAX_EVENTS);
    }

    fn send(&mut self, now: Instant) {
        while let Some(transmit) = self.sender.poll_transmit(now) {
            self.ports.send(transmit.link, &transmit.datagram);
        }
    }

    fn on_event(&mut self, now: Instant, event: SenderEvent) {
        match event {
            SenderEvent::LinkUp(id) => {
                self.connected_at.get_or_insert(now);
                self.ports.on_up(id);
                self.report(id, PathState::Active);
            }
            SenderEvent::LinkOut(id) => {
                self.ports.on_out(id);
                self.report(id, PathState::Out);
            }
            SenderEvent::Refused(id) => self.notices.push_back(Notice::Refused(PathId(id.0))),
            SenderEvent::GroupLost => self.notices.push_back(Notice::GroupLost),
        }
    }

    fn report(&mut self, id: LinkId, state: PathState) {
        let path = PathId(id.0);
        self.events.push_back(Event::PathState { path, state });
    }
}
