//! A media session that sends, with any scheduler and controller, survives any sequence of
//! datagrams, frames and moments, its invariants hold, and it asks to be called again at most once
//! for each moment.
#![no_main]

use anabranch_controllers::CONTROLLERS;
use anabranch_core::{
    Config, DatagramMeta, Frame, MediaConfig, MediaSession, PaddingPolicy, PathId, PathOptions,
};
use anabranch_schedulers::SCHEDULERS;
use anabranch_units::{Duration, Ecn, Importance, Instant, Seed};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    Datagram { path: u8, is_ce_marked: bool, bytes: Vec<u8> },
    Frame { bytes: u16, is_key: bool },
    Wait { micros: u32 },
    RemovePath { path: u8 },
    AddPath,
    Close,
}

/// How the endpoint is made: names of the registries, by number.
#[derive(Arbitrary, Debug)]
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
        let controller = anabranch_controllers::by_name(controller.name);
        let controller = controller.expect("a registered controller");
        let scheduler = anabranch_schedulers::by_name(scheduler.name);
        let scheduler = scheduler.expect("a registered scheduler");
        let fec = ["off", "adaptive", "fixed:overhead=0.5:window=4"];
        let padding =
            [PaddingPolicy::Never, PaddingPolicy::WhileProbing, PaddingPolicy::Always];
        let media = MediaConfig {
            fec: fec[usize::from(self.fec) % fec.len()].into(),
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

fuzz_target!(|input: (Setup, Vec<Step>)| {
    let (setup, steps) = input;
    let mut now = Instant::ZERO;
    // What it refuses is not what is looked for.
    let Ok(mut endpoint) = MediaSession::new(setup.config(), Seed(1), now) else {
        return;
    };
    for _ in 0..1 + setup.paths % 3 {
        endpoint.add_path(now, PathOptions::default());
    }
    let mut datagram = Vec::new();
    for step in steps {
        match step {
            Step::Datagram { path, is_ce_marked, bytes } => {
                let ecn = if is_ce_marked { Ecn::Ce } else { Ecn::NotEct };
                let meta = DatagramMeta { path: PathId(path % 4), received_at: now, ecn };
                endpoint.handle_datagram(now, meta, &bytes);
            }
            Step::Frame { bytes, is_key } => {
                let importance = Importance::key_if(is_key);
                let bytes = vec![0; bytes.into()].into();
                let frame = Frame { bytes, importance, captured_at: now };
                let _ = endpoint.send_frame(now, &frame);
            }
            Step::Wait { micros } => now += Duration::from_micros(micros.into()),
            Step::RemovePath { path } => endpoint.remove_path(now, PathId(path % 4)),
            Step::AddPath => {
                endpoint.add_path(now, PathOptions::default());
            }
            Step::Close => endpoint.close(now),
        }
        endpoint.handle_timeout(now);
        datagram.clear();
        while endpoint.poll_transmit(now, &mut datagram).is_some() {}
        while endpoint.poll_event().is_some() {}
        let violations = endpoint.check_invariants_at_rest(now);
        assert!(violations.is_empty(), "at {now}: {violations:#?}");
    }
});
