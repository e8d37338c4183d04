//! A camera of a swarm: its machine, its lines, and the program that sends.

use anabranch_net::testing::{Interface, Machine, World};
use anabranch_net::{Ended, Events, SendError, Sender, TcpFallback};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::{Importance, Rng};

use super::super::bed::{frame_bytes, millis};

/// Numbers of a camera's frames begin at a multiple of this.
const NUMBERS: u64 = 1_000_000;

/// Events that disturb a camera for a while.
#[derive(Clone, Copy, Debug)]
pub enum Disturbance {
    Unplug(usize),
    Rebind(usize),
    Stick(usize),
    BlockUdp(usize),
    BlockAllUdp,
    BlockTcp(usize),
    Refuse(usize),
    Shrink(usize),
    Stop,
    Late,
    Kill,
}

impl Disturbance {
    pub fn any(rng: &mut Rng, line_count: usize) -> Self {
        let line = rng.below(line_count as u64) as usize;
        match rng.below(10) {
            0 => Disturbance::Unplug(line),
            1 => Disturbance::Rebind(line),
            2 => Disturbance::BlockUdp(line),
            3 => Disturbance::BlockTcp(line),
            4 => Disturbance::Refuse(line),
            5 => Disturbance::Shrink(line),
            6 => Disturbance::Stop,
            7 => Disturbance::Kill,
            8 => Disturbance::Stick(line),
            _ => Disturbance::Late,
        }
    }
}

/// A program that sends.
struct Program {
    sender: Sender,
    _events: Events,
    accepted_count: u64,
}

pub struct Camera {
    pub machine: Machine,
    pub lines: Vec<Interface>,
    pub key: PublicKey,
    /// Code with which the studio learns its key.
    pub code: Option<PairingCode>,
    /// The present disturbance, and the tick of its end.
    pub present: Option<(Disturbance, u64)>,
    /// Whether a program was killed, so that its last frames may be missing.
    pub was_killed: bool,
    name: String,
    first: u64,
    tcp: TcpFallback,
    program: Option<Program>,
}

impl Camera {
    pub fn new(world: &World, index: u64, tcp: TcpFallback) -> Camera {
        let name = format!("camera{index}");
        Camera {
            machine: world.machine(&name),
            lines: Vec::new(),
            key: world.key(&name).public_key(),
            code: None,
            present: None,
            was_killed: false,
            name,
            first: index * NUMBERS,
            tcp,
            program: None,
        }
    }

    /// Returns the tick of a frame of this camera.
    pub fn tick_of(&self, number: u64) -> Option<u64> {
        number
            .checked_sub(self.first)
            .filter(|tick| *tick < NUMBERS)
    }

    /// Starts a program that sends to this studio.
    pub fn start(&mut self, world: &World, studio: &str, to: std::net::SocketAddr) {
        let mut builder = Sender::builder()
            .key(world.key(&self.name))
            .peer(world.key(studio).public_key())
            .network(self.machine.network())
            .tcp(self.tcp)
            .to(to);
        for index in 0..self.lines.len() {
            builder = builder.via(format!("line{index}").as_str());
        }
        if let Some(code) = &self.code {
            builder = builder.pairing_code(code.clone());
        }
        let (sender, events) = builder.start().expect("the set-up works");
        self.program = Some(Program {
            sender,
            _events: events,
            accepted_count: 0,
        });
    }

    /// Sends the frame of a tick, if a program runs and has a session.
    pub fn send(&mut self, tick: u64) {
        let Some(program) = &mut self.program else {
            return;
        };
        let importance = Importance::key_if(tick.is_multiple_of(10));
        match program
            .sender
            .send(frame_bytes(self.first + tick), importance)
        {
            Ok(_) => program.accepted_count += 1,
            Err(SendError::Ended(ended)) => panic!("the session of {} ended: {ended}", self.name),
            Err(_) => {}
        }
    }

    /// Begins a disturbance.
    pub fn disturb(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Unplug(line) => self.lines[line].unplug(),
            Disturbance::Rebind(line) => self.lines[line].rebind(),
            Disturbance::Stick(line) => self.lines[line].stick(),
            Disturbance::BlockUdp(line) => self.lines[line].block_udp(true),
            Disturbance::BlockAllUdp => self.lines.iter().for_each(|line| line.block_udp(true)),
            Disturbance::BlockTcp(line) => self.lines[line].block_tcp(true),
            Disturbance::Refuse(line) => self.lines[line].refuse(true),
            Disturbance::Shrink(line) => self.lines[line].set_mtu(1_300),
            Disturbance::Stop => self.machine.stop(),
            Disturbance::Late => self.machine.set_lateness(millis(100), 0.5),
            Disturbance::Kill => {
                self.machine.kill();
                self.was_killed = true;
                self.program = None;
            }
        }
    }

    /// Ends a disturbance. Returns whether the program must be started again.
    pub fn calm(&mut self, disturbance: Disturbance) -> bool {
        match disturbance {
            Disturbance::Unplug(line) => self.lines[line].plug(),
            Disturbance::Rebind(_) | Disturbance::Stick(_) => {}
            Disturbance::BlockUdp(line) => self.lines[line].block_udp(false),
            Disturbance::BlockAllUdp => self.lines.iter().for_each(|line| line.block_udp(false)),
            Disturbance::BlockTcp(line) => self.lines[line].block_tcp(false),
            Disturbance::Refuse(line) => self.lines[line].refuse(false),
            Disturbance::Shrink(line) => self.lines[line].set_mtu(1_500),
            Disturbance::Stop => self.machine.go_on(),
            Disturbance::Late => self.machine.set_lateness(millis(0), 0.0),
            Disturbance::Kill => return true,
        }
        false
    }

    /// Returns the number of earlier sessions of the present program.
    pub fn past_sessions(&self) -> u64 {
        let program = self.program.as_ref().expect("it was started again");
        program.sender.snapshot().past_sessions
    }

    /// Checks that every frame that the present program accepted is counted. Returns their number.
    pub fn check_counts(&self) -> u64 {
        let program = self.program.as_ref().expect("it was started again");
        let sent = program.sender.snapshot().session.frames_sent;
        assert_eq!(sent, program.accepted_count, "accepted by {}", self.name);
        sent
    }

    /// Checks that the program holds a socket and a connection for each path at most.
    pub fn check_sockets(&self) {
        let (held, limit) = (self.machine.socket_count(), 2 * self.lines.len());
        assert!(held <= limit, "{held} sockets of {}", self.name);
    }

    pub fn finish(&mut self) {
        let program = self.program.take().expect("it was started again");
        assert_eq!(program.sender.finish(), Ended::Closed, "{}", self.name);
        assert_eq!(self.machine.socket_count(), 0, "{}", self.name);
    }
}
