//! The studio of a swarm: its machine, and the program that receives from all cameras.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anabranch_net::testing::{Interface, Machine, World};
use anabranch_net::{Event, PairingOutcome, Receiver, Reception, Receptions};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::Duration;

use super::super::bed::{line, number_of};

/// Name of the studio's key.
pub const NAME: &str = "studio";
/// Limit of unconfirmed sessions, sessions of replaced senders, and ended sessions
/// (docs/protocol-security.md).
const MAX_UNCONFIRMED: usize = 2_048;
const MAX_OLD_SESSIONS: usize = 16;
/// Limit of the bytes of frames that wait for others.
const MAX_WAITING_BYTES: u64 = 64 << 20;

/// A program that receives.
struct Program {
    receiver: Receiver,
    receptions: Receptions,
    sessions: Vec<Session>,
    /// Frames that this program has handed out, by camera.
    frames: BTreeMap<PublicKey, BTreeSet<u64>>,
}

struct Session {
    reception: Reception,
    frame_count: u64,
}

pub struct ReceiverHost {
    pub machine: Machine,
    line: Interface,
    pub listens_by_tcp: bool,
    max_sessions: usize,
    /// Keys that are allowed.
    pub allowed: Vec<PublicKey>,
    /// One of them that is hostile: its frames may be anything.
    pub intruder: Option<PublicKey>,
    /// Code for a camera that is not allowed yet.
    pub code: Option<PairingCode>,
    /// Frames of each camera that any program has handed out.
    pub received: BTreeMap<PublicKey, BTreeSet<u64>>,
    pub was_restarted: bool,
    program: Option<Program>,
}

impl ReceiverHost {
    pub const TCP_PORT: u16 = 443;

    pub fn new(world: &World, max_sessions: usize, listens_by_tcp: bool) -> ReceiverHost {
        let machine = world.machine(NAME);
        let line = machine.attach("eth0", &line(200, 1));
        ReceiverHost {
            machine,
            line,
            listens_by_tcp,
            max_sessions,
            allowed: Vec::new(),
            intruder: None,
            code: None,
            received: BTreeMap::new(),
            was_restarted: false,
            program: None,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.line.at(7_000)
    }

    pub fn start(&mut self, world: &World) {
        let mut builder = Receiver::builder()
            .key(world.key(NAME))
            .max_sessions(self.max_sessions)
            .network(self.machine.network())
            .listen(self.address());
        for key in &self.allowed {
            builder = builder.allow(*key);
        }
        if self.listens_by_tcp {
            builder = builder.listen_tcp(self.line.at(ReceiverHost::TCP_PORT));
        }
        let (receiver, receptions) = builder.start().expect("the addresses are free");
        if let Some(code) = &self.code {
            receiver.start_pairing(code.clone(), Duration::from_secs(600));
        }
        self.program = Some(Program {
            receiver,
            receptions,
            sessions: Vec::new(),
            frames: BTreeMap::new(),
        });
    }

    /// Ends the program without a word to anybody.
    pub fn kill(&mut self) {
        self.machine.kill();
        self.was_restarted = true;
        self.program = None;
        assert_eq!(self.machine.socket_count(), 0);
    }

    /// Ends the program, which notifies its senders.
    pub fn leave(&mut self) {
        self.was_restarted = true;
        self.program = None;
    }

    /// Takes the frames that have come, and checks that no frame comes twice, altered, out of
    /// order, or from another camera.
    pub fn take_frames(&mut self, owner_of: impl Fn(u64) -> Option<PublicKey>) {
        let Some(program) = &mut self.program else {
            return;
        };
        while let Ok(reception) = program.receptions.try_recv() {
            program.sessions.push(Session {
                reception,
                frame_count: 0,
            });
        }
        for session in &mut program.sessions {
            let peer = session.reception.peer();
            while let Ok(event) = session.reception.events().try_recv() {
                let Event::FrameReceived(frame) = event else {
                    continue;
                };
                if self.intruder == Some(peer) {
                    continue;
                }
                let number = number_of(&frame);
                assert_eq!(owner_of(number), Some(peer), "{number} of another camera");
                let frames = program.frames.entry(peer).or_default();
                let last = frames.last().copied();
                assert!(
                    last.is_none_or(|last| last < number),
                    "{number} after {last:?}"
                );
                frames.insert(number);
                session.frame_count += 1;
                self.received.entry(peer).or_default().insert(number);
            }
        }
    }

    /// Stores the key of a camera that a code has let in, as the studio's owner does.
    pub fn take_pairing(&mut self) {
        let Some(program) = &self.program else {
            return;
        };
        for outcome in program.receiver.take_pairing_outcomes() {
            match outcome {
                PairingOutcome::Paired { peer: key, .. } => {
                    self.allowed.push(key);
                    self.code = None;
                    program.receiver.set_allowed(&self.allowed);
                }
                outcome => panic!("{outcome:?}"),
            }
        }
    }

    /// Checks that the tables of the program are within their bounds.
    pub fn check_tables(&self, path_count: usize) {
        let Some(program) = &self.program else {
            return;
        };
        let tables = program.receiver.tables();
        assert!(tables.sessions <= self.max_sessions, "{tables:?}");
        assert!(tables.unconfirmed <= MAX_UNCONFIRMED, "{tables:?}");
        assert!(tables.displaced <= MAX_OLD_SESSIONS, "{tables:?}");
        assert!(tables.ended <= MAX_OLD_SESSIONS, "{tables:?}");
        for session in &program.sessions {
            let counted = session.reception.snapshot().session;
            assert!(counted.reassembly_peak_bytes <= MAX_WAITING_BYTES);
        }
        let held = self.machine.socket_count();
        assert!(
            held <= 2 + 2 * path_count,
            "{held} sockets of {path_count} paths"
        );
    }

    /// Checks that every frame of a camera's only session is received or counted as dropped.
    pub fn check_only_session(&self, camera: PublicKey, sent_count: u64) {
        let program = self.program.as_ref().expect("it was started again");
        let mut sessions = program.sessions.iter();
        let Some(session) = sessions.find(|session| session.reception.peer() == camera) else {
            panic!("no session of {camera}");
        };
        let counted = session.reception.snapshot().session;
        assert_eq!(counted.frames_received, session.frame_count, "received");
        assert!(counted.reassembly_peak_bytes <= MAX_WAITING_BYTES);
        let accounted = counted.frames_received + counted.frames_dropped;
        assert_eq!(accounted, sent_count, "received, or dropped");
    }
}
