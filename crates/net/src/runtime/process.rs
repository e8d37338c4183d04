//! A role as a process of a world: there is no thread, and time is the world's.

use std::sync::Arc;

use anabranch_units::Instant;

use super::{Next, Role, Shared};
use crate::accept;
use crate::port::Port;
use crate::socket::ReceiveBuffers;
use crate::tcp::Tcp;
use crate::testing::process::ProcessHandle;
use crate::testing::{Process, Turn};

pub(super) struct Program<R> {
    shared: Arc<Shared<R>>,
    ports: Vec<Port>,
    buffers: ReceiveBuffers,
    due_at: Option<Instant>,
    process: ProcessHandle,
}

impl<R: Role> Program<R> {
    pub(super) fn new(shared: Arc<Shared<R>>, ports: Vec<Port>, process: ProcessHandle) -> Self {
        Program {
            shared,
            ports,
            buffers: ReceiveBuffers::for_streams(),
            due_at: None,
            process,
        }
    }

    /// Serves the sockets and advances the role, as the thread does. Returns the next step and
    /// whether the ports have to change first.
    fn serve(&mut self, number: usize) -> (Next, bool) {
        let Program {
            shared,
            ports,
            buffers,
            ..
        } = self;
        let clock = &shared.clock;
        let role = &mut *shared.lock();
        role.take_ports(clock.now(), ports);
        let (version, _) = role.peers();
        if let Some(due_at) = self.due_at.take() {
            shared.punctuality().on_turn(clock.now(), due_at);
        }
        for (index, port) in ports.iter().enumerate() {
            port.receive(number, index, |arrival, datagram| {
                role.handle_datagram(clock.now(), arrival, datagram, ports);
            });
            port.own_tcp(number);
            // A listening socket knows by its owner's call whether connections wait.
            if matches!(port.tcp(), Tcp::Listening(_)) {
                continue;
            }
            port.serve_tcp(index, clock, buffers, |arrival, datagram| {
                role.handle_datagram(clock.now(), arrival, datagram, ports);
            });
        }
        let now = clock.now();
        self.process.interrupt();
        let next = role.advance(now, ports);
        if let Next::Wait(Some(next_at)) = next {
            self.due_at = Some(next_at.max(now));
        }
        (next, role.peers().0 != version)
    }

    fn tend(&mut self, now: Instant) {
        for (index, port) in self.ports.iter_mut().enumerate() {
            if let Some(absence) = port.tend(now) {
                self.shared.lock().on_port(now, index, absence);
            }
        }
        accept::accept(now, &mut self.ports);
    }
}

impl<R: Role> Process for Program<R> {
    fn turn(&mut self, number: usize) -> Turn {
        let (next, has_changed) = self.serve(number);
        let Next::Wait(next_at) = next else {
            return Turn::Over;
        };
        let now = self.shared.clock.now();
        let tend_at = self.ports.iter().filter_map(Port::tend_at).min();
        if has_changed {
            Turn::Wait(Some(now))
        } else if tend_at.is_some_and(|at| at <= now) {
            self.tend(now);
            Turn::Wait(Some(now))
        } else {
            Turn::Wait([next_at, tend_at].into_iter().flatten().min())
        }
    }
}
