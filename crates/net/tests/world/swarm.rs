//! Random worlds of whole programs, and the properties that hold in all of them.
//!
//! One to three cameras send to one studio: over lines behind NATs that change or get stuck, by TCP
//! while UDP is blocked, after pairing, through restarts of either end, changes of keys, beside a
//! bystander, and beside an allowed peer that is hostile.
//! `WORLD_SEEDS=100000 cargo test -p anabranch-net --test tests world::swarm` runs more worlds. A
//! failure prints its seed; `WORLD_SEED=7` runs that world alone.

mod camera;
mod intruder;
mod mischief;
mod studio;

use std::sync::{Arc, Mutex};

use anabranch_net::TcpFallback;
use anabranch_net::testing::{Line, Nat, World};
use anabranch_secure::PairingCode;
use anabranch_units::{DataRate, Duration, Rng, Seed};

use super::bed::{FRAME_INTERVAL, millis};
use camera::{Camera, Disturbance};
use intruder::Intruder;
use mischief::{Mischief, Observations};
use studio::ReceiverHost;

/// Ticks in which disturbances happen; each camera has a frame for each tick.
const DISTURBED_TICKS: u64 = 200;
/// Ticks after all disturbances.
const CALM_TICKS: u64 = 150;
const TICKS: u64 = DISTURBED_TICKS + CALM_TICKS;
/// Ticks at the end, in which frames must arrive.
const LAST_TICKS: u64 = 50;
/// Least number of those that arrive. Nearly always all do. A path that fell silent in its first
/// round trips starts again from half of an early sample, a tenth of its rate.
const LEAST_COUNT: u64 = LAST_TICKS / 4;
/// Ticks without UDP after which all cameras have turned to TCP.
const LONG_BLOCK: u64 = 180;
/// Time after which both ends have changed their keys: they have sealed with them for two minutes.
const KEY_LIFETIME: Duration = Duration::from_secs(130);

/// Time after which paths behind stuck translators have other ports: a second until they are
/// silent, and pauses of 3 s and 6 s.
const STUCK_LIFETIME: Duration = Duration::from_secs(15);
/// More calm ticks after that: the only path of a camera may start again from 139 kbit/s after
/// 2.8 Mbit/s, and needs some seconds for the 2 Mbit/s of its frames.
const STUCK_TICKS: u64 = 250;

/// Events that disturb the studio for a while.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Killed,
    Left,
    Stopped,
    Late,
}

struct Swarm {
    world: World,
    rng: Rng,
    cameras: Vec<Camera>,
    studio: ReceiverHost,
    outage: Option<(Outage, u64)>,
    seen: Arc<Mutex<Observations>>,
    intruder: Option<Intruder>,
    passes_on: bool,
    /// Whether the disturbances are followed by a wait for the keys to change.
    changes_keys: bool,
    /// Whether a translator was stuck.
    was_stuck: bool,
}

impl Swarm {
    fn new(seed: u64) -> Swarm {
        let world = World::new(seed);
        let mut rng = Seed(seed).derive("swarm").rng();
        let has_tcp = rng.chance(0.4);
        let studio = ReceiverHost::new(&world, 4, has_tcp);
        let (is_hostile, passes_on) = (rng.chance(0.4), rng.chance(0.3));
        let mischief = Mischief::new(
            Seed(seed).derive("mischief").rng(),
            studio.address(),
            is_hostile,
            passes_on,
        );
        let seen = Arc::clone(&mischief.seen);
        world.set_bystander(mischief);
        let tcp = if has_tcp {
            TcpFallback::Port(ReceiverHost::TCP_PORT)
        } else {
            TcpFallback::Off
        };
        let mut own = Seed(seed).derive("intruder").rng();
        let mut swarm = Swarm {
            intruder: own
                .chance(0.25)
                .then(|| Intruder::new(&world, studio.address(), studio::NAME)),
            cameras: (0..1 + rng.below(3))
                .map(|index| Camera::new(&world, index, tcp))
                .collect(),
            changes_keys: rng.chance(0.03),
            was_stuck: false,
            world,
            rng,
            studio,
            outage: None,
            seen,
            passes_on,
        };
        swarm.start();
        swarm
    }

    /// Starts all programs. One camera may have a code instead of a key that is allowed.
    fn start(&mut self) {
        for camera in &mut self.cameras {
            for index in 0..1 + self.rng.below(3) {
                let line = random_line(&mut self.rng);
                let line = camera.machine.attach(&format!("line{index}"), &line);
                camera.lines.push(line);
            }
            if self.rng.chance(0.3) {
                let drift = 0.001 * self.rng.next_f64() - 0.000_5;
                camera.machine.set_clock_rate(1.0 + drift);
            }
        }
        self.studio.allowed = self.cameras.iter().map(|camera| camera.key).collect();
        self.studio.intruder = self.intruder.as_ref().map(Intruder::key);
        self.studio.allowed.extend(self.studio.intruder);
        if self.rng.chance(0.3) {
            let code = PairingCode::generate();
            self.studio.allowed.remove(0);
            self.studio.code = Some(code.clone());
            self.cameras[0].code = Some(code);
        }
        self.studio.start(&self.world);
        for index in 0..self.cameras.len() {
            self.start_camera(index);
        }
    }

    fn start_camera(&mut self, index: usize) {
        let to = self.studio.address();
        self.cameras[index].start(&self.world, studio::NAME, to);
    }

    /// Ends the disturbances that are over, and begins others.
    fn disturb(&mut self, tick: u64) {
        let may_begin = tick < DISTURBED_TICKS;
        for index in 0..self.cameras.len() {
            let camera = &mut self.cameras[index];
            match camera.present {
                Some((disturbance, until)) if tick >= until => {
                    camera.present = None;
                    if camera.calm(disturbance) {
                        self.start_camera(index);
                    }
                }
                None if may_begin && self.rng.chance(0.03) => {
                    let (disturbance, lasts) = self.any_disturbance(index, tick);
                    self.was_stuck |= matches!(disturbance, Disturbance::Stick(_));
                    let camera = &mut self.cameras[index];
                    camera.disturb(disturbance);
                    camera.present = Some((disturbance, (tick + lasts).min(DISTURBED_TICKS)));
                }
                _ => {}
            }
        }
        match self.outage {
            Some((outage, until)) if tick >= until => {
                self.outage = None;
                match outage {
                    Outage::Killed | Outage::Left => self.studio.start(&self.world),
                    Outage::Stopped => self.studio.machine.go_on(),
                    Outage::Late => self.studio.machine.set_lateness(millis(0), 0.0),
                }
            }
            None if may_begin && self.rng.chance(0.01) => {
                let all = [Outage::Killed, Outage::Left, Outage::Stopped, Outage::Late];
                let outage = all[self.rng.below(4) as usize];
                match outage {
                    Outage::Killed => self.studio.kill(),
                    Outage::Left => self.studio.leave(),
                    Outage::Stopped => self.studio.machine.stop(),
                    Outage::Late => self.studio.machine.set_lateness(millis(100), 0.5),
                }
                let until = (tick + 1 + self.rng.below(60)).min(DISTURBED_TICKS);
                self.outage = Some((outage, until));
            }
            _ => {}
        }
    }

    /// Returns a disturbance of a camera, and its length in ticks.
    fn any_disturbance(&mut self, index: usize, tick: u64) -> (Disturbance, u64) {
        let has_time = tick + LONG_BLOCK <= DISTURBED_TICKS;
        if has_time && self.studio.listens_by_tcp && self.rng.chance(0.5) {
            return (Disturbance::BlockAllUdp, LONG_BLOCK);
        }
        let line_count = self.cameras[index].lines.len();
        let disturbance = Disturbance::any(&mut self.rng, line_count);
        (disturbance, 1 + self.rng.below(60))
    }

    /// Takes the frames that have come, and checks all that holds at any time.
    fn check(&mut self) {
        let cameras = &self.cameras;
        self.studio.take_pairing();
        self.studio.take_frames(|number| {
            let mut owners = cameras.iter();
            let owner = owners.find(|camera| camera.tick_of(number).is_some());
            owner.map(|camera| camera.key)
        });
        let path_count = cameras.iter().map(|camera| camera.lines.len()).sum();
        self.studio.check_tables(path_count);
        cameras.iter().for_each(Camera::check_sockets);
    }

    /// Returns the number of ticks of this world, which is known when the disturbances are over.
    fn tick_count(&self) -> u64 {
        if self.was_stuck {
            TICKS + STUCK_TICKS
        } else {
            TICKS
        }
    }

    fn run(&mut self) {
        for tick in 0.. {
            if tick >= self.tick_count() {
                break;
            }
            self.disturb(tick);
            if tick == DISTURBED_TICKS && self.changes_keys {
                self.world.run_for(KEY_LIFETIME);
            } else if tick == DISTURBED_TICKS && self.was_stuck {
                self.world.run_for(STUCK_LIFETIME);
            }
            if let Some(intruder) = &mut self.intruder {
                intruder.act(self.world.now());
            }
            for camera in &mut self.cameras {
                camera.send(tick);
            }
            self.world.run_for(FRAME_INTERVAL);
            self.check();
        }
        self.world.run_for(millis(1_000));
        self.check();
    }

    /// Checks that every camera's session has outlived the disturbances.
    fn check_life(&self) {
        for camera in &self.cameras {
            let received = self.studio.received.get(&camera.key);
            let ticks = received
                .into_iter()
                .flatten()
                .filter_map(|number| camera.tick_of(*number));
            let count = ticks
                .filter(|tick| *tick >= self.tick_count() - LAST_TICKS)
                .count() as u64;
            assert!(
                count >= LEAST_COUNT,
                "{count} of the last {LAST_TICKS} frames"
            );
        }
    }

    fn check_counts(&self) {
        for camera in &self.cameras {
            let sent_count = camera.check_counts();
            let is_only = !camera.was_killed && !self.studio.was_restarted;
            if is_only && camera.past_sessions() == 0 {
                self.studio.check_only_session(camera.key, sent_count);
            }
        }
    }

    /// Ends all programs.
    fn finish(&mut self) {
        self.cameras.iter_mut().for_each(Camera::finish);
        self.intruder.iter().for_each(Intruder::check_sessions);
        let seen = self.seen.lock().expect("no panic");
        seen.check_retries();
        if !self.passes_on {
            seen.check_amplification();
        }
    }
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
    swarm.run();
    swarm.check_life();
    swarm.check_counts();
    swarm.finish();
}

/// Returns the number in a variable of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run_shard(shard: u64, shards: u64) {
    if let Some(seed) = number("WORLD_SEED") {
        return if seed % shards == shard {
            run(seed)
        };
    }
    let count = number("WORLD_SEEDS").unwrap_or(1_000);
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
