//! The state of a world: machines, lines, processes, and the queue of its events.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use anabranch_units::{Duration, Instant, Rng, Seed};

use super::bystander::{Bystander, Fate, Hands, is_bystanders};
use super::datagrams::SocketState;
use super::line::{LineState, Way};
use super::packet::Packet;
use super::pipe::{AcceptorState, PipeState};
use crate::names::Reply;
use crate::names::ResolveError;
use crate::surroundings::OnAddresses;

/// Number of turns of one process at one instant that proves an endless loop.
const MAX_TURNS_AT_ONCE: u32 = 10_000;

/// A world, shared by its handles. There are no threads: the lock is never contended.
#[derive(Clone)]
pub(crate) struct Fabric(Arc<Mutex<State>>);

/// A program that runs in a world.
pub(crate) trait Process: Send {
    /// Receives, and performs due steps. `number` is the process's.
    fn turn(&mut self, number: usize) -> Turn;
}

/// Next step of a process, by its machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Waits for an arrival, a wake-up, or this time.
    Wait(Option<Instant>),
    /// Ends.
    Over,
}

/// Events of the world's queue.
pub(super) enum Due {
    /// A packet may leave a line.
    Line(usize, Way),
    /// A datagram enters its machine's line.
    Depart(usize, Packet),
    /// A datagram goes on to its destination.
    Route(Packet),
    /// A datagram of the bystander arrives, past all lines.
    Inject(Packet),
    /// Bytes of a TCP connection may arrive.
    Pipe(u64),
    /// A process's timer.
    Timer(usize, Instant),
    /// A process gets the processor.
    Turn(usize),
    /// The resolver answers.
    Reply(Reply, Result<Vec<SocketAddr>, ResolveError>),
    /// The resolver answers another protocol.
    Addresses(OnAddresses, Result<Vec<SocketAddr>, ResolveError>),
    /// A datagram arrives at its own machine.
    Loopback(usize, Packet),
    /// A task has slept long enough.
    Wake(Waker),
}

/// The processor, clock and addresses of a machine.
pub(super) struct MachineState {
    pub(super) name: String,
    pub(super) lines: Vec<usize>,
    /// Longest wait of a runnable process, and its probability.
    pub(super) lateness: (Duration, f64),
    /// Longest interruption of a turn between its reading of the clock and its sending, and its
    /// probability.
    pub(super) interruption: (Duration, f64),
    pub(super) is_stopped: bool,
    /// The hand of the machine's clock, in nanoseconds.
    pub(super) hand: &'static AtomicU64,
    /// The clock's reading and the world's time when its rate was last set, and its rate.
    pub(super) clock: (Instant, Instant, f64),
    pub(super) next_port: u16,
}

pub(super) struct Slot {
    pub(super) machine: usize,
    program: Option<Box<dyn Process>>,
    is_over: bool,
    is_runnable: bool,
    timer_at: Option<Instant>,
    /// Number of turns at the present instant.
    turns: (Instant, u32),
}

pub(crate) struct State {
    pub(super) now: Instant,
    pub(super) seed: u64,
    pub(super) rng: Rng,
    sequence: u64,
    /// Number of events so far.
    pub(super) step_count: u64,
    events: BTreeMap<(Instant, u64), Due>,
    pub(super) machines: Vec<MachineState>,
    pub(super) lines: Vec<LineState>,
    pub(super) processes: Vec<Slot>,
    pub(super) sockets: BTreeMap<u64, SocketState>,
    pub(super) acceptors: BTreeMap<u64, AcceptorState>,
    pub(super) pipes: BTreeMap<u64, PipeState>,
    pub(super) names: BTreeMap<String, Result<Vec<IpAddr>, ResolveError>>,
    pub(super) resolver_delay: Duration,
    pub(super) bystander: Option<Box<dyn Bystander>>,
    /// Datagrams that strangers have received, by their address, each with its source.
    pub(super) strangers: BTreeMap<SocketAddr, Vec<(SocketAddr, Vec<u8>)>>,
    pub(super) is_logged: bool,
    pub(super) hash: u64,
}

impl Fabric {
    pub(super) fn new(seed: u64) -> Fabric {
        Fabric(Arc::new(Mutex::new(State {
            now: Instant::from_secs(1),
            seed,
            rng: Seed(seed).derive("world").rng(),
            sequence: 0,
            step_count: 0,
            events: BTreeMap::new(),
            machines: Vec::new(),
            lines: Vec::new(),
            processes: Vec::new(),
            sockets: BTreeMap::new(),
            acceptors: BTreeMap::new(),
            pipes: BTreeMap::new(),
            names: BTreeMap::new(),
            resolver_delay: Duration::ZERO,
            bystander: None,
            strangers: BTreeMap::new(),
            is_logged: std::env::var_os("WORLD_LOG").is_some(),
            hash: 0xcbf2_9ce4_8422_2325,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether both are the same world.
    pub(super) fn is_same(&self, other: &Fabric) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Starts a process, whose first turn is due now. Returns its number.
    pub(crate) fn spawn(&self, number: usize, program: Box<dyn Process>) {
        let mut state = self.lock();
        state.processes[number].program = Some(program);
        state.wake(number);
    }

    /// Reserves the number of a process of `machine`.
    pub(crate) fn reserve(&self, machine: usize) -> usize {
        let mut state = self.lock();
        state.processes.push(Slot {
            machine,
            program: None,
            is_over: false,
            is_runnable: false,
            timer_at: None,
            turns: (Instant::ZERO, 0),
        });
        state.processes.len() - 1
    }

    pub(crate) fn wake(&self, process: usize) {
        self.lock().wake(process);
    }

    pub(crate) fn is_over(&self, process: usize) -> bool {
        self.lock().processes[process].is_over
    }

    /// Handles the next event if it is due by `until`. Returns whether there was one.
    pub(crate) fn step(&self, until: Instant) -> bool {
        let mut state = self.lock();
        let Some(entry) = state
            .events
            .first_entry()
            .filter(|entry| entry.key().0 <= until)
        else {
            return false;
        };
        let ((at, _), due) = entry.remove_entry();
        state.set_time(at);
        state.step_count += 1;
        match due {
            Due::Line(line, way) => state.advance_line(line, way),
            Due::Depart(line, packet) => state.push(line, Way::Up, packet),
            Due::Route(packet) => state.route(packet, true),
            Due::Inject(packet) => state.inject(packet),
            Due::Pipe(pipe) => state.advance_pipe(pipe),
            Due::Timer(process, timer_at) => {
                if state.processes[process].timer_at == Some(timer_at) {
                    state.wake(process);
                }
            }
            Due::Turn(process) => {
                drop(state);
                self.turn(process);
            }
            Due::Reply(reply, outcome) => {
                drop(state);
                reply.send(outcome);
            }
            Due::Addresses(on_addresses, outcome) => {
                drop(state);
                on_addresses(outcome);
            }
            Due::Loopback(machine, packet) => state.arrive_at(machine, None, packet),
            Due::Wake(waker) => {
                drop(state);
                waker.wake();
            }
        }
        true
    }

    fn turn(&self, number: usize) {
        let mut program = {
            let mut state = self.lock();
            let slot = &mut state.processes[number];
            slot.is_runnable = false;
            let machine = slot.machine;
            if state.machines[machine].is_stopped {
                return;
            }
            state.count_turn(number);
            let Some(program) = state.processes[number].program.take() else {
                return;
            };
            program
        };
        let turn = program.turn(number);
        let mut state = self.lock();
        match turn {
            Turn::Wait(at) if !state.processes[number].is_over => {
                state.processes[number].program = Some(program);
                state.set_timer(number, at);
            }
            _ => {
                state.processes[number].is_over = true;
                drop(state);
                // Its sockets close, for which they lock the world.
                drop(program);
            }
        }
    }

    /// Ends the processes of a machine, or of all, without a word to anybody.
    pub(super) fn kill(&self, machine: Option<usize>) {
        let mut killed = Vec::new();
        let mut state = self.lock();
        for slot in &mut state.processes {
            if machine.is_none_or(|machine| machine == slot.machine) {
                slot.is_over = true;
                killed.push(slot.program.take());
            }
        }
        drop(state);
        drop(killed);
    }
}

impl State {
    fn set_time(&mut self, at: Instant) {
        self.now = self.now.max(at);
        for machine in &self.machines {
            let reading = machine.reading(self.now);
            machine
                .hand
                .fetch_max(reading.as_nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn run_to(&mut self, at: Instant) {
        self.set_time(at);
    }

    pub(super) fn schedule(&mut self, at: Instant, due: Due) {
        self.sequence += 1;
        self.events.insert((at.max(self.now), self.sequence), due);
    }

    /// Returns a number that was never used before.
    pub(super) fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn wake(&mut self, process: usize) {
        let slot = &mut self.processes[process];
        if slot.is_runnable || slot.is_over {
            return;
        }
        slot.is_runnable = true;
        let machine = &self.machines[slot.machine];
        let (longest, chance) = machine.lateness;
        let mut at = self.now + machine.interrupted_for(self.now);
        if !longest.is_zero() && self.rng.chance(chance) {
            at += Duration::from_nanos(self.rng.below(longest.as_nanos()));
        }
        self.schedule(at, Due::Turn(process));
    }

    /// Interrupts a turn of a process, if its machine does that: its clock goes on, and its
    /// datagrams leave later.
    pub(super) fn interrupt(&mut self, process: usize) {
        let machine = self.processes[process].machine;
        let (longest, chance) = self.machines[machine].interruption;
        if !longest.is_zero() && self.rng.chance(chance) {
            let span = self.rng.below(longest.as_nanos());
            self.machines[machine]
                .hand
                .fetch_add(span, Ordering::Relaxed);
        }
    }

    /// Wakes the process that owns a socket or, if that is unknown, all processes of its machine.
    pub(super) fn wake_owner(&mut self, machine: usize, process: Option<usize>) {
        match process {
            Some(process) => self.wake(process),
            None => {
                for process in 0..self.processes.len() {
                    if self.processes[process].machine == machine {
                        self.wake(process);
                    }
                }
            }
        }
    }

    fn set_timer(&mut self, process: usize, at: Option<Instant>) {
        let machine = &self.machines[self.processes[process].machine];
        let at = at.map(|at| machine.world_time(at, self.now));
        self.processes[process].timer_at = at;
        if let Some(at) = at {
            self.schedule(at, Due::Timer(process, at));
        }
    }

    fn count_turn(&mut self, number: usize) {
        let (now, machine) = (self.now, self.processes[number].machine);
        let (at, count) = &mut self.processes[number].turns;
        if *at != now {
            (*at, *count) = (now, 0);
        }
        *count += 1;
        let is_endless = *count > MAX_TURNS_AT_ONCE;
        let name = &self.machines[machine].name;
        assert!(
            !is_endless,
            "a process of {name} loops without end at {now:?}"
        );
    }

    /// Continues the processes of a machine.
    pub(super) fn go_on(&mut self, machine: usize) {
        self.machines[machine].is_stopped = false;
        for process in 0..self.processes.len() {
            if self.processes[process].machine == machine {
                self.processes[process].is_runnable = false;
                self.wake(process);
            }
        }
    }

    /// Takes a datagram behind the line of its sender.
    pub(super) fn cross(&mut self, packet: Packet) {
        self.record(&packet);
        let Some(mut bystander) = self.bystander.take() else {
            return self.route(packet, true);
        };
        let mut hands = Hands::default();
        bystander.see(self.now, &packet, &mut hands);
        self.bystander = Some(bystander);
        match hands.fate {
            Fate::Passes => self.route(packet, true),
            Fate::Held(span) => self.schedule(self.now + span, Due::Route(packet)),
            Fate::Dropped => {}
        }
        self.inject_all(hands);
    }

    fn inject_all(&mut self, hands: Hands) {
        for (after, packet) in hands.injected {
            self.schedule(self.now + after, Due::Inject(packet));
        }
    }

    fn inject(&mut self, packet: Packet) {
        self.record(&packet);
        self.route(packet, false);
    }

    /// Sends a datagram to its destination: through its line, or past it.
    fn route(&mut self, packet: Packet, by_line: bool) {
        if let Some(received) = self.strangers.get_mut(&packet.to) {
            return received.push((packet.from, packet.bytes));
        }
        if is_bystanders(packet.to.ip()) {
            let Some(mut bystander) = self.bystander.take() else {
                return;
            };
            let mut hands = Hands::default();
            bystander.receive(self.now, &packet, &mut hands);
            self.bystander = Some(bystander);
            return self.inject_all(hands);
        }
        let now = self.now;
        let Some(line) = self.line_of(packet.to.ip()) else {
            return;
        };
        if let Some(packet) = self.lines[line].admit(now, packet) {
            if by_line {
                self.push(line, Way::Down, packet);
            } else {
                self.arrive(line, packet);
            }
        }
    }

    /// Returns the line with this address in the Internet.
    pub(super) fn line_of(&self, address: IpAddr) -> Option<usize> {
        self.lines.iter().position(|line| line.public() == address)
    }

    fn record(&mut self, packet: &Packet) {
        let Packet {
            from, to, bytes, ..
        } = packet;
        let (now, length) = (self.now.as_nanos(), bytes.len());
        let ends = [from, to].map(|end| (end.ip(), end.port()));
        for word in [now, length as u64].into_iter().chain(ends.map(word)) {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.is_logged {
            let seconds = self.now.as_secs_f64();
            let kind = bytes.first().copied().unwrap_or_default();
            eprintln!("{seconds:.6} {from} > {to}: {length} bytes, type {kind}");
        }
    }
}

fn word((ip, port): (IpAddr, u16)) -> u64 {
    let host = match ip {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        // The halves of 2001:2::/48 that differ.
        IpAddr::V6(ip) => u64::from(ip.segments()[3]) << 16 | u64::from(ip.segments()[7]),
    };
    host << 16 | u64::from(port)
}

impl MachineState {
    /// Returns the reading of the machine's clock at `now`.
    pub(super) fn reading(&self, now: Instant) -> Instant {
        let (reading, set_at, rate) = self.clock;
        reading + now.saturating_since(set_at).mul_f64(rate)
    }

    /// Returns how far the clock's hand is ahead: the rest of an interruption.
    pub(super) fn interrupted_for(&self, now: Instant) -> Duration {
        let hand = Instant::from_nanos(self.hand.load(Ordering::Relaxed));
        hand.saturating_since(self.reading(now))
    }

    /// Moves the clock forward.
    pub(super) fn move_by(&mut self, now: Instant, by: Duration) {
        let (_, _, rate) = self.clock;
        self.clock = (self.reading(now) + by, now, rate);
    }

    /// Sets the rate of the machine's clock: seconds that it counts in a second.
    pub(super) fn set_rate(&mut self, now: Instant, rate: f64) {
        self.clock = (self.reading(now), now, rate);
    }

    /// Returns the world's time at which the machine's clock reads `at`.
    fn world_time(&self, at: Instant, now: Instant) -> Instant {
        let (_, _, rate) = self.clock;
        let left = at.saturating_since(self.reading(now));
        if rate == 1.0 {
            return now + left;
        }
        // Rounded up: a timer must not be early.
        now + left.mul_f64(1.0 / rate) + Duration::from_nanos(1)
    }

    pub(super) fn new(name: &str, now: Instant, reading: Instant, next_port: u16) -> Self {
        MachineState {
            name: name.to_owned(),
            lines: Vec::new(),
            lateness: (Duration::ZERO, 0.0),
            interruption: (Duration::ZERO, 0.0),
            is_stopped: false,
            // A clock is copied freely, so its hand lives as long as the program: eight bytes.
            hand: Box::leak(Box::new(AtomicU64::new(reading.as_nanos()))),
            clock: (reading, now, 1.0),
            next_port,
        }
    }
}

impl State {
    /// Returns a local port that no socket of the machine has.
    pub(super) fn free_port(&mut self, machine: usize) -> u16 {
        let port = self.machines[machine].next_port;
        self.machines[machine].next_port = port.checked_add(1).unwrap_or(40_000);
        port
    }

    /// Returns the line by which a machine reaches an address by default: the first of its family
    /// that is plugged in.
    pub(super) fn default_line(&self, machine: usize, remote: IpAddr) -> Option<usize> {
        let mut lines = self.machines[machine].lines.iter().copied();
        lines.find(|line| {
            let line = &self.lines[*line];
            line.is_plugged && line.address.is_ipv4() == remote.is_ipv4()
        })
    }

    pub(super) fn address_of(&self, line: usize, port: u16) -> SocketAddr {
        SocketAddr::new(self.lines[line].address, port)
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}
