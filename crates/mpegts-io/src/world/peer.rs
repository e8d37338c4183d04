//! Ends of SRT that are not ours to the last detail: the sans-IO cores with another behaviour.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anabranch_net::testing::Machine;
use anabranch_net::{PlainSocket, Via, Work, Worker};
use anabranch_srt::{Caller, CloseReason, Connection, Entropy, Event, Listener, Settings};
use anabranch_units::{Duration, Instant};

use super::on;

/// A core that a [`Peer`] runs.
pub(super) enum Core {
    Caller(Box<Caller>, SocketAddr),
    Listener(Box<Listener>, Settings),
}

/// Behaviour of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behaviour {
    /// Loses each packet of data whose number is a multiple of this.
    pub(super) loses_each: Option<u32>,
    /// Takes payloads, but only until the other end ends the connection, as libsrt does.
    pub(super) ends_at_once: bool,
}

/// A process of a machine that is a peer.
pub(super) struct Peer {
    worker: Worker,
    state: Arc<Mutex<State>>,
}

/// State of a peer, for its test.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) received: Vec<u8>,
    pub(super) is_connected: bool,
    pub(super) closed: Option<CloseReason>,
}

struct Hands {
    socket: PlainSocket,
    core: Core,
    behaviour: Behaviour,
    data_count: u32,
    state: Arc<Mutex<State>>,
}

impl Peer {
    /// Starts a peer that calls `to`.
    pub(super) fn call(
        machine: &Machine,
        to: SocketAddr,
        stream_id: Option<&str>,
        settings: Settings,
        behaviour: Behaviour,
    ) -> Peer {
        let surroundings = on(machine);
        let secret = surroundings.random_bytes().expect("numbers");
        let now = surroundings.clock().now();
        let caller = Caller::new(now, to, stream_id, settings, Entropy::new(&secret));
        let socket = PlainSocket::open(&surroundings, &Via::DefaultRoute, to).expect("a route");
        Peer::start(
            machine,
            socket,
            Core::Caller(Box::new(caller), to),
            behaviour,
        )
    }

    /// Starts a peer that listens.
    pub(super) fn listen(
        machine: &Machine,
        at: SocketAddr,
        settings: Settings,
        behaviour: Behaviour,
    ) -> Peer {
        let surroundings = on(machine);
        let secret = surroundings.random_bytes().expect("numbers");
        let now = surroundings.clock().now();
        let listener = Listener::new(now, Entropy::new(&secret));
        let socket = PlainSocket::listen(&surroundings, at).expect("a free address");
        Peer::start(
            machine,
            socket,
            Core::Listener(Box::new(listener), settings),
            behaviour,
        )
    }

    fn start(machine: &Machine, socket: PlainSocket, core: Core, behaviour: Behaviour) -> Peer {
        let state = Arc::<Mutex<State>>::default();
        let hands = Hands {
            socket,
            core,
            behaviour,
            data_count: 0,
            state: Arc::clone(&state),
        };
        let worker = Worker::start("peer", &on(machine), hands).expect("a process");
        Peer { worker, state }
    }

    /// Returns its state.
    pub(super) fn state(&self) -> State {
        self.state.lock().expect("one thread").clone()
    }

    /// Ends it, and returns its last state.
    pub(super) fn end(self) -> State {
        let Peer { worker, state } = self;
        drop(worker);
        state.lock().expect("one thread").clone()
    }
}

impl Work for Hands {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        let mut buffer = [0; 1_500];
        while let Ok((length, from, _)) = self.socket.recv(&mut buffer) {
            let datagram = &buffer[..length];
            if self.loses(datagram) {
                continue;
            }
            match &mut self.core {
                Core::Caller(caller, _) => caller.handle_datagram(now, datagram),
                Core::Listener(listener, settings) => {
                    listener.handle_datagram(
                        now,
                        from,
                        datagram,
                        &mut |_: &_| Ok(settings.clone()),
                    );
                }
            }
        }
        self.take_payloads(now);
        let next_at = self.advance(now, is_ending);
        let is_closed = self.state.lock().expect("one thread").closed.is_some();
        let is_over = is_ending || (is_closed && self.behaviour.ends_at_once);
        (!is_over).then(|| next_at.min(now + Duration::from_millis(10)))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        vec![self.socket.clone()]
    }
}

impl Hands {
    /// Returns whether a datagram is lost.
    fn loses(&mut self, datagram: &[u8]) -> bool {
        let is_data = datagram.first().is_some_and(|first| first & 0x80 == 0);
        self.data_count += u32::from(is_data);
        let each = self.behaviour.loses_each;
        is_data && each.is_some_and(|each| self.data_count.is_multiple_of(each))
    }

    /// Takes due payloads, before a listener forgets the connection.
    fn take_payloads(&mut self, now: Instant) {
        let mut state = self.state.lock().expect("one thread");
        match &mut self.core {
            Core::Caller(caller, _) => {
                state.closed = caller.closed();
                if let Some(connection) = caller.connection() {
                    take(connection, now, &mut state);
                }
            }
            Core::Listener(listener, _) => {
                for id in listener.connection_ids() {
                    if let Some(connection) = listener.connection(id) {
                        take(connection, now, &mut state);
                    }
                }
            }
        }
    }

    /// Performs due steps of the core, and sends. Returns the time of the next one.
    fn advance(&mut self, now: Instant, is_ending: bool) -> Instant {
        match &mut self.core {
            Core::Caller(caller, to) => {
                caller.handle_timeout(now);
                if is_ending {
                    caller.finish(now);
                }
                while let Some(datagram) = caller.poll_transmit(now) {
                    let _ = self.socket.send_to(&datagram, *to, None);
                }
                caller.poll_timeout()
            }
            Core::Listener(listener, _) => {
                listener.handle_timeout(now);
                while let Some(event) = listener.poll_event() {
                    if let Event::Connected(..) = event {
                        self.state.lock().expect("one thread").is_connected = true;
                    }
                }
                while let Some((to, datagram)) = listener.poll_transmit(now) {
                    let _ = self.socket.send_to(&datagram, to, None);
                }
                listener.poll_timeout()
            }
        }
    }
}

fn take(connection: &mut Connection, now: Instant, state: &mut State) {
    state.is_connected = true;
    while let Some(delivered) = connection.poll_payload(now) {
        state.received.extend(delivered.payload);
    }
    state.closed = connection.closed();
}
