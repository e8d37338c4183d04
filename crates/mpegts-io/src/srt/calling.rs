//! An input or output that calls a listener, and calls again when a connection is over.

use std::net::SocketAddr;

use anabranch_net::{PlainSocket, Surroundings, Via, Work, Worker};
use anabranch_srt::{Caller, CloseReason, Entropy};
use anabranch_units::{Duration, Instant};

use super::caller_links::{POLL_INTERVAL, Summary};
use super::error::SrtError;
use super::port::{AT_ONCE, MAX_DATAGRAM_BYTES, PATIENCE};
use super::route::Direction;
use super::{SrtAddress, entropy};
use crate::causes::WithCauses;
use crate::limited_lines::LimitedLines;

/// Wait before another call, doubled by each call without a connection.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The thread of a call, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Calling {
    _worker: Worker,
}

impl Calling {
    /// Calls the address until this is dropped. The last packets of an output then arrive first.
    ///
    /// # Errors
    /// The system lacks something.
    pub(super) fn start(
        address: &SrtAddress,
        direction: Direction,
        surroundings: &Surroundings,
    ) -> Result<Self, SrtError> {
        let packets = direction.packets().cloned();
        let hands = Hands {
            address: address.clone(),
            direction,
            entropy: entropy(surroundings)?,
            surroundings: surroundings.clone(),
            state: State::Resting(surroundings.clock().now()),
            wait: FIRST_WAIT,
            failed_calls: 0,
            lines: LimitedLines::default(),
        };
        let worker = Worker::start("srt", surroundings, hands).map_err(SrtError::Thread)?;
        if let Some(taker) = packets {
            taker.wake(worker.waker());
        }
        Ok(Calling { _worker: worker })
    }
}

/// State of the thread.
struct Hands {
    address: SrtAddress,
    direction: Direction,
    entropy: Entropy,
    surroundings: Surroundings,
    state: State,
    /// Wait before the next call.
    wait: Duration,
    /// Number of calls without a connection, which chooses the address.
    failed_calls: usize,
    lines: LimitedLines,
}

enum State {
    /// Waits until this time before the next call.
    Resting(Instant),
    Calling(Box<Call>),
}

impl Work for Hands {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        let state = core::mem::replace(&mut self.state, State::Resting(now));
        let mut call = match state {
            State::Calling(call) => call,
            State::Resting(_) if is_ending => return None,
            State::Resting(until) if now < until => {
                self.state = state;
                return Some(self.rest(now, until));
            }
            State::Resting(_) => match self.call(now) {
                Ok(call) => call,
                Err(error) => {
                    self.note(now, format_args!("{}", WithCauses(&error)));
                    return Some(self.on_over(now, false));
                }
            },
        };
        // A step at the end takes the last packets of an output.
        self.step(now, &mut call);
        if is_ending {
            call.caller.finish(now);
            call.write(now);
        }
        if call.caller.is_drained() {
            let was_connected = self.end(now, &mut call);
            let next_at = self.on_over(now, was_connected);
            return (!is_ending).then_some(next_at);
        }
        let next_at = call.caller.poll_timeout().min(now + PATIENCE);
        self.state = State::Calling(call);
        Some(next_at)
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        match &self.state {
            State::Resting(_) => Vec::new(),
            State::Calling(call) => vec![call.socket.clone()],
        }
    }
}

impl Hands {
    fn note(&mut self, now: Instant, line: core::fmt::Arguments<'_>) {
        let SrtAddress {
            shown, stream_id, ..
        } = &self.address;
        match stream_id {
            Some(id) => {
                let line = format_args!("{line} (stream {id:?})");
                self.lines.note(now, shown, line);
            }
            None => self.lines.note(now, shown, line),
        }
    }

    /// Drops the packets of an output before the next call, and those of the call that failed: they
    /// would be late. Returns the time of the next turn.
    fn rest(&mut self, now: Instant, until: Instant) -> Instant {
        if let Some(taker) = self.direction.packets() {
            drop(taker.take());
        }
        until.min(now + POLL_INTERVAL)
    }

    /// Rests after a call. Returns the time of the next turn.
    fn on_over(&mut self, now: Instant, was_connected: bool) -> Instant {
        if was_connected {
            self.wait = FIRST_WAIT;
        } else {
            self.failed_calls += 1;
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        let until = now + self.wait;
        self.state = State::Resting(until);
        self.rest(now, until)
    }

    /// Begins a call.
    fn call(&mut self, now: Instant) -> Result<Box<Call>, SrtError> {
        let to = self
            .address
            .resolve_for(self.failed_calls, &self.surroundings)?;
        let socket = PlainSocket::open(&self.surroundings, &Via::DefaultRoute, to)
            .map_err(|source| SrtError::Reach { to, source })?;
        let settings = self.address.settings.clone();
        let stream_id = self.address.stream_id.as_deref();
        let caller = Caller::new(now, to, stream_id, settings, self.entropy.derive());
        Ok(Box::new(Call {
            socket,
            to,
            caller,
            is_connected: false,
            receiver: None,
            look_at: now,
        }))
    }

    /// Ends a call. Returns whether there was a connection.
    fn end(&mut self, now: Instant, call: &mut Call) -> bool {
        let reason = call.caller.closed().unwrap_or(CloseReason::Local);
        match &mut self.direction {
            Direction::Input(_, seen) => seen.update(now, None),
            Direction::Output(_, receivers) => {
                if let Some(number) = call.receiver {
                    receivers.remove(number);
                }
            }
        }
        let connection = call.caller.connection();
        let statistics = connection.map(|connection| connection.statistics());
        match statistics {
            Some(statistics) => self.note(now, format_args!("{reason}; {}", Summary(statistics))),
            None if reason != CloseReason::Local => self.note(now, format_args!("{reason}")),
            None => {}
        }
        statistics.is_some()
    }

    fn step(&mut self, now: Instant, call: &mut Call) {
        call.read(now);
        call.caller.handle_timeout(now);
        if let Some(connection) = call.caller.connection() {
            // Packets wait for the connection, so that the listener gets the stream's head.
            let packets = self.direction.packets().map(|taker| taker.take());
            for packet in packets.unwrap_or_default() {
                // A listener that is too slow misses packets; the sender counts them.
                let _ = connection.send(now, &packet);
            }
            while let Some(delivered) = connection.poll_payload(now) {
                if let Direction::Input(giver, _) = &self.direction {
                    giver.give((delivered.due_at, delivered.payload));
                }
            }
        }
        call.write(now);
        self.report(now, call);
    }

    fn report(&mut self, now: Instant, call: &mut Call) {
        let Some(connection) = call.caller.connection() else {
            return;
        };
        if !call.is_connected {
            call.is_connected = true;
            let encrypted = if connection.is_encrypted() {
                ", encrypted"
            } else {
                ""
            };
            self.note(now, format_args!("connected{encrypted}"));
        }
        if now >= call.look_at {
            let address = call.to;
            call.look_at = now + POLL_INTERVAL;
            match (&mut self.direction, call.receiver) {
                (Direction::Input(_, seen), _) => seen.update(now, Some((address, connection))),
                (Direction::Output(_, receivers), Some(number)) => {
                    receivers.update(now, number, connection);
                }
                (Direction::Output(_, receivers), None) => {
                    call.receiver = Some(receivers.add(now, address, None, connection));
                }
            }
        }
    }
}

/// One call and its socket.
struct Call {
    socket: PlainSocket,
    to: SocketAddr,
    caller: Caller,
    is_connected: bool,
    /// Number among the output's receivers, once it is connected.
    receiver: Option<u64>,
    look_at: Instant,
}

impl Call {
    fn read(&mut self, now: Instant) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        for _ in 0..AT_ONCE {
            match self.socket.recv(&mut buffer) {
                Ok((length, _, _)) => self.caller.handle_datagram(now, &buffer[..length]),
                // A port without a listener refuses; the call is repeated until its timeout.
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, now: Instant) {
        while let Some(packet) = self.caller.poll_transmit(now) {
            // A datagram that finds no room is lost, as anywhere in the network.
            let _ = self.socket.send(&packet);
        }
    }
}
