//! A sender of SRTLA: an SRT connection and its links in one thread, without a socket between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration as StdDuration;

use anabranch_bond::{Bond, Notice};
use anabranch_core::{PathId, SourceLimits};
use anabranch_net::{
    ClientPath, Event as NetEvent, Network, PlainSocket, Snapshot, Surroundings, Work, Worker,
};
use anabranch_srt::{Caller, CloseReason, Entropy, SendError, Settings};
use anabranch_units::{DataRate, Duration, Instant};

use crate::error::{Error, ErrorCode};
use crate::event::Event;

/// Length of a packet: seven transport packets.
const PAYLOAD_BYTES: usize = 7 * 188;
/// Longest wait, after which the thread looks for changes of the paths.
const PATIENCE: Duration = Duration::from_millis(50);
/// Pause before another call.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of events that wait for their reader.
const MAX_EVENTS: usize = 1_024;

/// The set-up of a sender of SRTLA.
#[derive(Debug)]
pub(crate) struct SrtlaSetup {
    pub(crate) network: Network,
    pub(crate) limits: SourceLimits,
    pub(crate) stream_id: Option<String>,
    pub(crate) settings: Settings,
}

/// An event of a carrier.
#[derive(Debug)]
pub(crate) enum Happening {
    /// One of the network.
    Net(NetEvent),
    /// One that has its form already.
    Shown(Event),
}

/// A running sender. Its thread ends when it is dropped.
#[derive(Debug)]
pub(crate) struct SrtlaSender {
    shared: Shared,
    events: flume::Receiver<Happening>,
    /// Disconnected when the session is over.
    over: flume::Receiver<()>,
    worker: Worker,
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    bond: Bond,
    call: Call,
    entropy: Entropy,
    stream_id: Option<String>,
    settings: Settings,
    surroundings: Surroundings,
    /// Both are dropped at the end.
    events: Option<(flume::Sender<Happening>, flume::Sender<()>)>,
    /// Time at which the last connection ended, if there was one.
    lost_at: Option<Instant>,
    is_closing: bool,
    dropped_events: u64,
}

/// The SRT connection.
#[derive(Debug)]
enum Call {
    /// Waits before the next call.
    Resting(Instant),
    Calling(Box<Caller>),
    Connected(Box<Caller>),
}

impl SrtlaSender {
    /// Starts the thread.
    ///
    /// # Errors
    /// There are too many paths, or the system has no randomness or no room.
    pub(crate) fn start(
        setup: SrtlaSetup,
        paths: Vec<ClientPath>,
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        let entropy = Entropy::new(&surroundings.random_bytes().map_err(system)?);
        let (events, reader) = flume::unbounded();
        let (over, has_ended) = flume::bounded(1);
        let mut state = State {
            bond: Bond::new(setup.limits, surroundings).map_err(system)?,
            call: Call::Resting(surroundings.clock().now()),
            entropy,
            stream_id: setup.stream_id,
            settings: setup.settings,
            surroundings: surroundings.clone(),
            events: Some((events, over)),
            lost_at: None,
            is_closing: false,
            dropped_events: 0,
        };
        for path in paths {
            state.add_path(path)?;
        }
        let shared = Shared(Arc::new(Mutex::new(state)));
        let worker = Worker::start("srtla", surroundings, shared.clone()).map_err(system)?;
        Ok(SrtlaSender {
            shared,
            events: reader,
            over: has_ended,
            worker,
        })
    }

    /// Takes bytes in, which leave in packets of MPEG-TS.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let sent = self.shared.lock().send(bytes);
        self.worker.waker().wake();
        sent
    }

    pub(crate) fn target(&self) -> DataRate {
        self.shared.lock().bond.present_target()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.shared.lock();
        let mut snapshot = state.bond.snapshot();
        if !matches!(state.call, Call::Connected(_)) {
            snapshot.connected_at = None;
        }
        snapshot.edge.dropped_events = state.dropped_events;
        snapshot
    }

    pub(crate) fn add_path(&self, path: ClientPath) -> Result<(), Error> {
        self.shared.lock().add_path(path)
    }

    pub(crate) fn replace_path(&self, id: PathId, path: ClientPath) {
        self.shared.lock().bond.replace_path(id, path);
    }

    pub(crate) fn remove_path(&self, id: PathId) {
        self.shared.lock().bond.remove_path(id);
        self.worker.waker().wake();
    }

    pub(crate) fn recv_timeout(&self, limit: StdDuration) -> Result<Happening, RecvTimeoutError> {
        self.events
            .recv_timeout(limit)
            .map_err(|error| match error {
                flume::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
                flume::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
            })
    }

    pub(crate) async fn recv_async(&self) -> Option<Happening> {
        self.events.recv_async().await.ok()
    }

    pub(crate) fn close(&self) {
        self.shared.lock().is_closing = true;
        self.worker.waker().wake();
    }

    /// Waits for the end. Nothing is ever sent.
    pub(crate) async fn wait_ended(&self) {
        let _ = self.over.recv_async().await;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Shared {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        let mut state = self.lock();
        if is_ending {
            return None;
        }
        let mut buffer = [0; Bond::MAX_DATAGRAM_BYTES];
        state.bond.read_links(now, &mut buffer);
        let call_at = state.advance_call(now);
        state.bond.tend(now);
        state.report();
        let next_at = call_at.min(state.bond.next_timeout());
        Some(next_at.min(now + PATIENCE))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        self.lock().bond.sockets().cloned().collect()
    }
}

impl State {
    fn add_path(&mut self, path: ClientPath) -> Result<(), Error> {
        if self.bond.add_path(path).is_none() {
            let text = format!("SRTLA has {} links at most", Bond::MAX_PATHS);
            return Err(Error::new(ErrorCode::Path, text));
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let now = self.surroundings.clock().now();
        if self.is_closing {
            return Err(Error::new(ErrorCode::Ended, "the session is closed"));
        }
        let Call::Connected(caller) = &mut self.call else {
            return Err(Error::new(
                ErrorCode::NotConnected,
                "there is no session yet",
            ));
        };
        let Some(connection) = caller.connection() else {
            return Err(Error::new(
                ErrorCode::NotConnected,
                "there is no session now",
            ));
        };
        for payload in bytes.chunks(PAYLOAD_BYTES) {
            let sent = connection.send(now, payload);
            sent.map_err(|error| {
                let code = match error {
                    SendError::Full => ErrorCode::Backlogged,
                    SendError::Closed => ErrorCode::NotConnected,
                    SendError::TooLong => ErrorCode::Argument,
                };
                Error::of(code, &error)
            })?;
        }
        Ok(())
    }

    /// Advances the SRT connection. Returns the time of its next step.
    fn advance_call(&mut self, now: Instant) -> Instant {
        let call = core::mem::replace(&mut self.call, Call::Resting(now));
        let (mut caller, was_connected) = match call {
            Call::Resting(_) if self.is_closing => return self.end(),
            Call::Resting(until) if now < until => {
                self.call = call;
                return until;
            }
            Call::Resting(_) => (Box::new(self.call(now)), false),
            Call::Calling(caller) => (caller, false),
            Call::Connected(caller) => (caller, true),
        };
        self.exchange(now, &mut caller);
        if let Some(connection) = caller.connection() {
            // Nothing is expected from the receiver.
            while connection.poll_payload(now).is_some() {}
        }
        let is_connected = caller.connection().is_some();
        if is_connected && !was_connected {
            self.on_connected(now);
        }
        let is_over = caller.closed().is_some() && (caller.is_drained() || !self.is_closing);
        if is_over && self.is_closing {
            return self.end();
        }
        if is_over {
            if is_connected && caller.closed() != Some(CloseReason::Local) {
                self.lost_at = Some(now);
                let silent_for_s = 0.0;
                self.emit(Happening::Shown(Event::Reconnecting { silent_for_s }));
            }
            self.call = Call::Resting(now + PAUSE);
            return now + PAUSE;
        }
        let next_at = caller.poll_timeout();
        self.call = if is_connected {
            Call::Connected(caller)
        } else {
            Call::Calling(caller)
        };
        next_at
    }

    fn call(&mut self, now: Instant) -> Caller {
        // The receiver behind the links has another address, which nobody looks at.
        let peer = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let settings = self.settings.clone();
        let entropy = self.entropy.derive();
        Caller::new(now, peer, self.stream_id.as_deref(), settings, entropy)
    }

    /// Passes datagrams between the connection and the links.
    fn exchange(&mut self, now: Instant, caller: &mut Caller) {
        while let Some(datagram) = self.bond.poll_srt() {
            caller.handle_datagram(now, &datagram);
        }
        caller.handle_timeout(now);
        if self.is_closing {
            caller.finish(now);
        }
        while let Some(packet) = caller.poll_transmit(now) {
            self.bond.handle_srt(now, &packet);
        }
    }

    fn on_connected(&mut self, now: Instant) {
        let event = match self.lost_at.take() {
            Some(lost_at) => Event::Reconnected {
                silent_for_s: now.saturating_since(lost_at).as_secs_f64(),
            },
            None => Event::Connected {
                peer: String::new(),
            },
        };
        self.emit(Happening::Shown(event));
    }

    fn report(&mut self) {
        while let Some(event) = self.bond.next_event() {
            self.emit(Happening::Net(event));
        }
        while let Some(notice) = self.bond.next_notice() {
            let reason = match notice {
                Notice::Refused(path) => format!("the receiver has no place for link {path} now"),
                Notice::GroupLost => "the receiver does not know this sender any more".to_owned(),
            };
            self.emit(Happening::Shown(Event::Refused { reason }));
        }
    }

    fn emit(&mut self, happening: Happening) {
        if let Some((events, _)) = &self.events {
            if events.len() < MAX_EVENTS {
                // The reader lives as long as the thread.
                let _ = events.send(happening);
            } else {
                self.dropped_events += 1;
            }
        }
    }

    /// Reports the end. Returns the time of the next step.
    fn end(&mut self) -> Instant {
        self.call = Call::Resting(Instant::FAR_FUTURE);
        let reason = "closed".to_owned();
        if let Some((events, _)) = self.events.take() {
            let _ = events.send(Happening::Shown(Event::Ended { reason }));
        }
        Instant::FAR_FUTURE
    }
}

fn system(error: std::io::Error) -> Error {
    Error::of(ErrorCode::System, &error)
}
