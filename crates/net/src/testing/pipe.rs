//! TCP in a world: bytes in order, which may stall.
//!
//! There are no segments: bytes that are written arrive after the delay of both lines, at the rate
//! of the slower one. While a line is unplugged, blocks TCP or stalls, bytes wait, as TCP sends
//! them again; after [`PATIENCE`] the connection breaks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{DataRate, Duration, Instant};
use rustix::io::Errno;

use super::fabric::{Due, Fabric, State};
use crate::tcp::progress::Progress;

/// Number of bytes that wait to leave, above which no more are taken.
const UNSENT_BYTES: u64 = 32 << 10;
/// Interval at which bytes that cannot pass are tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Time after which a connection breaks whose bytes cannot pass.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a connection.
#[derive(Debug)]
struct End {
    machine: usize,
    line: usize,
    owner: Option<usize>,
    /// Bytes on the way to this end, with their arrival.
    coming: VecDeque<(Instant, Vec<u8>)>,
    readable: VecDeque<u8>,
    /// Time at which the last byte on the way to this end has left the other.
    busy_until: Instant,
    /// Whether the other end has closed, and the bytes before that have come.
    is_at_end: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub(super) struct PipeState {
    ends: [End; 2],
    addresses: [SocketAddr; 2],
    progress: Progress,
    connects_at: Option<Instant>,
    stuck_since: Option<Instant>,
    delay: Duration,
    rate: Option<DataRate>,
}

#[derive(Debug)]
pub(super) struct AcceptorState {
    machine: usize,
    local: SocketAddr,
    owner: Option<usize>,
    waiting: VecDeque<u64>,
}

/// One end of a connection, which closes when it is dropped.
#[derive(Debug)]
pub(crate) struct VirtualStream {
    fabric: Fabric,
    number: u64,
    /// 0: the end that has dialled; 1: the one that has accepted.
    side: usize,
}

/// A listening socket for connections.
#[derive(Debug)]
pub(crate) struct VirtualAcceptor {
    fabric: Fabric,
    number: u64,
}

impl End {
    fn new(machine: usize, line: usize) -> Self {
        End {
            machine,
            line,
            owner: None,
            coming: VecDeque::new(),
            readable: VecDeque::new(),
            busy_until: Instant::ZERO,
            is_at_end: false,
            is_closed: false,
        }
    }

    /// Returns whether bytes on the way to this end are due.
    fn has_due(&self, now: Instant) -> bool {
        self.coming.front().is_some_and(|(at, _)| *at <= now)
    }
}

impl VirtualStream {
    pub(super) fn dial(fabric: &Fabric, line: usize, peer: SocketAddr) -> Self {
        let mut state = fabric.lock();
        let number = state.number();
        let machine = state.lines[line].machine;
        let port = state.free_port(machine);
        let from = SocketAddr::new(state.lines[line].public(), port);
        let there = state.line_of(peer.ip());
        let [near, far] = [Some(line), there].map(|line| line.map(|line| state.lines[line].tcp));
        let delays = [near, far].into_iter().flatten();
        let delay = delays
            .map(|[(up, _), _]| up)
            .fold(Duration::ZERO, |sum, up| sum + up);
        let rates = [near, far].into_iter().flatten();
        let rate = rates.filter_map(|[(_, rate), _]| rate).min();
        let far_machine = there.map_or(machine, |there| state.lines[there].machine);
        let connects_at = state.now + delay * 2;
        state.pipes.insert(
            number,
            PipeState {
                ends: [
                    End::new(machine, line),
                    // It opens when the connection is established.
                    End {
                        is_closed: true,
                        ..End::new(far_machine, there.unwrap_or(line))
                    },
                ],
                addresses: [from, peer],
                progress: Progress::Connecting,
                connects_at: there.is_some().then_some(connects_at),
                stuck_since: None,
                delay,
                rate,
            },
        );
        state.schedule(connects_at, Due::Pipe(number));
        drop(state);
        VirtualStream {
            fabric: fabric.clone(),
            number,
            side: 0,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let state = self.fabric.lock();
        let pipe = state.pipes.get(&self.number);
        pipe.map_or(Progress::Failed, |pipe| pipe.progress)
    }

    /// Makes `owner` the process that is woken when there is something to do.
    pub(crate) fn own(&self, owner: usize) {
        if let Some(pipe) = self.fabric.lock().pipes.get_mut(&self.number) {
            pipe.ends[self.side].owner = Some(owner);
        }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.fabric.lock();
        let pipe = state
            .pipes
            .get_mut(&self.number)
            .ok_or(ErrorKind::ConnectionReset)?;
        let end = &mut pipe.ends[self.side];
        let count = end.readable.len().min(buffer.len());
        if count > 0 {
            for (slot, byte) in buffer.iter_mut().zip(end.readable.drain(..count)) {
                *slot = byte;
            }
            Ok(count)
        } else if end.is_at_end {
            Ok(0)
        } else if pipe.progress == Progress::Failed {
            Err(ErrorKind::ConnectionReset.into())
        } else {
            Err(ErrorKind::WouldBlock.into())
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.fabric.lock();
        let now = state.now;
        let pipe = state
            .pipes
            .get_mut(&self.number)
            .ok_or(ErrorKind::ConnectionReset)?;
        if pipe.progress != Progress::Open || pipe.ends[1 - self.side].is_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let (rate, delay) = (pipe.rate, pipe.delay);
        let end = &mut pipe.ends[1 - self.side];
        let backlog = end.busy_until.saturating_since(now);
        let unsent = rate.map_or(0, |rate| rate.bytes_in(backlog));
        let is_stuck = pipe.stuck_since.is_some() && !end.coming.is_empty();
        if unsent >= UNSENT_BYTES || is_stuck {
            // Its owner wants to learn when there is room again.
            let room_at = (now + backlog).max(now + RETRY);
            state.schedule(room_at, Due::Pipe(self.number));
            return Err(ErrorKind::WouldBlock.into());
        }
        let room = (UNSENT_BYTES - unsent) as usize;
        let taken = &bytes[..bytes.len().min(room)];
        let time = rate.map_or(Duration::ZERO, |rate| rate.time_for(taken.len() as u64));
        end.busy_until = end.busy_until.max(now) + time;
        let arrives_at = end.busy_until + delay;
        end.coming.push_back((arrives_at, taken.to_vec()));
        state.schedule(arrives_at, Due::Pipe(self.number));
        Ok(taken.len())
    }
}

impl Drop for VirtualStream {
    fn drop(&mut self) {
        let mut state = self.fabric.lock();
        let now = state.now;
        let Some(pipe) = state.pipes.get_mut(&self.number) else {
            return;
        };
        pipe.ends[self.side].is_closed = true;
        if pipe.ends.iter().all(|end| end.is_closed) {
            state.pipes.remove(&self.number);
            return;
        }
        // The other end learns of it after the bytes on the way.
        let end_at = pipe.ends[1 - self.side].busy_until.max(now) + pipe.delay;
        pipe.ends[1 - self.side]
            .coming
            .push_back((end_at, Vec::new()));
        state.schedule(end_at, Due::Pipe(self.number));
    }
}

impl VirtualAcceptor {
    pub(super) fn bind(fabric: &Fabric, machine: usize, at: SocketAddr) -> io::Result<Self> {
        let mut state = fabric.lock();
        let mut acceptors = state.acceptors.values();
        if acceptors.any(|acceptor| (acceptor.machine, acceptor.local) == (machine, at)) {
            return Err(Errno::ADDRINUSE.into());
        }
        let port = match at.port() {
            0 => state.free_port(machine),
            port => port,
        };
        let number = state.number();
        state.acceptors.insert(
            number,
            AcceptorState {
                machine,
                local: SocketAddr::new(at.ip(), port),
                owner: None,
                waiting: VecDeque::new(),
            },
        );
        drop(state);
        let fabric = fabric.clone();
        Ok(VirtualAcceptor { fabric, number })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.fabric.lock().acceptors[&self.number].local
    }

    /// Makes `owner` the process that is woken by connections. Returns whether one waits.
    pub(crate) fn own(&self, owner: usize) -> bool {
        let mut state = self.fabric.lock();
        let acceptor = state.acceptors.get_mut(&self.number);
        acceptor.is_some_and(|acceptor| {
            acceptor.owner = Some(owner);
            !acceptor.waiting.is_empty()
        })
    }

    pub(crate) fn accept(&self) -> io::Result<(VirtualStream, IpAddr, SocketAddr)> {
        let mut state = self.fabric.lock();
        let acceptor = state.acceptors.get_mut(&self.number);
        let waiting = acceptor.and_then(|acceptor| acceptor.waiting.pop_front());
        let number = waiting.ok_or(ErrorKind::WouldBlock)?;
        let pipe = state
            .pipes
            .get(&number)
            .ok_or(ErrorKind::ConnectionAborted)?;
        let [peer, local] = pipe.addresses;
        let stream = VirtualStream {
            fabric: self.fabric.clone(),
            number,
            side: 1,
        };
        Ok((stream, local.ip(), peer))
    }
}

impl Drop for VirtualAcceptor {
    fn drop(&mut self) {
        self.fabric.lock().acceptors.remove(&self.number);
    }
}

impl State {
    /// Returns the number of open sockets of a machine.
    pub(super) fn socket_count(&self, machine: usize) -> usize {
        let datagrams = self.sockets.values().map(|socket| socket.machine);
        let acceptors = self.acceptors.values().map(|acceptor| acceptor.machine);
        let ends = self
            .pipes
            .values()
            .flat_map(|pipe| &pipe.ends)
            .filter(|end| !end.is_closed)
            .map(|end| end.machine);
        let owners = datagrams.chain(acceptors).chain(ends);
        owners.filter(|owner| *owner == machine).count()
    }

    /// Moves the bytes of a connection that are due.
    pub(super) fn advance_pipe(&mut self, number: u64) {
        let now = self.now;
        let Some(pipe) = self.pipes.get_mut(&number) else {
            return;
        };
        let has_due = pipe.connects_at.is_some_and(|at| at <= now)
            || pipe.ends.iter().any(|end| end.has_due(now));
        let lines = pipe.ends.each_ref().map(|end| &self.lines[end.line]);
        let can_pass = lines.iter().all(|line| line.carries_tcp(now));
        if !has_due {
            return self.wake_ends(number);
        }
        if !can_pass {
            let since = *pipe.stuck_since.get_or_insert(now);
            if now >= since + PATIENCE {
                pipe.progress = Progress::Failed;
                pipe.connects_at = None;
            } else {
                self.schedule(now + RETRY, Due::Pipe(number));
                return;
            }
        }
        pipe.stuck_since = None;
        if pipe.connects_at.take().is_some() {
            self.connect(number);
        }
        self.deliver(number);
    }

    fn connect(&mut self, number: u64) {
        let Some(pipe) = self.pipes.get_mut(&number) else {
            return;
        };
        let (machine, local) = (pipe.ends[1].machine, pipe.addresses[1]);
        let mut acceptors = self.acceptors.values_mut();
        let acceptor = acceptors.find(|acceptor| {
            let is_its = acceptor.local.ip().is_unspecified() || acceptor.local.ip() == local.ip();
            acceptor.machine == machine && is_its && acceptor.local.port() == local.port()
        });
        match acceptor {
            Some(acceptor) => {
                pipe.progress = Progress::Open;
                pipe.ends[1].is_closed = false;
                acceptor.waiting.push_back(number);
                let owner = acceptor.owner;
                self.wake_owner(machine, owner);
            }
            None => pipe.progress = Progress::Failed,
        }
    }

    fn deliver(&mut self, number: u64) {
        let now = self.now;
        let Some(pipe) = self.pipes.get_mut(&number) else {
            return;
        };
        for end in &mut pipe.ends {
            while end.has_due(now) {
                match end.coming.pop_front() {
                    Some((_, bytes)) if bytes.is_empty() => end.is_at_end = true,
                    Some((_, bytes)) => end.readable.extend(bytes),
                    None => {}
                }
            }
        }
        self.wake_ends(number);
    }

    fn wake_ends(&mut self, number: u64) {
        let Some(pipe) = self.pipes.get(&number) else {
            return;
        };
        let owners = pipe.ends.each_ref().map(|end| (end.machine, end.owner));
        for (machine, owner) in owners {
            self.wake_owner(machine, owner);
        }
    }
}
