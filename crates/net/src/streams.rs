//! Streams of bytes in sessions over several paths: the load of a session of streams.
//!
//! ```text
//!  application's tasks          this lock            the session's thread
//!  ByteStream ─ read, write ─▶ ┌────────┐ ◀─ exchange ─ StreamSession ─▶ paths
//!             ◀─── wakers ──── │  Mux   │
//!                              └────────┘
//! ```
//!
//! Tasks and the thread share the streams' own lock. It is held while bytes are moved, and not
//! while datagrams are sealed or sent.

mod byte_stream;
mod client;
mod server;

use core::fmt;
use core::task::Waker as TaskWaker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::session_parameters::SessionKind;
use anabranch_core::control::Controller;
use anabranch_core::scheduler::SchedulerFactory;
use anabranch_core::{
    Config, Event as CoreEvent, MtuDiscovery, Stream, StreamConfig, StreamSession,
};
use anabranch_mux::{Budget, Event as MuxEvent, Limits, MAX_HEADER_BYTES, Mux, Role, StreamId};
use anabranch_secure::{PROTECTION_OVERHEAD_BYTES, PublicKey};
use anabranch_units::{DataRate, Duration, Instant};
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::event_queue::EventSender;
use crate::load::Load;
use crate::waker::Waker;

pub use byte_stream::{ByteStream, StreamReader, StreamWriter};
pub use client::{OpenError, StreamClient};
pub use server::{Accepted, Started, StreamServer};

/// Bytes of a datagram that are not part of a message: packet and segment header.
const MESSAGE_OVERHEAD_BYTES: u32 = PROTECTION_OVERHEAD_BYTES as u32 + 10;
// A message's header must fit a head.
const _: () = assert!(MAX_HEADER_BYTES <= StreamSession::MAX_HEAD_BYTES);

/// Bytes of messages that wait in the session. They are no longer shared out among streams.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Least time within which a path that is back is found. A question has about 70 B.
const SILENCE_QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// Memory for the streams of all sessions of a server in each direction. In addition, each session
/// may hold 1 MiB of arrived data, and each stream 16 KiB of unsent data.
const SERVER_BUDGET_BYTES: u64 = 512 << 20;
/// The same for a client, which has one session.
const CLIENT_BUDGET_BYTES: u64 = 64 << 20;
/// Maximum number of bytes in flight: 400 Mbit/s at 300 ms.
const WINDOW_BYTES: u64 = 16 << 20;

/// Returns the transport's set-up for streams, with this controller on each path and this
/// scheduler.
pub fn stream_transport(controller: Controller, scheduler: SchedulerFactory) -> Config {
    Config {
        stream: StreamConfig {
            carries_messages: true,
            silence_question_interval: Some(SILENCE_QUESTION_INTERVAL),
            max_unsent_bytes: MAX_UNSENT_BYTES,
            send_buffer_bytes: WINDOW_BYTES as usize,
            receive_window_bytes: WINDOW_BYTES,
            ..StreamConfig::default()
        },
        ..Config::new(controller, scheduler)
    }
}

/// Congestion controller of streams without another wish. It does not take the random loss of radio
/// links for congestion.
const DEFAULT_CONTROLLER: &str = "bbr3";

/// Returns the transport's set-up for streams without wishes.
pub(crate) fn default_stream_transport() -> Config {
    let controller = anabranch_controllers::by_name(DEFAULT_CONTROLLER).expect("it is registered");
    stream_transport(controller, anabranch_schedulers::default_stream_scheduler())
}

/// The streams of one session, shared by tasks and the session's thread.
pub(crate) struct Shared {
    state: Mutex<State>,
    waker: Arc<Waker>,
}

struct State {
    mux: Mux,
    /// Tasks that wait for readable bytes, or for room, of a stream.
    readers: BTreeMap<StreamId, TaskWaker>,
    writers: BTreeMap<StreamId, TaskWaker>,
}

impl Shared {
    fn new(role: Role, budget: Budget, waker: Arc<Waker>) -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::new(State {
                mux: Mux::new(role, Limits::default(), budget),
                readers: BTreeMap::new(),
                writers: BTreeMap::new(),
            }),
            waker,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task's action, and wakes the thread if that has produced a message.
    fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let (done, is_new) = {
            let mut state = self.lock();
            let had_message = state.mux.has_message();
            let done = act(&mut state);
            (done, !had_message && state.mux.has_message())
        };
        if is_new {
            self.waker.wake();
        }
        done
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A session's streams.
#[derive(Debug)]
pub(crate) struct Streams {
    shared: Arc<Shared>,
    /// The peer that opens streams and their destination, at an end that accepts streams.
    accepts: Option<(PublicKey, UnboundedSender<Accepted>)>,
    /// A message for which the session had no room, without its head …
    held: Option<Bytes>,
    /// … and the head of the last message.
    head: Vec<u8>,
}

impl Streams {
    fn new(shared: Arc<Shared>, accepts: Option<(PublicKey, UnboundedSender<Accepted>)>) -> Self {
        Streams {
            shared,
            accepts,
            held: None,
            head: Vec::new(),
        }
    }

    /// Moves arrived messages to their streams. Returns false if the peer broke the rules.
    fn take_in(state: &mut State, session: &mut StreamSession) -> bool {
        while let Some(message) = session.read_bytes() {
            if state.mux.handle_message(message).is_err() {
                return false;
            }
        }
        true
    }

    /// Moves messages to the session while it has room for them. Returns whether any moved.
    fn hand_out(&mut self, now: Instant, state: &mut State, session: &mut StreamSession) -> bool {
        let mut is_any = false;
        let max_bytes = session.max_message_bytes();
        loop {
            let held = self.held.take();
            let next = held.or_else(|| state.mux.next_message(max_bytes, &mut self.head));
            let Some(message) = next else {
                break;
            };
            match session.write_behind(now, &self.head, message.clone()) {
                Ok(0) => {
                    self.held = Some(message);
                    break;
                }
                Ok(_) => is_any = true,
                // It is closing, and accepts no more.
                Err(_) => break,
            }
        }
        let held = self.held.as_ref();
        let held_bytes = held.map_or(0, |held| self.head.len() + held.len());
        session.expect_further(state.mux.sendable_bytes() + held_bytes as u64);
        is_any
    }

    /// Wakes the tasks with events. Returns the streams that the peer has opened.
    fn take_opened(state: &mut State) -> Vec<StreamId> {
        while let Some(event) = state.mux.poll_event() {
            let waiting = match event {
                // All opened streams are found below.
                MuxEvent::Opened => None,
                MuxEvent::Readable(id) => state.readers.remove(&id),
                MuxEvent::Writable(id) => state.writers.remove(&id),
            };
            if let Some(task) = waiting {
                task.wake();
            }
        }
        core::iter::from_fn(|| state.mux.accept()).collect()
    }

    /// Hands over streams that the peer has opened. A stream without a taker is released as it is
    /// dropped, which requires that the streams are not locked.
    fn accept(&self, opened: Vec<StreamId>) {
        for id in opened {
            let stream = ByteStream::new(Arc::clone(&self.shared), id);
            if let Some((peer, queue)) = &self.accepts {
                let _ = queue.send(Accepted {
                    peer: *peer,
                    stream,
                });
            }
        }
    }
}

impl Load for Streams {
    type Content = Stream;

    const SESSION_KIND: SessionKind = SessionKind::Streams;

    /// Data of a stream is lost with its session, which therefore gets time to be heard again.
    const OLD_SESSION_GRACE: Duration = Duration::from_secs(3);

    const OUTLIVES_SERVER: bool = true;

    const COALESCES: bool = true;

    fn prepare(config: &mut Config, header_bytes: u32) {
        let limits = MtuDiscovery {
            unit_bytes: 1,
            ..MtuDiscovery::of_internet(header_bytes)
        };
        let message_bytes = limits.max_bytes - header_bytes - MESSAGE_OVERHEAD_BYTES;
        config.fragment_bytes = message_bytes as u16;
        config.mtu = Some(limits);
    }

    fn prepare_server(config: &mut Config, header_bytes: u32) {
        Streams::prepare(config, header_bytes);
    }

    fn keep_alive(session: &mut StreamSession) {
        session.keep_alive();
    }

    fn target_bitrate(_: &StreamSession) -> DataRate {
        DataRate::ZERO
    }

    fn exchange(&mut self, now: Instant, session: &mut StreamSession) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if !Streams::take_in(&mut state, session) {
            session.close(now);
        }
        let is_any = self.hand_out(now, &mut state, session);
        let opened = Streams::take_opened(&mut state);
        drop(state);
        self.accept(opened);
        is_any
    }

    /// Ignores events, as each exchange finds readable data and room.
    fn on_event(&mut self, _: CoreEvent, _: &EventSender) {}

    fn end(&mut self) {
        let opened = {
            let mut state = self.shared.lock();
            state.mux.end();
            Streams::take_opened(&mut state)
        };
        self.accept(opened);
    }
}
