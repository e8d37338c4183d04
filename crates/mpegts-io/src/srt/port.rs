//! A port that distinguishes callers by their stream ID: one socket and one thread, shared by all
//! inputs and outputs of its address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

use anabranch_net::{PlainSocket, Surroundings, Work, Worker};
use anabranch_srt::{ConnectionId, Event, Listener, Rejection, Request, Settings};
use anabranch_units::{Duration, Instant};

use super::caller_links::{POLL_INTERVAL, Summary};
use super::error::SrtError;
use super::route::{self, Caller, Direction, Route};
use super::{Origins, SrtAddress, entropy};
use crate::limited_lines::LimitedLines;

/// Longest wait before the counters for the statistics are read again.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);
/// Maximum datagrams read at once before timers have their turn.
pub(super) const AT_ONCE: usize = 64;
/// Longest datagram on an Ethernet.
pub(super) const MAX_DATAGRAM_BYTES: usize = 1_500;

/// All open ports, because inputs and outputs of one port are opened one by one.
static PORTS: Mutex<Vec<(SocketAddr, Weak<Port>)>> = Mutex::new(Vec::new());
static NEXT_ROUTE: AtomicU64 = AtomicU64::new(0);

/// A port, whose thread ends when this is dropped.
#[derive(Debug)]
struct Port {
    surroundings: Surroundings,
    local_address: SocketAddr,
    routes: Routes,
    origins: Origins,
    worker: Worker,
}

/// Routes of a port, shared with its thread.
#[derive(Clone, Debug, Default)]
struct Routes(Arc<Mutex<Vec<Route>>>);

/// A route at a port, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    port: Arc<Port>,
    number: u64,
    /// Disconnected when the thread has removed the route.
    over: mpsc::Receiver<()>,
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, Vec<Route>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// Adds a route to the port of the address, which is opened if nothing else has.
    ///
    /// # Errors
    /// The address is taken, or another route has the same stream ID.
    pub(super) fn open(
        address: &SrtAddress,
        direction: Direction,
        surroundings: &Surroundings,
    ) -> Result<Self, SrtError> {
        let local = address.resolve(surroundings)?;
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|(_, port)| port.strong_count() > 0);
        let open = ports.iter().filter(|(its, _)| *its == local);
        let shared = open
            .filter_map(|(_, port)| port.upgrade())
            .find(|port| port.surroundings.is_same_network(surroundings));
        let port = match shared {
            Some(port) => port,
            None => {
                let port = Arc::new(Port::open(&address.port_name, local, surroundings)?);
                ports.push((port.local_address, Arc::downgrade(&port)));
                port
            }
        };
        let mut routes = port.routes.lock();
        if routes
            .iter()
            .any(|route| route.stream_id == address.stream_id)
        {
            return Err(SrtError::SameStreamId {
                name: address.shown.clone(),
            });
        }
        if let Some(taker) = direction.packets() {
            taker.wake(port.worker.waker());
        }
        let number = NEXT_ROUTE.fetch_add(1, Ordering::Relaxed);
        let (of_route, over) = mpsc::channel();
        routes.push(Route {
            number,
            shown: address.shown.clone(),
            stream_id: address.stream_id.clone(),
            settings: Settings {
                keeps_place: matches!(direction, Direction::Input(..)),
                ..address.settings.clone()
            },
            direction,
            callers: Vec::new(),
            is_ending: false,
            _over: of_route,
        });
        drop(routes);
        Ok(Listening { port, number, over })
    }

    pub(super) fn local_address(&self) -> SocketAddr {
        self.port.local_address
    }

    pub(super) fn origins(&self) -> Origins {
        self.port.origins.clone()
    }
}

impl Drop for Listening {
    /// Lets the callers of an output deliver its last packets. The thread ends the connections of
    /// an input at once.
    fn drop(&mut self) {
        let mut routes = self.port.routes.lock();
        let number = self.number;
        routes.retain(|route| route.number != number || route.direction.packets().is_some());
        if let Some(own) = routes.iter_mut().find(|route| route.number == number) {
            own.is_ending = true;
        }
        drop(routes);
        self.port.worker.waker().wake();
        self.port.worker.wait_for_drop(&self.over);
    }
}

impl Port {
    fn open(name: &str, local: SocketAddr, surroundings: &Surroundings) -> Result<Self, SrtError> {
        let socket = PlainSocket::listen(surroundings, local).map_err(|source| {
            let name = name.to_owned();
            SrtError::Listen { name, source }
        })?;
        let local_address = socket.local_addr().map_err(SrtError::LocalAddress)?;
        let (routes, origins) = (Routes::default(), Origins::default());
        let now = surroundings.clock().now();
        let hands = Hands {
            name: name.to_owned(),
            socket,
            listener: Listener::new(now, entropy(surroundings)?),
            routes: routes.clone(),
            origins: origins.clone(),
            local_addresses: BTreeMap::new(),
            look_at: now,
            lines: LimitedLines::default(),
        };
        let worker = Worker::start("srt", surroundings, hands);
        Ok(Port {
            surroundings: surroundings.clone(),
            local_address,
            routes,
            origins,
            worker: worker.map_err(SrtError::Thread)?,
        })
    }
}

/// State of the thread. Its routes end with it.
struct Hands {
    name: String,
    socket: PlainSocket,
    listener: Listener,
    routes: Routes,
    origins: Origins,
    /// This machine's address that each caller has sent to, if the machine has several.
    local_addresses: BTreeMap<SocketAddr, IpAddr>,
    look_at: Instant,
    lines: LimitedLines,
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.routes.lock().clear();
    }
}

impl Work for Hands {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        if is_ending {
            self.listener.close(now);
            self.write(now);
            return None;
        }
        self.read(now);
        self.take_outputs(now);
        self.listener.handle_timeout(now);
        self.take_events(now);
        self.give_inputs(now);
        self.write(now);
        self.remove_ended_outputs();
        if now >= self.look_at {
            self.look_at = now + POLL_INTERVAL;
            self.report(now);
        }
        Some(self.listener.poll_timeout().min(now + PATIENCE))
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        vec![self.socket.clone()]
    }
}

impl Hands {
    fn read(&mut self, now: Instant) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        for _ in 0..AT_ONCE {
            // Other errors concern earlier datagrams and can be ignored.
            let (length, from, to) = match self.socket.recv(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let mut routes = self.routes.lock();
            let datagram = &buffer[..length];
            let caller = (from, self.origins.of(from));
            self.listener
                .handle_relayed(now, caller, datagram, &mut |request: &Request| {
                    admit(&mut routes, now, request)
                });
            drop(routes);
            self.answer(now, from, to);
        }
    }

    /// Sends the answers to a datagram from the address that it was sent to.
    fn answer(&mut self, now: Instant, from: SocketAddr, to: Option<IpAddr>) {
        self.take_events(now);
        if let Some(to) = to
            && self
                .routes
                .lock()
                .iter()
                .any(|route| route.callers.iter().any(|caller| caller.address == from))
        {
            self.local_addresses.insert(from, to);
        }
        while let Some((destination, packet)) = self.listener.poll_transmit(now) {
            let local = match self.local_addresses.get(&destination) {
                Some(address) => Some(*address),
                None if destination == from => to,
                None => None,
            };
            // A datagram that finds no room is lost, as anywhere in the network.
            let _ = self.socket.send_to(&packet, destination, local);
        }
    }

    fn write(&mut self, now: Instant) {
        while let Some((to, packet)) = self.listener.poll_transmit(now) {
            let from = self.local_addresses.get(&to).copied();
            let _ = self.socket.send_to(&packet, to, from);
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.listener.poll_event() {
            match event {
                Event::Connected(id, request) => self.on_connected(now, id, &request),
                Event::Refused(request, rejection) => {
                    let name = &self.name;
                    let stream = stream(request.stream_id.as_deref());
                    let caller = request.caller;
                    let mut known = String::new();
                    if rejection == Rejection::NotFound {
                        known = format!("; this port has {}", route::accepted(&self.routes.lock()));
                    }
                    let line = format_args!("{caller}{stream} was refused: {rejection}{known}");
                    self.lines.note(now, name, line);
                }
                Event::Closed(id, statistics, reason) => {
                    let Some((route, caller, stream)) = self.forget(id) else {
                        continue;
                    };
                    let summary = Summary(statistics);
                    let line = format_args!("{caller}{stream} has gone ({reason}); {summary}");
                    self.lines.note(now, &route, line);
                }
            }
        }
    }

    fn on_connected(&mut self, now: Instant, id: ConnectionId, request: &Request) {
        let mut routes = self.routes.lock();
        let Some(route) = route::find(&mut routes, request.stream_id.as_deref()) else {
            return;
        };
        let receiver = match &route.direction {
            Direction::Input(..) => {
                // A silent caller gives way; a connection without a route ends.
                route.callers.retain(|before| before.is_leaving);
                None
            }
            Direction::Output(_, receivers) => {
                let connection = self.listener.connection(id);
                let stream_id = request.stream_id.as_deref();
                connection.map(|its| receivers.add(now, request.caller, stream_id, its))
            }
        };
        route.callers.push(Caller {
            id,
            address: request.caller,
            heard_at: now,
            receiver,
            is_leaving: false,
        });
        let name = route.shown.clone();
        drop(routes);
        let encrypted = if request.is_encrypted {
            ", encrypted"
        } else {
            ""
        };
        let (caller, stream) = (request.caller, stream(request.stream_id.as_deref()));
        let line = format_args!("{caller}{stream} is connected{encrypted}");
        self.lines.note(now, &name, line);
    }

    /// Forgets a caller, and returns its route, address and stream for messages.
    fn forget(&mut self, id: ConnectionId) -> Option<(String, SocketAddr, String)> {
        let mut routes = self.routes.lock();
        let mut found = None;
        for route in &mut *routes {
            let mut callers = route.callers.iter();
            if let Some(at) = callers.position(|caller| caller.id == id) {
                let caller = route.callers.remove(at);
                if let (Direction::Output(_, receivers), Some(number)) =
                    (&route.direction, caller.receiver)
                {
                    receivers.remove(number);
                }
                let stream = stream(route.stream_id.as_deref());
                found = Some((route.shown.clone(), caller.address, stream));
            }
        }
        found
    }

    /// Sends the packets of outputs to their callers, and ends the connections of an output that
    /// has ended.
    fn take_outputs(&mut self, now: Instant) {
        for route in &mut *self.routes.lock() {
            let Some(taker) = route.direction.packets() else {
                continue;
            };
            for packet in taker.take() {
                let packet: Arc<[u8]> = packet.into();
                for caller in &route.callers {
                    // A caller that is too slow misses packets; the sender counts them.
                    let _ = self.listener.send(now, caller.id, &packet);
                }
            }
            if !route.is_ending {
                continue;
            }
            for caller in &route.callers {
                if let Some(connection) = self.listener.connection(caller.id) {
                    connection.finish(now);
                }
            }
        }
    }

    /// Removes outputs that have ended and whose callers have left.
    fn remove_ended_outputs(&self) {
        let mut routes = self.routes.lock();
        routes.retain(|route| !route.is_ending || !route.callers.is_empty());
    }

    /// Hands over payloads of inputs that are due, and ends connections without a route.
    fn give_inputs(&mut self, now: Instant) {
        let mut routes = self.routes.lock();
        for id in self.listener.connection_ids() {
            let Some(connection) = self.listener.connection(id) else {
                continue;
            };
            let Some(route) = routes.iter_mut().find(|route| route.has_caller(id)) else {
                connection.close(now);
                while connection.poll_payload(now).is_some() {}
                continue;
            };
            for caller in route.callers.iter_mut().filter(|caller| caller.id == id) {
                caller.heard_at = connection.heard_at();
                caller.is_leaving = connection.closed().is_some();
            }
            while let Some(delivered) = connection.poll_payload(now) {
                if let Direction::Input(giver, _) = &route.direction {
                    // A reader that sleeps loses the newest.
                    giver.give((delivered.due_at, delivered.payload));
                }
            }
        }
    }

    fn report(&mut self, now: Instant) {
        let mut routes = self.routes.lock();
        self.local_addresses.retain(|address, _| {
            let mut callers = routes.iter().flat_map(|route| &route.callers);
            callers.any(|caller| caller.address == *address)
        });
        for route in &mut *routes {
            match &mut route.direction {
                Direction::Input(_, seen) => {
                    let caller = route.callers.first();
                    let connection = caller.and_then(|caller| {
                        let connection = self.listener.connection(caller.id)?;
                        Some((caller.address, &*connection))
                    });
                    seen.update(now, connection);
                }
                Direction::Output(_, receivers) => {
                    for caller in &route.callers {
                        let connection = self.listener.connection(caller.id);
                        if let (Some(connection), Some(number)) = (connection, caller.receiver) {
                            receivers.update(now, number, connection);
                        }
                    }
                }
            }
        }
    }
}

/// Decides about a caller.
fn admit(routes: &mut [Route], now: Instant, request: &Request) -> Result<Settings, Rejection> {
    let route = route::find(routes, request.stream_id.as_deref()).ok_or(Rejection::NotFound)?;
    if route.is_ending {
        Err(Rejection::Close)
    } else if route.has_place(now) {
        Ok(route.settings.clone())
    } else {
        Err(Rejection::Conflict)
    }
}

/// Returns the stream ID for a line, without control characters.
fn stream(id: Option<&str>) -> String {
    id.map_or_else(String::new, |id| format!(", stream {id:?},"))
}
