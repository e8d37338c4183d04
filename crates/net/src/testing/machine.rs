//! Machines of a world, and their interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_link::{LinkChange, LinkStatistics};
use anabranch_units::{Duration, Instant, Seed};

use super::fabric::{Fabric, MachineState};
use super::foreign_connection::ForeignConnection;
use super::host::Host;
use super::line::{Line, LineState, Way};
use crate::clock::Clock;
use crate::io::{Kind, Network};
use crate::via::Via;

/// A machine of a world.
#[derive(Clone, Debug)]
pub struct Machine {
    host: Host,
}

/// An interface of a machine, with the line behind it.
#[derive(Clone, Debug)]
pub struct Interface {
    fabric: Fabric,
    line: usize,
}

impl Machine {
    pub(super) fn add(fabric: &Fabric, name: &str) -> Machine {
        let mut state = fabric.lock();
        let (now, first_port) = (state.now, 40_000 + state.rng.below(20_000) as u16);
        let machine = MachineState::new(name, now, now, first_port);
        state.machines.push(machine);
        Machine {
            host: Host {
                fabric: fabric.clone(),
                machine: state.machines.len() - 1,
            },
        }
    }

    /// Attaches a line by an interface of this name.
    ///
    /// # Panics
    /// If the set-up of a link is wrong, or a translator is to translate IPv6.
    pub fn attach(&self, name: &str, line: &Line) -> Interface {
        let mut state = self.host.fabric.lock();
        let number = state.lines.len();
        let seed = Seed(state.seed).derive("lines").derive(&number.to_string());
        // Networks of their own: addresses for tests (RFC 2544, RFC 5180), and private ones behind
        // NATs.
        let [high, low] = (number as u16).to_be_bytes();
        let public = Ipv4Addr::new(198, 18 + high, low, 1);
        let inside = Ipv4Addr::new(10, high, low, 2);
        let addresses = if line.is_ipv6 {
            assert_eq!(line.nat, None, "a translator has addresses of IPv4");
            [IpAddr::from(Ipv6Addr::new(0x2001, 2, 0, number as u16, 0, 0, 0, 1)); 2]
        } else {
            [inside, public].map(IpAddr::from)
        };
        let line = LineState::new(self.host.machine, name, line, addresses, seed);
        state.lines.push(line);
        state.machines[self.host.machine].lines.push(number);
        Interface {
            fabric: self.host.fabric.clone(),
            line: number,
        }
    }

    /// Returns the network of programs that run on this machine.
    pub fn network(&self) -> Network {
        Network(Kind::World(self.host.clone()))
    }

    /// Returns the machine's clock.
    pub fn clock(&self) -> Clock {
        self.host.clock()
    }

    /// Connects to `to` by TCP, as a program that is not ours.
    ///
    /// # Panics
    /// If the machine has no way there.
    pub fn connect_tcp(&self, to: SocketAddr) -> ForeignConnection {
        let stream = self.host.dial(&Via::DefaultRoute, to);
        ForeignConnection::of(stream.expect("the machine has a line"))
    }

    /// Returns the number of open sockets of the machine: for datagrams, listening, and connected.
    pub fn socket_count(&self) -> usize {
        self.host.fabric.lock().socket_count(self.host.machine)
    }

    /// Makes processes get the processor late: with this probability, up to `longest` after they
    /// could have run.
    pub fn set_lateness(&self, longest: impl Into<Duration>, probability: f64) {
        let mut state = self.host.fabric.lock();
        state.machines[self.host.machine].lateness = (longest.into(), probability);
    }

    /// Interrupts turns of processes: with this probability, up to `longest` pass from the time
    /// that a turn reads until its datagrams leave.
    pub fn set_interruptions(&self, longest: impl Into<Duration>, probability: f64) {
        let mut state = self.host.fabric.lock();
        state.machines[self.host.machine].interruption = (longest.into(), probability);
    }

    /// Sets the rate of the machine's clock: the seconds that it counts in a second.
    pub fn set_clock_rate(&self, rate: f64) {
        let mut state = self.host.fabric.lock();
        let now = state.now;
        state.machines[self.host.machine].set_rate(now, rate);
    }

    /// Moves the machine's clock forward.
    pub fn move_clock(&self, by: impl Into<Duration>) {
        let mut state = self.host.fabric.lock();
        let now: Instant = state.now;
        state.machines[self.host.machine].move_by(now, by.into());
    }

    /// Stops the machine's processes, as SIGSTOP does.
    pub fn stop(&self) {
        self.host.fabric.lock().machines[self.host.machine].is_stopped = true;
    }

    /// Continues processes that were stopped.
    pub fn go_on(&self) {
        self.host.fabric.lock().go_on(self.host.machine);
    }

    /// Ends the machine's processes without a word to anybody, as SIGKILL does. Programs that are
    /// started later find the addresses free.
    pub fn kill(&self) {
        self.host.fabric.kill(Some(self.host.machine));
    }
}

impl Interface {
    fn change_line(&self, change: impl FnOnce(&mut LineState)) {
        change(&mut self.fabric.lock().lines[self.line]);
    }

    /// Returns the interface's address.
    pub fn address(&self) -> IpAddr {
        self.fabric.lock().lines[self.line].address
    }

    /// Returns the address by which others reach a port of the interface.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.public_address(), port)
    }

    /// Returns the line's address in the Internet: the translator's, if there is one.
    pub fn public_address(&self) -> IpAddr {
        self.fabric.lock().lines[self.line].public()
    }

    /// Takes the interface away. Packets in flight to it are lost.
    pub fn unplug(&self) {
        self.change_line(|line| line.is_plugged = false);
    }

    /// Brings the interface back.
    pub fn plug(&self) {
        self.change_line(|line| line.is_plugged = true);
    }

    /// Changes both links of the line.
    ///
    /// # Panics
    /// If the change is wrong for the links.
    pub fn change(&self, change: LinkChange) {
        let mut state = self.fabric.lock();
        let now = state.now;
        for way in [Way::Up, Way::Down] {
            let changed = state.lines[self.line].link_mut(way).change(now, change);
            changed.expect("the change of a link must be valid");
            state.plan(self.line, way);
        }
    }

    /// Returns the counters of the line's links, to the Internet and from it.
    pub fn link_statistics(&self) -> [LinkStatistics; 2] {
        let mut state = self.fabric.lock();
        let (now, line) = (state.now, self.line);
        [Way::Up, Way::Down].map(|way| state.lines[line].link_mut(way).statistics(now))
    }

    /// Makes the translator forget its mappings: the next datagrams come from other ports.
    pub fn rebind(&self) {
        self.change_line(|line| line.nat.iter_mut().for_each(|nat| nat.rebind()));
    }

    /// Makes the translator's present mappings lead nowhere. Each datagram keeps them so; sockets
    /// that are opened later get mappings that work.
    pub fn stick(&self) {
        self.change_line(|line| line.nat.iter_mut().for_each(|nat| nat.stick()));
    }

    /// Sets whether a firewall drops UDP in both directions.
    pub fn block_udp(&self, is_blocked: bool) {
        self.change_line(|line| line.blocks_udp = is_blocked);
    }

    /// Sets whether a firewall drops TCP in both directions.
    pub fn block_tcp(&self, is_blocked: bool) {
        self.change_line(|line| line.blocks_tcp = is_blocked);
    }

    /// Sets whether the machine's own firewall refuses to send, with `EPERM`.
    pub fn refuse(&self, is_refused: bool) {
        self.change_line(|line| line.refuses = is_refused);
    }

    /// Keeps TCP connections from moving for this time.
    pub fn stall_tcp(&self, span: impl Into<Duration>) {
        let mut state = self.fabric.lock();
        let until = state.now + span.into();
        state.lines[self.line].tcp_stalled_until = until;
    }

    /// Sets the longest IP packet that the interface takes.
    pub fn set_mtu(&self, bytes: u32) {
        self.change_line(|line| line.mtu = bytes);
    }
}
