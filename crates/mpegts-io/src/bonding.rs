//! SRTLA's sending side over sockets: one SRT connection at this end, several links to a receiver.
//!
//! | file | idea |
//! |---|---|
//! | `bonding/ports.rs` | the links' sockets, whose interfaces may vanish and return |
//! | `bonding/snapshot.rs` | the state as the statistics of sessions show it |

mod ports;
mod snapshot;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_core::{PathId, PathState, SourceLimits};
use anabranch_net::{
    ClientPath, Event, LinkCap, PathSnapshot, PlainSocket, Snapshot, Surroundings, Work, Worker,
};
use anabranch_srtla::{MAX_LINKS, Sender, SenderEvent};
use anabranch_terminal::print;
use anabranch_units::{DataRate, Duration, Instant};
use anyhow::{Context, bail};

use crate::same_user::{SameUser, bind_to_keep};
use ports::Ports;

/// Maximum datagrams read from one socket before the others have their turn.
const AT_ONCE: usize = 64;
/// Longest wait, after which the thread looks for changes of the paths.
const PATIENCE: Duration = Duration::from_millis(50);
/// Longest datagram on an Ethernet.
const MAX_DATAGRAM_BYTES: usize = 1_500;
/// Silence after which another SRT sender may take over: a program that was started again.
const CALLER_SILENCE: Duration = Duration::from_secs(1);
/// Maximum number of events that wait for their reader.
const MAX_EVENTS: usize = 1_024;
/// The first bit and type of SRT's handshake.
const HANDSHAKE: [u8; 2] = [0x80, 0];

/// Programs whose SRT connection is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// This user's programs.
    SameUser,
    /// Every program that reaches the address.
    All,
}

/// A sender of SRTLA, whose thread ends when this is dropped.
#[derive(Debug)]
pub struct BondedSender {
    shared: Shared,
    address: SocketAddr,
    _worker: Worker,
}

/// The state, through a lock that the thread holds only while it works.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    sender: Sender,
    ports: Ports,
    srt: PlainSocket,
    /// The SRT sender's address, and when it was last heard.
    caller: Option<(SocketAddr, Instant)>,
    guard: Option<SameUser>,
    limits: SourceLimits,
    connected_at: Option<Instant>,
    events: VecDeque<Event>,
    surroundings: Surroundings,
}

impl BondedSender {
    /// Maximum number of paths.
    pub const MAX_PATHS: usize = MAX_LINKS;

    /// Listens for an SRT sender at `listen`, and carries its connection over the paths.
    ///
    /// # Errors
    /// The address is taken, there are too many paths, or the system has no randomness.
    pub fn start(
        listen: SocketAddr,
        callers: Callers,
        paths: &[ClientPath],
        limits: SourceLimits,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Self> {
        let srt = PlainSocket::listen_by(surroundings, listen, bind_to_keep);
        let srt = srt.with_context(|| format!("cannot listen for SRT at {listen}"))?;
        let address = srt.local_addr().context("a socket without an address")?;
        let now = surroundings.clock().now();
        let mut state = State {
            sender: Sender::new(now, &surroundings.random_bytes()?),
            ports: Ports::default(),
            srt,
            caller: None,
            guard: (callers == Callers::SameUser).then(SameUser::default),
            limits,
            connected_at: None,
            events: VecDeque::new(),
            surroundings: surroundings.clone(),
        };
        for path in paths {
            state.add_path(path.clone())?;
        }
        let shared = Shared(Arc::new(Mutex::new(state)));
        let worker = Worker::start("srtla", surroundings, shared.clone());
        Ok(BondedSender {
            shared,
            address,
            _worker: worker.context("cannot start a thread")?,
        })
    }

    /// Returns the address at which it listens for SRT.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the state for statistics.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot()
    }

    /// Returns the bitrate for the encoder.
    pub fn target_bitrate(&self) -> DataRate {
        let state = self.shared.lock();
        state.target(state.now())
    }

    /// Returns the next event.
    pub fn next_event(&self) -> Option<Event> {
        self.shared.lock().events.pop_front()
    }

    /// Adds a path.
    ///
    /// # Errors
    /// There are [`BondedSender::MAX_PATHS`].
    pub fn add_path(&self, path: ClientPath) -> anyhow::Result<()> {
        self.shared.lock().add_path(path)
    }

    /// Gives a path the number of another. Returns the last state of the old one.
    ///
    /// # Errors
    /// There is no path of this number.
    pub fn replace_path(&self, id: PathId, by: ClientPath) -> anyhow::Result<PathSnapshot> {
        let mut state = self.shared.lock();
        let old = state.snapshot().paths.into_iter().nth(id.index());
        let old = old.with_context(|| format!("there is no path {id}"))?;
        state.replace_path(id, by);
        Ok(old)
    }

    /// Marks a path as metered, or not.
    pub fn set_metered(&self, id: PathId, is_metered: bool) {
        self.shared.lock().set_metered(id, is_metered);
    }

    /// Sets the volume that a path may carry, for statistics.
    pub fn set_cap(&self, id: PathId, cap: Option<LinkCap>) {
        self.shared.lock().ports.set_cap(id, cap);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Shared {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        if is_ending {
            return None;
        }
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let mut state = self.lock();
        state.read_srt(now, &mut buffer);
        state.read_links(now, &mut buffer);
        state.tend(now);
        Some(state.sender.next_timeout().min(now + PATIENCE))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        let state = self.lock();
        let links = state.ports.sockets();
        core::iter::once(&state.srt).chain(links).cloned().collect()
    }
}

impl State {
    fn now(&self) -> Instant {
        self.surroundings.clock().now()
    }

    fn add_path(&mut self, path: ClientPath) -> anyhow::Result<()> {
        let now = self.now();
        let options = ports::link_options(&path);
        let Some(id) = self.sender.add_link(now, options) else {
            bail!("SRTLA has {MAX_LINKS} links at most");
        };
        self.ports.add(now, usize::from(id.0), path);
        Ok(())
    }

    fn replace_path(&mut self, id: PathId, by: ClientPath) {
        let (now, link) = (self.now(), anabranch_srtla::LinkId(id.0));
        self.sender.remove_link(now, link);
        // It gets the free number.
        let _ = self.sender.add_link(now, ports::link_options(&by));
        self.ports.replace(now, id.index(), by);
    }

    fn set_metered(&mut self, id: PathId, is_metered: bool) {
        if let Some(options) = self.ports.set_metered(id, is_metered) {
            self.sender
                .set_options(anabranch_srtla::LinkId(id.0), options);
        }
    }

    /// Returns the target within the encoder's range.
    fn target(&self, now: Instant) -> DataRate {
        let target = self.sender.target(now);
        match self.limits {
            SourceLimits::Adaptive { min, max } => target.clamp(min, max),
            SourceLimits::Fixed => target,
        }
    }

    fn read_srt(&mut self, now: Instant, buffer: &mut [u8]) {
        for _ in 0..AT_ONCE {
            let (length, from, _) = match self.srt.recv(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It concerns an earlier datagram.
                Err(_) => continue,
            };
            let datagram = &buffer[..length];
            if self.admits(now, from, datagram) {
                self.caller = Some((from, now));
                self.sender.handle_srt(now, datagram);
                self.send(now);
            }
        }
    }

    /// Returns whether a datagram is of the SRT sender. Another one takes over after a silence.
    fn admits(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        if let (Some(guard), Some(socket)) = (&mut self.guard, self.srt.system())
            && !guard.admits(socket, now, from)
        {
            return false;
        }
        match self.caller {
            Some((caller, _)) if caller == from => true,
            Some((_, heard_at)) if now < heard_at + CALLER_SILENCE => false,
            _ => datagram.starts_with(&HANDSHAKE),
        }
    }

    fn read_links(&mut self, now: Instant, buffer: &mut [u8]) {
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

    /// Advances the sender and the ports.
    fn tend(&mut self, now: Instant) {
        if let (Some(guard), Some(socket)) = (&mut self.guard, self.srt.system()) {
            guard.on_silence(socket, now);
        }
        for id in self.ports.tend(now, &self.surroundings, &mut self.events) {
            self.sender.handle_new_network(now, id);
        }
        self.sender.handle_time(now);
        self.send(now);
        while let Some(event) = self.sender.poll_event() {
            self.on_event(now, event);
        }
        self.events.truncate(MAX_EVENTS);
    }

    fn send(&mut self, now: Instant) {
        while let Some(transmit) = self.sender.poll_transmit(now) {
            self.ports.send(transmit.link, &transmit.datagram);
        }
        while let Some(datagram) = self.sender.poll_srt() {
            if let Some((caller, _)) = self.caller {
                let _ = self.srt.send_to(&datagram, caller, None);
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: SenderEvent) {
        let path = |id: anabranch_srtla::LinkId| PathId(id.0);
        match event {
            SenderEvent::LinkUp(id) => {
                self.connected_at.get_or_insert(now);
                self.ports.on_up(id);
                self.events.push_back(Event::PathState {
                    path: path(id),
                    state: PathState::Active,
                });
            }
            SenderEvent::LinkOut(id) => {
                self.ports.on_out(id);
                self.events.push_back(Event::PathState {
                    path: path(id),
                    state: PathState::Out,
                });
            }
            SenderEvent::Refused(id) => print::warn(format_args!(
                "the receiver refuses link {}: it has no place for it now, and is asked again",
                id.0
            )),
            SenderEvent::GroupLost => print::warn(
                "the receiver does not know this sender any more, as after a restart: SRT connects \
                 again",
            ),
        }
    }
}

// Needs a clock: threads serve real sockets.
#[cfg(test)]
mod real_time_tests;
