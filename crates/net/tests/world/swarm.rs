//! Random worlds, and the properties that hold in all of them.
//!
//! `WORLD_SEEDS=100000 cargo test -p anabranch-net --test tests world::swarm` runs more of them. A
//! failure prints its seed; `WORLD_SEED=7` runs that world alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use anabranch_net::testing::{Bystander, Hands, Line, Nat, Packet};
use anabranch_net::{Ended, Event, Receiver, Reception, Receptions, SendError, Sender};
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::bed::{Bed, FRAME_INTERVAL, frame_bytes, millis, number_of};

/// Number of frames of a run: six seconds …
const FRAMES: u64 = 300;
/// … of which the last are sent after all disturbances.
const CALM_FRAMES: u64 = 150;
/// Initiations that a sender may send by a path in a second: the shortest pause is 50 ms, and the
/// pauses double from 250 ms on.
const MAX_INITIATIONS: usize = 8;
/// Kind of initiations, their first byte.
const INITIATION: u8 = 1;

/// Observations of a bystander, for the checks at the end.
#[derive(Default)]
struct Seen {
    /// Times and sources of initiations.
    initiations: Vec<(Instant, std::net::SocketAddr)>,
    /// Bytes from and to an address of the bystander's that passes nothing on.
    own_bytes: [u64; 2],
}

/// A bystander that copies, delays and replays at random, and drops nothing.
struct Mischief {
    rng: Rng,
    seen: Arc<Mutex<Seen>>,
    studio: std::net::SocketAddr,
    is_hostile: bool,
    passes_on: bool,
    camera: Option<std::net::SocketAddr>,
    recorded: Vec<Packet>,
}

impl Bystander for Mischief {
    fn see(&mut self, now: Instant, packet: &Packet, hands: &mut Hands) {
        let mut seen = self.seen.lock().expect("no panic");
        if packet.bytes.first() == Some(&INITIATION) {
            seen.initiations.push((now, packet.from));
        }
        if !self.is_hostile {
            return;
        }
        if self.rng.chance(0.2) {
            hands.hold(Duration::from_millis(self.rng.below(20)));
        }
        if packet.to != self.studio {
            return;
        }
        self.camera = Some(packet.from);
        if self.rng.chance(0.3) {
            let from = ([192, 0, 2, 66], 5_000 + self.rng.below(4) as u16).into();
            let after = Duration::from_millis(self.rng.below(30));
            seen.own_bytes[0] += packet.bytes.len() as u64;
            hands.inject(
                after,
                Packet {
                    from,
                    ..packet.clone()
                },
            );
        }
        if self.recorded.len() < 100 && self.rng.chance(0.05) {
            self.recorded.push(packet.clone());
        }
        if !self.recorded.is_empty() && self.rng.chance(0.05) {
            let index = self.rng.below(self.recorded.len() as u64) as usize;
            hands.inject(millis(1).into(), self.recorded[index].clone());
        }
    }

    fn receive(&mut self, _: Instant, packet: &Packet, hands: &mut Hands) {
        self.seen.lock().expect("no panic").own_bytes[1] += packet.bytes.len() as u64;
        if let Some(to) = self.camera
            && self.passes_on
            && self.rng.chance(0.8)
        {
            let from = self.studio;
            hands.inject(
                millis(1).into(),
                Packet {
                    from,
                    to,
                    ..packet.clone()
                },
            );
        }
    }
}

/// Events that disturb a run.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Unplug(usize),
    Rebind(usize),
    BlockUdp(usize),
    Refuse(usize),
    Shrink(usize),
    Stop,
    Restart,
    Leave,
    Late,
}

struct Swarm {
    bed: Bed,
    rng: Rng,
    receiver: Option<Receiver>,
    sessions: Vec<Receptions>,
    receptions: Vec<(Reception, Option<u64>)>,
    received: BTreeSet<u64>,
    was_restarted: bool,
    seen: Arc<Mutex<Seen>>,
    passes_on: bool,
}

impl Swarm {
    fn new(seed: u64) -> Swarm {
        let mut rng = anabranch_units::Seed(seed).derive("swarm").rng();
        let lines: Vec<Line> = (0..1 + rng.below(3))
            .map(|_| random_line(&mut rng))
            .collect();
        let bed = Bed::new(seed, &lines);
        let seen = Arc::<Mutex<Seen>>::default();
        let (is_hostile, passes_on) = (rng.chance(0.4), rng.chance(0.3));
        bed.world.set_bystander(Mischief {
            rng: anabranch_units::Seed(seed).derive("mischief").rng(),
            seen: Arc::clone(&seen),
            studio: bed.address(),
            is_hostile,
            passes_on,
            camera: None,
            recorded: Vec::new(),
        });
        let mut swarm = Swarm {
            bed,
            rng,
            receiver: None,
            sessions: Vec::new(),
            receptions: Vec::new(),
            received: BTreeSet::new(),
            was_restarted: false,
            seen,
            passes_on,
        };
        swarm.start_receiver();
        swarm
    }

    fn start_receiver(&mut self) {
        let (receiver, sessions) = self.bed.receiver();
        self.receiver = Some(receiver);
        self.sessions.push(sessions);
    }

    /// Takes the frames that have come, and checks their order and bytes.
    fn take_frames(&mut self) {
        for sessions in &self.sessions {
            while let Ok(reception) = sessions.try_recv() {
                self.receptions.push((reception, None));
            }
        }
        for (reception, last) in &mut self.receptions {
            while let Ok(event) = reception.events().try_recv() {
                let Event::FrameReceived(frame) = event else {
                    continue;
                };
                let number = number_of(&frame);
                assert!(
                    last.is_none_or(|last| last < number),
                    "{number} after {last:?}"
                );
                *last = Some(number);
                let is_new = self.received.insert(number);
                assert!(is_new || self.was_restarted, "{number} came twice");
            }
        }
    }

    fn disturb(&mut self, disturbance: Disturbance, begins: bool) {
        let bed = &self.bed;
        match (disturbance, begins) {
            (Disturbance::Unplug(line), true) => bed.lines[line].unplug(),
            (Disturbance::Unplug(line), false) => bed.lines[line].plug(),
            (Disturbance::Rebind(line), true) => bed.lines[line].rebind(),
            (Disturbance::BlockUdp(line), _) => bed.lines[line].block_udp(begins),
            (Disturbance::Refuse(line), _) => bed.lines[line].refuse(begins),
            (Disturbance::Shrink(line), true) => bed.lines[line].set_mtu(1_300),
            (Disturbance::Shrink(line), false) => bed.lines[line].set_mtu(1_500),
            (Disturbance::Stop, true) => bed.camera.stop(),
            (Disturbance::Stop, false) => bed.camera.go_on(),
            (Disturbance::Late, true) => bed.camera.set_lateness(millis(100), 0.5),
            (Disturbance::Late, false) => bed.camera.set_lateness(millis(0), 0.0),
            (Disturbance::Restart, true) => {
                bed.studio.kill();
                self.was_restarted = true;
                self.receiver = None;
            }
            (Disturbance::Leave, true) => {
                self.was_restarted = true;
                self.receiver = None;
            }
            (Disturbance::Restart | Disturbance::Leave, false) => self.start_receiver(),
            (Disturbance::Rebind(_), false) => {}
        }
    }

    fn random_disturbance(&mut self) -> Disturbance {
        let line = self.rng.below(self.bed.lines.len() as u64) as usize;
        match self.rng.below(9) {
            0 => Disturbance::Unplug(line),
            1 => Disturbance::Rebind(line),
            2 => Disturbance::BlockUdp(line),
            3 => Disturbance::Refuse(line),
            4 => Disturbance::Shrink(line),
            5 => Disturbance::Stop,
            6 => Disturbance::Restart,
            7 => Disturbance::Leave,
            _ => Disturbance::Late,
        }
    }

    /// Streams, and disturbs the first half. Returns the numbers of the accepted frames.
    fn run(&mut self, sender: &Sender) -> Vec<u64> {
        let mut accepted = Vec::new();
        let mut present: Option<(Disturbance, u64)> = None;
        for number in 0..FRAMES {
            match present {
                Some((disturbance, until)) if number >= until => {
                    self.disturb(disturbance, false);
                    present = None;
                }
                None if number < FRAMES - CALM_FRAMES && self.rng.chance(0.05) => {
                    let disturbance = self.random_disturbance();
                    let lasts = 1 + self.rng.below(60);
                    self.disturb(disturbance, true);
                    present = Some((disturbance, (number + lasts).min(FRAMES - CALM_FRAMES)));
                }
                _ => {}
            }
            match sender.send(frame_bytes(number), importance(number)) {
                Ok(_) => accepted.push(number),
                Err(SendError::Ended(ended)) => panic!("the session ended: {ended}"),
                Err(_) => {}
            }
            self.bed.world.run_for(FRAME_INTERVAL);
            self.take_frames();
        }
        accepted
    }

    /// Checks that every frame is counted.
    fn check_counts(&self, sender: &Sender, accepted: usize) {
        let sent = sender.snapshot();
        assert_eq!(
            sent.session.frames_sent, accepted as u64,
            "accepted, and sent"
        );
        let receiver = self.receiver.as_ref().expect("it was started again");
        let counted = receiver.snapshot().session.frames_received;
        let received = self.received.len() as u64;
        let is_other = self.was_restarted || sent.past_sessions > 0;
        assert!(
            is_other || counted == received,
            "{counted} and {received} received"
        );
    }

    /// Checks the observations of the whole run.
    fn check_seen(&self) {
        let seen = self.seen.lock().expect("no panic");
        for (at, from) in &seen.initiations {
            let within = seen.initiations.iter().filter(|(other_at, other)| {
                other == from && *other_at >= *at && *other_at < *at + Duration::from_secs(1)
            });
            let count = within.count();
            assert!(
                count <= MAX_INITIATIONS,
                "{count} initiations in a second from {from}"
            );
        }
        let [from, to] = seen.own_bytes;
        assert!(
            self.passes_on || to <= 3 * from,
            "{to} bytes for {from} of a stranger"
        );
    }
}

fn importance(number: u64) -> anabranch_units::Importance {
    anabranch_units::Importance::key_if(number.is_multiple_of(10))
}

fn random_line(rng: &mut Rng) -> Line {
    let rate = DataRate::from_megabits_per_second(3 + rng.below(20));
    let mut line = Line::new(rate, Duration::from_millis(1 + rng.below(80)));
    if rng.chance(0.5) {
        line = line.with_loss(rng.next_f64() * 0.03);
    }
    if rng.chance(0.5) {
        line = line.behind(Nat::default());
    }
    line
}

fn run(seed: u64) {
    let mut swarm = Swarm::new(seed);
    let (sender, _events) = swarm.bed.world.block_on(swarm.bed.connect());
    let accepted = swarm.run(&sender);
    swarm.bed.world.run_for(millis(1_000));
    swarm.take_frames();
    swarm.check_counts(&sender, accepted.len());
    // The session has outlived the disturbances.
    let last = swarm.received.last().copied().unwrap_or_default();
    assert!(last >= FRAMES - 25, "no frame after {last}");
    assert_eq!(sender.finish(), Ended::Closed);
    swarm.check_seen();
}

fn run_shard(shard: u64, shards: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("WORLD_SEED") {
        return if seed % shards == shard {
            run(seed)
        };
    }
    let count: u64 = number("WORLD_SEEDS").unwrap_or(1_000);
    (0..count)
        .filter(|seed| seed % shards == shard)
        .for_each(run);
}

#[test]
fn random_worlds_0() {
    run_shard(0, 4);
}

#[test]
fn random_worlds_1() {
    run_shard(1, 4);
}

#[test]
fn random_worlds_2() {
    run_shard(2, 4);
}

#[test]
fn random_worlds_3() {
    run_shard(3, 4);
}
