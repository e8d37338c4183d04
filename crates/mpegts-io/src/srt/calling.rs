//! An input or output that calls a listener, and calls again when a connection is over.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_net::Clock;
use anabranch_srt::{Caller, CloseReason, Entropy};
use anabranch_units::{Duration, Instant};
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};

use super::port::{AT_ONCE, MAX_DATAGRAM_BYTES, timespec};
use super::route::Direction;
use super::seen::{LOOK_INTERVAL, Summary};
use super::{SrtAddress, entropy};
use crate::limited_lines::LimitedLines;
use crate::srtla;
use crate::worker::Worker;

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
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let (address, entropy, clock) = (address.clone(), entropy()?, *clock);
        let run = move |is_over| {
            let hands = Hands {
                address,
                direction,
                entropy,
                clock,
                is_over,
                failed_calls: 0,
                lines: LimitedLines::default(),
            };
            hands.run();
        };
        Ok(Calling {
            _worker: Worker::start("srt", run)?,
        })
    }
}

/// State of the thread.
struct Hands {
    address: SrtAddress,
    direction: Direction,
    entropy: Entropy,
    clock: Clock,
    is_over: Arc<AtomicBool>,
    /// Number of calls without a connection, which chooses the address.
    failed_calls: usize,
    lines: LimitedLines,
}

impl Hands {
    fn run(mut self) {
        let mut wait = FIRST_WAIT;
        while !self.is_over() {
            let was_connected = match self.call() {
                Ok(was_connected) => was_connected,
                Err(error) => {
                    self.note(format_args!("{error:#}"));
                    false
                }
            };
            if !was_connected {
                self.failed_calls += 1;
            }
            wait = if was_connected {
                FIRST_WAIT
            } else {
                (wait * 2).min(LONGEST_WAIT)
            };
            self.rest(wait);
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn note(&mut self, line: core::fmt::Arguments<'_>) {
        let now = self.clock.now();
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

    /// Waits before the next call. Packets of an output are dropped meanwhile, and so are those of
    /// the call that failed: they would be late.
    fn rest(&mut self, wait: Duration) {
        let until = self.clock.now() + wait;
        while !self.is_over() && self.clock.now() < until {
            let rest = until.saturating_since(self.clock.now());
            std::thread::park_timeout(rest.min(LOOK_INTERVAL).to_std());
            self.direction.packets().inspect(|taker| drop(taker.take()));
        }
    }

    /// Calls once, and returns whether there was a connection when it is over.
    fn call(&mut self) -> anyhow::Result<bool> {
        let to = self.address.resolve_for(self.failed_calls)?;
        let any = match to.is_ipv4() {
            true => "0.0.0.0:0",
            false => "[::]:0",
        };
        let socket = srtla::socket(any.parse()?).context("cannot open a socket")?;
        socket
            .connect(to)
            .with_context(|| format!("cannot reach {to}"))?;
        let (now, settings) = (self.clock.now(), self.address.settings.clone());
        let stream_id = self.address.stream_id.as_deref();
        let caller = Caller::new(now, to, stream_id, settings, self.entropy.derive());
        let mut call = Call {
            socket,
            caller,
            is_connected: false,
            receiver: None,
            look_at: now,
        };
        while !call.caller.is_drained() {
            // A step after the end takes the last packets of an output.
            let is_over = self.is_over();
            self.step(&mut call);
            if is_over {
                call.caller.finish(self.clock.now());
                call.write(self.clock.now());
            }
        }
        let reason = call.caller.closed().unwrap_or(CloseReason::Local);
        match &mut self.direction {
            Direction::Input(_, seen) => seen.update(self.clock.now(), None),
            Direction::Output(_, receivers) => {
                call.receiver.inspect(|number| receivers.remove(*number));
            }
        }
        let connection = call.caller.connection();
        let Some(statistics) = connection.map(|connection| connection.statistics()) else {
            if reason != CloseReason::Local {
                self.note(format_args!("{reason}"));
            }
            return Ok(false);
        };
        self.note(format_args!("{reason}; {}", Summary(statistics)));
        Ok(true)
    }

    fn step(&mut self, call: &mut Call) {
        // Packets wait for the connection, so that the listener gets the stream's head.
        let is_connected = call.caller.connection().is_some();
        let output = self.direction.packets().filter(|_| is_connected);
        let patience = call
            .caller
            .poll_timeout()
            .saturating_since(self.clock.now());
        let mut awaited = vec![PollFd::new(&call.socket, PollFlags::IN)];
        awaited.extend(output.map(|taker| PollFd::new(taker, PollFlags::IN)));
        // After an error, reads do not block.
        let _ = poll(&mut awaited, Some(&timespec(patience)));
        let now = self.clock.now();
        call.read(now);
        call.caller.handle_timeout(now);
        let packets = output.map(|taker| taker.take()).unwrap_or_default();
        if let Some(connection) = call.caller.connection() {
            for packet in packets {
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
        self.look(now, call);
    }

    fn look(&mut self, now: Instant, call: &mut Call) {
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
            self.note(format_args!("connected{encrypted}"));
        }
        if now >= call.look_at
            && let (Ok(address), Some(connection)) =
                (call.socket.peer_addr(), call.caller.connection())
        {
            call.look_at = now + LOOK_INTERVAL;
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
    socket: UdpSocket,
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
                Ok(length) => self.caller.handle_datagram(now, &buffer[..length]),
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
