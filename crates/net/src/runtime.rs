//! The thread that serves one end's sockets.

#[cfg(feature = "testing")]
mod process;

use core::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anabranch_units::{Instant, Lateness, Punctuality};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::accept;
use crate::clock::Clock;
#[cfg(feature = "testing")]
use crate::io::Kind;
use crate::io::Network;
use crate::peer_sockets::{Peer, PeerSockets};
use crate::port::Port;
use crate::socket::{Arrival, ReceiveBuffers, Socket};
use crate::start_error::StartError;
use crate::surroundings::Surroundings;
use crate::system::{request_exact_timers, timespec};
#[cfg(feature = "testing")]
use crate::testing::process::ProcessHandle;
use crate::waker::{self, Waker, Wakeup};
#[cfg(feature = "testing")]
use process::Program;

/// An end's reaction to arrivals and to the passage of time.
pub(crate) trait Role: Send + 'static {
    /// Takes a datagram.
    fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    );
    /// Performs due steps.
    fn advance(&mut self, now: Instant, ports: &[Port]) -> Next;
    /// Reports that a port has become unusable, for this reason, or usable again.
    fn on_port(&mut self, _now: Instant, _index: usize, _absence: Option<String>) {}
    /// Adds the ports of paths that have joined.
    fn take_ports(&mut self, _now: Instant, _ports: &mut Vec<Port>) {}
    /// Returns the peers whose datagrams need queues of their own, and a number that changes when
    /// they do, or when ports have joined.
    fn peers(&self) -> (u64, &[Peer]) {
        (0, &[])
    }
}

/// Next step of the thread after a role has advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Waits for a datagram, for its owner, or until this time.
    Wait(Option<Instant>),
    /// Ends the thread.
    Over,
}

impl Next {
    /// Returns `self`, but no later than `at`.
    pub(crate) fn by(self, at: Option<Instant>) -> Next {
        match self {
            Next::Wait(next_at) => Next::Wait([next_at, at].into_iter().flatten().min()),
            Next::Over => Next::Over,
        }
    }
}

/// The sockets to watch, each with its port's index.
struct Sources<'a> {
    sockets: Vec<(usize, &'a Socket)>,
    /// Ports with a TCP socket.
    connections: Vec<(usize, &'a Port)>,
}

impl<'a> Sources<'a> {
    fn of(ports: &'a [Port]) -> Self {
        let (mut sockets, mut connections) = (Vec::new(), Vec::new());
        for (index, port) in ports.iter().enumerate() {
            sockets.extend(port.socket().map(|socket| (index, socket)));
            if port.tcp().polled().is_some() {
                connections.push((index, port));
            }
        }
        Sources {
            sockets,
            connections,
        }
    }
}

fn is_ready(polled: &PollFd<'_>) -> bool {
    !polled.revents().is_empty()
}

/// Reason why the wait for datagrams ends.
enum WaitEnd {
    PortIsDue,
    PeersChanged,
    Over,
}

/// A role in a thread of its own.
#[derive(Debug)]
pub(crate) struct Runtime<R> {
    network: Network,
    handle: Handle<R>,
    thread: Option<thread::JoinHandle<()>>,
    #[cfg(feature = "testing")]
    process: Option<ProcessHandle>,
}

/// A handle of a role, through a lock that its thread holds only while it works, never while it
/// waits.
#[derive(Debug)]
pub(crate) struct Handle<R> {
    shared: Arc<Shared<R>>,
    waker: Arc<Waker>,
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Handle {
            shared: Arc::clone(&self.shared),
            waker: Arc::clone(&self.waker),
        }
    }
}

#[derive(Debug)]
struct Shared<R> {
    clock: Clock,
    role: Mutex<R>,
    punctuality: Mutex<Punctuality>,
}

impl<R: Role> Runtime<R> {
    pub(crate) fn start(
        name: &str,
        surroundings: Surroundings,
        ports: Vec<Port>,
        role: R,
    ) -> Result<Self, StartError> {
        Runtime::start_with(name, surroundings, ports, |_| Ok(role))
    }

    /// Starts the thread with a role that others may wake.
    pub(crate) fn start_with(
        name: &str,
        surroundings: Surroundings,
        ports: Vec<Port>,
        role: impl FnOnce(Arc<Waker>) -> Result<R, StartError>,
    ) -> Result<Self, StartError> {
        let Surroundings { network, clock } = surroundings;
        #[cfg(feature = "testing")]
        if let Kind::World(host) = &network.0 {
            let process = host.process();
            return Runtime::start_in_world(network, process, clock, ports, role);
        }
        let (waker, wakeup) = waker::pair().map_err(StartError::Runtime)?;
        let waker = Arc::new(waker);
        let shared = Arc::new(Shared {
            clock,
            role: Mutex::new(role(Arc::clone(&waker))?),
            punctuality: Mutex::default(),
        });
        let spawned = thread::Builder::new().name(name.to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(&wakeup, ports)
        });
        let thread = spawned.map_err(StartError::Runtime)?;
        Ok(Runtime {
            network,
            handle: Handle { shared, waker },
            thread: Some(thread),
            #[cfg(feature = "testing")]
            process: None,
        })
    }

    /// Starts a process of a world instead of a thread.
    #[cfg(feature = "testing")]
    fn start_in_world(
        network: Network,
        process: ProcessHandle,
        clock: Clock,
        ports: Vec<Port>,
        role: impl FnOnce(Arc<Waker>) -> Result<R, StartError>,
    ) -> Result<Self, StartError> {
        let waker = Arc::new(Waker::World(process.clone()));
        let shared = Arc::new(Shared {
            clock,
            role: Mutex::new(role(Arc::clone(&waker))?),
            punctuality: Mutex::default(),
        });
        let program = Program::new(Arc::clone(&shared), ports, process.clone());
        process.start(Box::new(program));
        Ok(Runtime {
            network,
            handle: Handle { shared, waker },
            thread: None,
            process: Some(process),
        })
    }

    /// Returns the network of the role's sockets.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Returns another handle of the role, which may outlive its thread.
    pub(crate) fn handle(&self) -> Handle<R> {
        self.handle.clone()
    }

    /// Waits for the thread, which ends when its role does.
    pub(crate) fn join(&mut self) -> thread::Result<()> {
        #[cfg(feature = "testing")]
        if let Some(process) = &self.process {
            process.join();
        }
        self.thread.take().map_or(Ok(()), thread::JoinHandle::join)
    }
}

impl<R> Deref for Runtime<R> {
    type Target = Handle<R>;

    fn deref(&self) -> &Handle<R> {
        &self.handle
    }
}

impl<R: Role> Handle<R> {
    /// Shows the owner the role.
    pub(crate) fn with_role<T>(&self, read: impl FnOnce(&mut R, Instant) -> T) -> T {
        let mut role = self.shared.lock();
        // The clock is read under the lock, so that time does not go back.
        read(&mut role, self.shared.clock.now())
    }

    /// Lets the owner change the role, and wakes the thread to act on it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut R, Instant) -> T) -> T {
        let changed = self.with_role(change);
        self.waker.wake();
        changed
    }

    /// Returns the delays of the thread in the worse of the last two seconds.
    pub(crate) fn lateness(&self) -> Lateness {
        self.shared.punctuality().lateness(self.shared.clock.now())
    }
}

impl<R: Role> Shared<R> {
    /// Locks the role. After a panic of the thread, the counters can still be read.
    fn lock(&self) -> MutexGuard<'_, R> {
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn punctuality(&self) -> MutexGuard<'_, Punctuality> {
        self.punctuality
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, wakeup: &Wakeup, mut ports: Vec<Port>) {
        request_exact_timers();
        let mut buffers = ReceiveBuffers::new();
        let mut peer_sockets = PeerSockets::default();
        loop {
            let version = {
                let mut role = self.lock();
                role.take_ports(self.clock.now(), &mut ports);
                let (version, wanted) = role.peers();
                peer_sockets.update(wanted, &ports);
                version
            };
            match self.watch(version, &peer_sockets, wakeup, &ports, &mut buffers) {
                WaitEnd::Over => return,
                WaitEnd::PeersChanged => {}
                WaitEnd::PortIsDue => self.tend(&mut ports),
            }
        }
    }

    fn tend(&self, ports: &mut Vec<Port>) {
        let now = self.clock.now();
        for (index, port) in ports.iter_mut().enumerate() {
            // Without the lock, as opening a socket takes a while.
            if let Some(absence) = port.tend(now) {
                self.lock().on_port(now, index, absence);
            }
        }
        accept::accept(now, ports);
    }

    /// Serves the sockets until the role is over, a port needs attention, or the peers have another
    /// version.
    fn watch(
        &self,
        version: u64,
        peer_sockets: &PeerSockets,
        wakeup: &Wakeup,
        ports: &[Port],
        buffers: &mut ReceiveBuffers,
    ) -> WaitEnd {
        let sources = Sources::of(ports);
        let mut awaited = vec![PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN)];
        let watched = sources
            .sockets
            .iter()
            .map(|(_, socket)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        awaited.extend(watched);
        let first_connection = awaited.len();
        poll_connections(&mut awaited, first_connection, &sources.connections);
        let of_peers = peer_sockets.watch();
        awaited.extend(
            of_peers.map(|peer_sockets| PollFd::from_borrowed_fd(peer_sockets, PollFlags::IN)),
        );
        let mut due_at = None;
        loop {
            let (served_at, next, version_now) = self.serve(
                ports,
                peer_sockets,
                &sources,
                &awaited[1..],
                buffers,
                due_at,
            );
            let Next::Wait(next_at) = next else {
                return WaitEnd::Over;
            };
            if version_now != version {
                return WaitEnd::PeersChanged;
            }
            // Work that was due even then was due by the role's own plan, not by the machine's
            // fault.
            due_at = next_at.map(|at| at.max(served_at));
            let now = self.clock.now();
            let tend_at = ports.iter().filter_map(Port::tend_at).min();
            if tend_at.is_some_and(|at| at <= now) {
                return WaitEnd::PortIsDue;
            }
            let next_at = [next_at, tend_at].into_iter().flatten().min();
            poll_connections(&mut awaited, first_connection, &sources.connections);
            let timeout = next_at.map(|at| timespec(at.saturating_since(now)));
            match poll(&mut awaited, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("poll of open sockets failed: {error}"),
            }
            if !awaited[0].revents().is_empty() {
                wakeup.clear();
            }
        }
    }

    /// Receives from the sockets that poll found ready, peer sockets first, and advances the role.
    /// Returns the time, the role's next step, and the version of its peers.
    fn serve(
        &self,
        ports: &[Port],
        peer_sockets: &PeerSockets,
        sources: &Sources<'_>,
        polled: &[PollFd<'_>],
        buffers: &mut ReceiveBuffers,
        due_at: Option<Instant>,
    ) -> (Instant, Next, u64) {
        let role = &mut *self.lock();
        if let Some(due_at) = due_at {
            self.punctuality().on_turn(self.clock.now(), due_at);
        }
        let Sources {
            sockets,
            connections,
        } = sources;
        let has_ready_lane = polled
            .get(sockets.len() + connections.len())
            .is_some_and(is_ready);
        let of_peers = has_ready_lane
            .then(|| peer_sockets.ready())
            .into_iter()
            .flatten()
            .map(|peer_socket| (peer_socket.peer.address.socket, &peer_socket.socket));
        let of_ports = sockets
            .iter()
            .zip(polled)
            .filter(|(_, polled)| is_ready(polled))
            .map(|(socket, _)| *socket);
        for (index, socket) in of_peers.chain(of_ports) {
            socket.receive(index, &self.clock, buffers, |arrival, datagram| {
                role.handle_datagram(self.clock.now(), arrival, datagram, ports);
            });
        }
        let of_connections = connections.iter().zip(&polled[sockets.len()..]);
        for ((index, port), _) in of_connections.filter(|(_, polled)| is_ready(polled)) {
            port.serve_tcp(*index, &self.clock, buffers, |arrival, datagram| {
                role.handle_datagram(self.clock.now(), arrival, datagram, ports);
            });
        }
        let now = self.clock.now();
        let next = role.advance(now, ports);
        (now, next, role.peers().0)
    }
}

/// Sets the events for which connections are polled, from the entry `first` on: a connection with
/// an unsent rest also waits for room.
fn poll_connections<'a>(
    awaited: &mut Vec<PollFd<'a>>,
    first: usize,
    connections: &[(usize, &'a Port)],
) {
    for (at, (_, port)) in connections.iter().enumerate() {
        if let Some((socket, flags)) = port.tcp().polled() {
            let polled = PollFd::from_borrowed_fd(socket, flags);
            match awaited.get_mut(first + at) {
                Some(entry) => *entry = polled,
                None => awaited.push(polled),
            }
        }
    }
}
