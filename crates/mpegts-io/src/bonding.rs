//! SRTLA's sending side with an SRT connection at this end: a program's, or this one's.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_bond::{Bond, Notice};
use anabranch_core::{PathId, SourceLimits};
use anabranch_net::{
    ClientPath, Event, LinkCap, PathSnapshot, PlainSocket, Snapshot, Surroundings, Work, Worker,
};
use anabranch_units::{DataRate, Duration, Instant};

use crate::same_user::{SameUser, bind_to_keep};

/// Maximum datagrams read from the socket before the links have their turn.
const AT_ONCE: usize = 64;
/// Longest wait, after which the thread looks for changes of the paths.
const PATIENCE: Duration = Duration::from_millis(50);
/// Silence after which another SRT sender may take over: a program that was started again.
const CALLER_SILENCE: Duration = Duration::from_secs(1);
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

/// Reasons for which a sender of SRTLA was not started, or has no such path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BondingError {
    /// The address cannot be listened at.
    #[error("cannot listen for SRT at {listen}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The system does not report the address of the socket.
    #[error("a socket without an address")]
    LocalAddress(#[source] io::Error),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(io::Error),
    /// There are as many paths as SRTLA has links.
    #[error("SRTLA has {} links at most", Bond::MAX_PATHS)]
    TooManyPaths,
    /// There is no path of this number.
    #[error("there is no path {id}")]
    NoPath {
        /// The number.
        id: PathId,
    },
    /// The thread was not started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
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
    bond: Bond,
    srt: PlainSocket,
    /// The SRT sender's address, and when it was last heard.
    caller: Option<(SocketAddr, Instant)>,
    guard: Option<SameUser>,
}

impl BondedSender {
    /// Maximum number of paths.
    pub const MAX_PATHS: usize = Bond::MAX_PATHS;

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
    ) -> Result<Self, BondingError> {
        let srt = PlainSocket::listen_by(surroundings, listen, bind_to_keep)
            .map_err(|source| BondingError::Listen { listen, source })?;
        let address = srt.local_addr().map_err(BondingError::LocalAddress)?;
        let mut state = State {
            bond: Bond::new(limits, surroundings).map_err(BondingError::Randomness)?,
            srt,
            caller: None,
            guard: (callers == Callers::SameUser).then(SameUser::default),
        };
        for path in paths {
            state.add_path(path.clone())?;
        }
        let shared = Shared(Arc::new(Mutex::new(state)));
        let worker = Worker::start("srtla", surroundings, shared.clone());
        Ok(BondedSender {
            shared,
            address,
            _worker: worker.map_err(BondingError::Thread)?,
        })
    }

    /// Returns the address at which it listens for SRT.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the state for statistics.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().bond.snapshot()
    }

    /// Returns the bitrate for the encoder.
    pub fn target_bitrate(&self) -> DataRate {
        self.shared.lock().bond.present_target()
    }

    /// Returns the next event.
    pub fn next_event(&self) -> Option<Event> {
        self.shared.lock().bond.next_event()
    }

    /// Adds a path.
    ///
    /// # Errors
    /// There are [`BondedSender::MAX_PATHS`].
    pub fn add_path(&self, path: ClientPath) -> Result<(), BondingError> {
        self.shared.lock().add_path(path)
    }

    /// Gives a path the number of another. Returns the last state of the old one.
    ///
    /// # Errors
    /// There is no path of this number.
    pub fn replace_path(&self, id: PathId, by: ClientPath) -> Result<PathSnapshot, BondingError> {
        let mut state = self.shared.lock();
        let old = state
            .bond
            .snapshot()
            .paths
            .into_iter()
            .nth(id.index())
            .ok_or(BondingError::NoPath { id })?;
        state.bond.replace_path(id, by);
        Ok(old)
    }

    /// Marks a path as metered, or not.
    pub fn set_metered(&self, id: PathId, is_metered: bool) {
        self.shared.lock().bond.set_metered(id, is_metered);
    }

    /// Sets the volume that a path may carry, for statistics.
    pub fn set_cap(&self, id: PathId, cap: Option<LinkCap>) {
        self.shared.lock().bond.set_cap(id, cap);
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
        let mut buffer = [0; Bond::MAX_DATAGRAM_BYTES];
        let mut state = self.lock();
        state.read_srt(now, &mut buffer);
        state.bond.read_links(now, &mut buffer);
        state.tend(now);
        Some(state.bond.next_timeout().min(now + PATIENCE))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        let state = self.lock();
        let links = state.bond.sockets();
        core::iter::once(&state.srt).chain(links).cloned().collect()
    }
}

impl State {
    fn add_path(&mut self, path: ClientPath) -> Result<(), BondingError> {
        match self.bond.add_path(path) {
            Some(_) => Ok(()),
            None => Err(BondingError::TooManyPaths),
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
                self.bond.handle_srt(now, datagram);
                self.answer();
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

    /// Advances the links.
    fn tend(&mut self, now: Instant) {
        if let (Some(guard), Some(socket)) = (&mut self.guard, self.srt.system()) {
            guard.on_silence(socket, now);
        }
        self.bond.tend(now);
        self.answer();
        while let Some(notice) = self.bond.next_notice() {
            warn(notice);
        }
    }

    fn answer(&mut self) {
        while let Some(datagram) = self.bond.poll_srt() {
            if let Some((caller, _)) = self.caller {
                let _ = self.srt.send_to(&datagram, caller, None);
            }
        }
    }
}

fn warn(notice: Notice) {
    match notice {
        Notice::Refused(path) => log::warn!(
            "the receiver refuses link {path}: it has no place for it now, and is asked again"
        ),
        Notice::GroupLost => log::warn!(
            "the receiver does not know this sender any more, as after a restart: SRT connects \
             again"
        ),
    }
}

// Needs a clock: threads serve real sockets.
#[cfg(test)]
mod real_time_tests;
