//! A media session that sends, with any scheduler and controller, survives any sequence of
//! datagrams, frames and instants. Its invariants hold, and it requests at most one further call
//! for each instant.

use anabranch_controllers::CONTROLLERS;
use anabranch_core::{
    Config, DatagramMeta, Frame, MediaConfig, MediaSession, PaddingPolicy, PathId, PathOptions,
};
use anabranch_schedulers::SCHEDULERS;
use anabranch_units::{Duration, Ecn, Importance, Instant, Seed};

use crate::{Bound, Meter, Reader, TRANSPORT, Target, Writer};

/// Memory bound. Fixed: 64 MiB of frames that wait for others, 8 MiB more for the newest of them,
/// and the session's state. Per byte of input, which includes frames: headers, copies and repairs.
const BOUND: Bound = Bound {
    fixed_bytes: 74 << 20,
    bytes_per_byte: 32,
};

/// Set-up of the endpoint: names of the registries, by number.
#[derive(Clone, Copy, Debug)]
struct Setup {
    scheduler: u8,
    controller: u8,
    fec: u8,
    padding: u8,
    paths: u8,
    deadline_millis: u16,
}

impl Setup {
    fn config(&self) -> Config {
        let scheduler = &SCHEDULERS[usize::from(self.scheduler) % SCHEDULERS.len()];
        let controller = &CONTROLLERS[usize::from(self.controller) % CONTROLLERS.len()];
        let controller =
            anabranch_controllers::by_name(controller.name).expect("a registered controller");
        let scheduler =
            anabranch_schedulers::by_name(scheduler.name).expect("a registered scheduler");
        let policies = ["off", "adaptive", "fixed:overhead=0.5:window=4"];
        let fec = policies[usize::from(self.fec) % policies.len()];
        let padding = [
            PaddingPolicy::Never,
            PaddingPolicy::WhileProbing,
            PaddingPolicy::Always,
        ];
        let media = MediaConfig {
            fec: anabranch_schedulers::fec_policy(fec).expect("a registered policy"),
            deadline: Duration::from_millis(u64::from(self.deadline_millis)),
            ..MediaConfig::default()
        };
        Config {
            padding: padding[usize::from(self.padding) % padding.len()],
            media,
            ..Config::new(controller, scheduler)
        }
    }
}

impl Setup {
    fn read(input: &mut Reader<'_>) -> Option<Setup> {
        Some(Setup {
            scheduler: input.u8()?,
            controller: input.u8()?,
            fec: input.u8()?,
            padding: input.u8()?,
            paths: input.u8()?,
            deadline_millis: input.u16()?,
        })
    }

    fn write(self) -> Writer {
        let numbers = [
            self.scheduler,
            self.controller,
            self.fec,
            self.padding,
            self.paths,
        ];
        Writer::default().raw(numbers).u16(self.deadline_millis)
    }

    /// Returns a session of this set-up, unless that is refused.
    fn session(self, seed: Seed) -> Option<MediaSession> {
        let mut session = MediaSession::new(self.config(), seed, Instant::ZERO).ok()?;
        for _ in 0..1 + self.paths % 3 {
            session.add_path(Instant::ZERO, PathOptions::default());
        }
        Some(session)
    }
}

/// Takes one step; `None` at the end. Returns the number of bytes handed over.
fn step(input: &mut Reader<'_>, now: &mut Instant, endpoint: &mut MediaSession) -> Option<usize> {
    let mut given_bytes = TRANSPORT;
    match input.u8()? % 7 {
        0 => {
            let [path, mark] = [input.u8()?, input.u8()?];
            let bytes = input.bytes()?;
            let ecn = if mark % 2 == 1 { Ecn::Ce } else { Ecn::NotEct };
            let meta = DatagramMeta {
                path: PathId(path % 4),
                received_at: *now,
                ecn,
            };
            endpoint.handle_datagram(*now, meta, bytes);
            given_bytes += bytes.len();
        }
        1 => {
            let (importance, bytes) = (Importance::key_if(input.u8()? % 2 == 1), input.u16()?);
            given_bytes += usize::from(bytes);
            let bytes = vec![0; bytes.into()].into();
            let _ = endpoint.send_frame(
                *now,
                &Frame {
                    bytes,
                    importance,
                    captured_at: *now,
                    lifetime: None,
                },
            );
        }
        2 => *now += Duration::from_micros(16 * u64::from(input.u16()?)),
        3 => endpoint.remove_path(*now, PathId(input.u8()? % 4)),
        4 => {
            endpoint.add_path(*now, PathOptions::default());
        }
        5 => {
            let (kind, bytes) = (input.u8()?, input.u16()?);
            given_bytes += usize::from(bytes);
            let bytes = vec![0; bytes.into()];
            match kind % 4 {
                0 => {
                    let frame = Frame::new(bytes, Importance::key_if(kind >= 128), *now);
                    let _ = endpoint.begin_frame(*now, &frame);
                }
                1 => {
                    let _ = endpoint.append(*now, &bytes);
                }
                2 => endpoint.finish_frame(*now),
                _ => endpoint.abandon_frame(*now),
            }
        }
        _ if input.u8()? % 4 == 0 => endpoint.close(*now),
        _ => {}
    }
    Some(given_bytes)
}

/// Records a session under test that sends frames to an honest one and receives as many from it,
/// while some datagrams are lost.
fn seed(setup: Setup) -> Vec<u8> {
    fn frame(at: usize, is_key: bool, now: Instant) -> Frame {
        Frame {
            bytes: vec![at as u8; 400].into(),
            importance: Importance::key_if(is_key),
            captured_at: now,
            lifetime: None,
        }
    }

    let mut ends = [1, 2].map(|seed| setup.session(Seed(seed)).expect("a session"));
    let (mut now, mut steps) = (Instant::ZERO, setup.write());
    for round in 0..12_usize {
        if round % 4 == 0 {
            let is_key = round == 0;
            steps = steps.raw([1, u8::from(is_key)]).u16(400);
            for (at, end) in ends.iter_mut().enumerate() {
                let _ = end.send_frame(now, &frame(at, is_key, now));
            }
        }
        let mut datagram = Vec::new();
        let [tested, honest] = &mut ends;
        tested.handle_timeout(now);
        while let Some(transmit) = tested.poll_transmit(now, &mut datagram) {
            let meta = DatagramMeta {
                path: transmit.path,
                received_at: now,
                ecn: Ecn::NotEct,
            };
            if round % 5 != 2 {
                honest.handle_datagram(now, meta, &datagram);
            }
            datagram.clear();
        }
        honest.handle_timeout(now);
        while let Some(transmit) = honest.poll_transmit(now, &mut datagram) {
            if round % 5 != 3 {
                let meta = DatagramMeta {
                    path: transmit.path,
                    received_at: now,
                    ecn: Ecn::NotEct,
                };
                tested.handle_datagram(now, meta, &datagram);
                steps = steps.raw([0, transmit.path.0, 0]).bytes(&datagram);
            }
            datagram.clear();
        }
        steps = steps.raw([2]).u16(500);
        now += Duration::from_micros(16 * 500);
    }
    steps.done()
}

fn seeds() -> Vec<Vec<u8>> {
    let count = CONTROLLERS.len().max(SCHEDULERS.len()) as u8;
    (0..count)
        .map(|number| {
            seed(Setup {
                scheduler: number,
                controller: number,
                fec: number,
                padding: u8::from(number == 1),
                paths: number,
                deadline_millis: 300,
            })
        })
        .collect()
}

/// The target.
pub const TARGET: Target = Target {
    name: "handle_datagram",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let mut input = Reader::new(bytes);
    let Some(setup) = Setup::read(&mut input) else {
        return;
    };
    let meter = Meter::begin(BOUND);
    // A refused set-up is not an attack.
    let Some(mut endpoint) = setup.session(Seed(1)) else {
        return;
    };
    let (mut now, mut given_bytes) = (Instant::ZERO, bytes.len());
    let mut datagram = Vec::new();
    while let Some(bytes) = step(&mut input, &mut now, &mut endpoint) {
        given_bytes += bytes;
        endpoint.handle_timeout(now);
        datagram.clear();
        while endpoint.poll_transmit(now, &mut datagram).is_some() {
            given_bytes += datagram.len();
            datagram.clear();
        }
        while endpoint.poll_event().is_some() {}
        let violations = endpoint.check_invariants_at_rest(now);
        assert!(violations.is_empty(), "at {now}: {violations:#?}");
    }
    meter.check(given_bytes);
}
