//! A receiver of SRT and SRTLA: one thread from the socket to whole pictures.
//!
//! | file | idea |
//! |---|---|
//! | `caller_socket.rs` | the socket: callers of SRT, or links of SRTLA and their groups |
//! | `admission.rs` | rules for callers, and places that are free |
//! | `live.rs` | a connection: its pictures, links and events |
//! | `links.rs` | the links of a connection by their numbers |
//! | `session.rs` | the reader's side of a connection |

mod admission;
mod caller_socket;
mod links;
mod live;
mod session;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration as StdDuration;

use anabranch_net::{Clock, Network, PlainSocket, Surroundings, Work, Worker};
use anabranch_srt::{
    CloseReason, Connection, ConnectionId, Entropy, Event as SrtEvent, Listener, Rejection, Request,
};
use anabranch_units::{Duration, Instant};

use crate::error::{Error, ErrorCode};
use crate::event::Event;
use crate::receiver_event::ReceiverEvent;
use crate::statistics::Statistics;

pub(crate) use admission::Admission;
use caller_socket::CallerSocket;
use live::{Live, Opened};
pub(crate) use session::SrtSession;

/// Longest wait, after which the thread looks at the links again.
const PATIENCE: Duration = Duration::from_millis(250);
/// Maximum number of datagrams that are read before timers have their turn.
const AT_ONCE: usize = 64;
/// Longest datagram on an Ethernet.
const MAX_DATAGRAM_BYTES: usize = 1_500;
/// Maximum number of events that wait for their reader.
const MAX_EVENTS: usize = 1_024;

/// The protocol at the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IngestProtocol {
    /// SRT alone.
    Srt,
    /// SRT over the links of SRTLA.
    Srtla,
}

/// The set-up of a receiver.
#[derive(Debug)]
pub(crate) struct IngestSetup {
    pub(crate) network: Network,
    pub(crate) protocol: IngestProtocol,
    pub(crate) listen: SocketAddr,
    pub(crate) admission: Admission,
}

/// A running receiver. Its thread ends when it is dropped.
#[derive(Debug)]
pub(crate) struct SrtReceiver {
    shared: Shared,
    begun: flume::Receiver<Opened>,
    events: flume::Receiver<ReceiverEvent>,
    local_address: SocketAddr,
    worker: Worker,
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    socket: CallerSocket,
    listener: Listener,
    admission: Admission,
    clock: Clock,
    lives: BTreeMap<ConnectionId, Live>,
    session_count: u64,
    /// Both are dropped at the end.
    begun: Option<flume::Sender<Opened>>,
    events: Option<flume::Sender<ReceiverEvent>>,
    look_at: Instant,
    is_closing: bool,
}

impl SrtReceiver {
    /// Opens the socket, and starts the thread.
    ///
    /// # Errors
    /// The address is taken, or the system has no randomness or no room.
    pub(crate) fn start(setup: IngestSetup) -> Result<Self, Error> {
        let surroundings = Surroundings::of(&setup.network, Clock::start());
        let clock = *surroundings.clock();
        let entropy = Entropy::new(&surroundings.random_bytes().map_err(system)?);
        let socket = CallerSocket::open(setup.protocol, setup.listen, &surroundings)
            .map_err(|error| cannot_listen(setup.listen, &error))?;
        let local_address = socket.local_address().map_err(system)?;
        let (begun_sender, begun) = flume::unbounded();
        let (event_sender, events) = flume::unbounded();
        let shared = Shared(Arc::new(Mutex::new(State {
            socket,
            listener: Listener::new(clock.now(), entropy),
            admission: setup.admission,
            clock,
            lives: BTreeMap::new(),
            session_count: 0,
            begun: Some(begun_sender),
            events: Some(event_sender),
            look_at: clock.now(),
            is_closing: false,
        })));
        let worker = Worker::start("receiver", &surroundings, shared.clone()).map_err(system)?;
        Ok(SrtReceiver {
            shared,
            begun,
            events,
            local_address,
            worker,
        })
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    pub(crate) fn accept_timeout(
        &self,
        limit: StdDuration,
    ) -> Result<SrtSession, RecvTimeoutError> {
        let opened = self.begun.recv_timeout(limit).map_err(of_flume)?;
        Ok(self.session(opened))
    }

    pub(crate) async fn accept_async(&self) -> Option<SrtSession> {
        let opened = self.begun.recv_async().await.ok()?;
        Some(self.session(opened))
    }

    pub(crate) fn event_timeout(
        &self,
        limit: StdDuration,
    ) -> Result<ReceiverEvent, RecvTimeoutError> {
        self.events.recv_timeout(limit).map_err(of_flume)
    }

    pub(crate) async fn event_async(&self) -> Option<ReceiverEvent> {
        self.events.recv_async().await.ok()
    }

    /// Ends all connections. Payloads that have arrived are still handed out when they are due.
    pub(crate) fn close(&self) {
        self.shared.lock().is_closing = true;
        self.worker.waker().wake();
    }

    fn session(&self, opened: Opened) -> SrtSession {
        SrtSession::new(opened, self.shared.clone(), self.worker.waker())
    }
}

fn of_flume(error: flume::RecvTimeoutError) -> RecvTimeoutError {
    match error {
        flume::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
        flume::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
    }
}

fn system(error: std::io::Error) -> Error {
    Error::of(ErrorCode::System, &error)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    Error::new(
        ErrorCode::System,
        format!("cannot listen at {address}: {error}"),
    )
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection of a session.
    fn close_session(&self, id: ConnectionId) {
        let mut state = self.lock();
        let now = state.clock.now();
        if let Some(connection) = state.listener.connection(id) {
            connection.close(now);
        }
    }

    /// Returns the state of a session that is not over.
    fn statistics(&self, id: ConnectionId) -> Option<Statistics> {
        let mut state = self.lock();
        let now = state.clock.now();
        let State {
            lives, listener, ..
        } = &mut *state;
        let connection = listener.connection(id)?;
        Some(lives.get(&id)?.statistics(now, connection.statistics()))
    }
}

impl Work for Shared {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        let mut state = self.lock();
        if is_ending {
            state.end(now);
            return None;
        }
        state.read(now);
        state.advance(now);
        let is_over = state.is_closing && state.listener.connection_count() == 0;
        if is_over {
            state.end(now);
            return None;
        }
        Some(state.listener.poll_timeout().min(now + PATIENCE))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        vec![self.lock().socket.socket()]
    }
}

impl State {
    fn read(&mut self, now: Instant) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let mut budget = AT_ONCE;
        while let Some(arrival) = self.socket.read(now, &mut buffer, &mut budget) {
            let State {
                listener,
                admission,
                lives,
                is_closing,
                ..
            } = self;
            let caller = (arrival.caller, arrival.origin);
            let datagram = &buffer[..arrival.length];
            listener.handle_relayed(now, caller, datagram, &mut |request| {
                if *is_closing {
                    Err(Rejection::Close)
                } else {
                    admission.decide(now, lives, request)
                }
            });
            self.take_events(now);
            self.write(now);
        }
    }

    fn advance(&mut self, now: Instant) {
        if self.is_closing {
            self.listener.close(now);
        }
        self.listener.handle_timeout(now);
        self.give(now);
        self.take_events(now);
        self.write(now);
        if now >= self.look_at {
            self.look_at = now + PATIENCE;
            self.report(now);
        }
    }

    fn write(&mut self, now: Instant) {
        while let Some((to, packet)) = self.listener.poll_transmit(now) {
            self.socket.send(now, to, &packet);
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.listener.poll_event() {
            match event {
                SrtEvent::Connected(id, request) => self.on_connected(now, id, &request),
                SrtEvent::Refused(request, rejection) => self.on_refused(&request, rejection),
                SrtEvent::Closed(id, statistics, reason) => {
                    if let Some(live) = self.lives.remove(&id) {
                        self.on_ended(now, live, (statistics, reason));
                    }
                }
            }
        }
    }

    fn on_connected(&mut self, now: Instant, id: ConnectionId, request: &Request) {
        let stream = self.admission.stream_of(request);
        let displaced = self.admission.displaced(now, &self.lives, stream);
        if let Some(connection) = displaced.and_then(|id| self.listener.connection(id)) {
            connection.close(now);
        }
        let name = match stream {
            Some(stream) => stream.to_owned(),
            None => self.socket.origin_of(request.caller).to_string(),
        };
        let names = (stream.map(str::to_owned), name);
        let number = self.session_count;
        self.session_count += 1;
        let (live, opened) = Live::open(now, (id, number), names, request.caller);
        self.emit(live.event(Event::SessionBegan));
        self.lives.insert(id, live);
        if let Some(begun) = &self.begun {
            // An owner that has gone takes no more sessions.
            let _ = begun.send(opened);
        }
    }

    fn on_refused(&mut self, request: &Request, rejection: Rejection) {
        let event = Event::SenderRefused {
            reason: rejection.to_string(),
            from: self.socket.origin_of(request.caller).to_string(),
        };
        self.emit(ReceiverEvent {
            event,
            session: None,
            peer: request.stream_id.clone(),
        });
    }

    /// Reports the end of a session, and hands out the picture that had begun.
    fn on_ended(
        &mut self,
        now: Instant,
        live: Live,
        (statistics, reason): (anabranch_srt::Statistics, CloseReason),
    ) {
        let reason = reason.to_string();
        let ended = Event::SessionEnded {
            reason: reason.clone(),
        };
        let event = live.event(ended);
        live.end(now, statistics, reason);
        self.emit(event);
    }

    /// Hands out the payloads that are due.
    fn give(&mut self, now: Instant) {
        let mut events = Vec::new();
        for (id, live) in &mut self.lives {
            let Some(connection) = self.listener.connection(*id) else {
                continue;
            };
            live.see(connection.heard_at(), connection.closed().is_some());
            while let Some(delivered) = connection.poll_payload(now) {
                events.extend(live.take(now, delivered));
            }
        }
        events.into_iter().for_each(|event| self.emit(event));
    }

    /// Looks at the links of all sessions.
    fn report(&mut self, now: Instant) {
        let mut events = Vec::new();
        for (id, live) in &mut self.lives {
            let connection = self.listener.connection(*id).map(|its| &*its);
            if let Some(connection) = connection {
                let links = self.socket.links(live.caller(), connection);
                events.extend(live.report(now, &links));
            }
        }
        events.into_iter().for_each(|event| self.emit(event));
        let lives = &self.lives;
        self.socket.tend(now, |caller| {
            lives.values().any(|live| live.caller() == *caller)
        });
    }

    fn emit(&self, event: ReceiverEvent) {
        let queue = self.events.as_ref();
        if let Some(events) = queue.filter(|events| events.len() < MAX_EVENTS) {
            // The reader lives as long as the thread.
            let _ = events.send(event);
        }
    }

    /// Ends all connections at once, and notifies their callers.
    fn end(&mut self, now: Instant) {
        self.listener.close(now);
        self.write(now);
        self.take_events(now);
        for (id, live) in core::mem::take(&mut self.lives) {
            let connection = self.listener.connection(id);
            let statistics = connection.map(|its: &mut Connection| its.statistics());
            let over = (statistics.unwrap_or_default(), CloseReason::Local);
            self.on_ended(now, live, over);
        }
        self.write(now);
        (self.begun, self.events) = (None, None);
    }
}
