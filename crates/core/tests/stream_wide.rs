//! Effect of an additional path on a transfer, over random networks: for experiments.
//!
//! `SCHEDULERS=alone,earliest-completion,ecf FIRST=0 COUNT=16 cargo test --release -p
//! anabranch-core --test tests stream_wide -- --ignored --nocapture` prints for each network and
//! case the seconds of each scheduler, and the bytes sent over those written; `alone` is the
//! seconds of each of both paths. `CONTROLLERS` and `BYTES` are lists too. `RUNS` is the maximum
//! number of runs of a case with loss, and `PATHS=10/30/0/200+2/120/0/200` is a network of its own.
//! A known session has carried a transfer by `spd` over both paths, whatever the scheduler, and has
//! been idle for 1 to 5 s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_core::scheduler::{
    Assignment, Scheduler, SchedulerEvent, SchedulerFactory, SendQueue,
};
use anabranch_core::{
    Config, PathId, PathSet, PathView, Reinjection, SessionView, Stream, StreamConfig,
};
use anabranch_units::{Duration, Instant, Rng, Seed};

use crate::support::{self, TestPath};

type Network = support::Network<Stream>;

/// Scheduler that is `spd` until it is switched to another, or to one path only.
#[derive(Debug)]
struct Switch {
    is_on: Arc<AtomicBool>,
    before: Box<dyn Scheduler>,
    after: Result<Box<dyn Scheduler>, PathId>,
}

impl Scheduler for Switch {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        let (is_on, before) = (self.is_on.load(Ordering::Relaxed), &mut self.before);
        match &mut self.after {
            _ if !is_on => before.schedule(now, queue, session, paths, out),
            Ok(after) => after.schedule(now, queue, session, paths, out),
            Err(only) => {
                let mut left = paths[only.index()].sendable_bytes;
                for (index, packet) in queue.iter() {
                    let bytes = u64::from(packet.bytes);
                    if packet.reason.is_retransmission() || left >= bytes {
                        left = left.saturating_sub(bytes);
                        let paths = PathSet::only(*only);
                        out.push(Assignment { index, paths });
                    }
                }
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        self.before.on_event(now, event);
        if let Ok(after) = &mut self.after {
            after.on_event(now, event);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.after.as_ref().ok()?.wake_at()
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// Parses a path as `PATHS` and the output write it: Mbit/s, round trip, loss, queue.
fn path_of(text: &str) -> TestPath {
    let values: Vec<f64> = text.split('/').map(|one| one.parse().unwrap()).collect();
    TestPath {
        delay: Duration::from_millis(values[1] as u64) / 2,
        queue: Duration::from_millis(values[3] as u64),
        loss: values[2],
        ..TestPath::new(values[0] as u64, 0)
    }
}

fn random_path(rng: &mut Rng) -> TestPath {
    let megabits = pick(rng, &[1, 2, 3, 5, 8, 12, 20, 50]);
    let rtt = pick(rng, &[10, 20, 30, 50, 80, 120, 200, 300, 400]);
    let loss = pick(rng, &[0.0, 0.0, 0.0, 0.01, 0.02]);
    let queue = pick(rng, &[50, 100, 200, 400]).max(rtt / 2);
    TestPath {
        delay: Duration::from_millis(rtt) / 2,
        queue: Duration::from_millis(queue),
        loss,
        ..TestPath::new(megabits, 0)
    }
}

/// Sends `bytes` bytes. Returns the seconds until they have arrived, and the bytes sent until that
/// is known as a multiple of them.
fn carry(network: &mut Network, bytes: usize) -> [f64; 2] {
    let began_at = network.now;
    let sent_before = network.sent.len();
    let goal = network.stream.len() + bytes;
    let end = began_at + Duration::from_secs(400);
    let step = Duration::from_micros(if bytes < 200_000 { 200 } else { 1_000 });
    let payload = vec![7; bytes];
    let mut rest = &payload[..];
    while network.stream.len() < goal && network.now < end {
        let taken = network.sender.write(network.now, rest).unwrap();
        rest = &rest[taken..];
        network.run_until(network.now + step);
    }
    let took = network.now - began_at;
    while !network.sender.is_drained() && network.now < end {
        network.run_until(network.now + Duration::from_millis(5));
    }
    let sent = network.sent[sent_before..].iter();
    let sent_bytes: u64 = sent.map(|(_, bytes)| bytes).sum();
    [took.as_secs_f64(), sent_bytes as f64 / bytes as f64]
}

struct Case {
    paths: Vec<TestPath>,
    controller: String,
    /// Earlier transfer of the session: its bytes, and the idle time after it.
    before: Option<(usize, Duration)>,
    bytes: usize,
}

/// Returns the mean of [`carry`] by a scheduler, or by one path.
fn mean(case: &Case, scheduler: Result<&str, u8>) -> [f64; 2] {
    let is_lossy = case.paths.iter().any(|path| path.loss > 0.0);
    let run_count = match case.bytes {
        _ if !is_lossy => 1,
        0..50_000 => 64,
        50_000..200_000 => 16,
        200_000..2_000_000 => 4,
        _ => 2,
    };
    let run_count: u64 = run_count.min(setting("RUNS", "64").parse().unwrap());
    let runs = (0..run_count).map(|run| {
        let is_on = Arc::new(AtomicBool::new(false));
        let switch = is_on.clone();
        let name = scheduler.map(str::to_owned);
        let config = Config {
            controller: support::controller(&case.controller),
            stream: StreamConfig {
                reinjection: match setting("REINJECTION", "tail").as_str() {
                    "off" => Reinjection::Off,
                    "linux" => anabranch_schedulers::linux_reinjection(),
                    _ => Reinjection::Tail,
                },
                ..StreamConfig::default()
            },
            scheduler: SchedulerFactory::new("switch", move || {
                let after = name.as_ref().map(|name| support::scheduler(name).build());
                Box::new(Switch {
                    is_on: switch.clone(),
                    before: support::scheduler("spd").build(),
                    after: after.map_err(|id| PathId(*id)),
                })
            }),
            ..support::usual()
        };
        let (paths, names) = match (case.before, scheduler) {
            (None, Err(id)) => (vec![case.paths[usize::from(id)].clone()], vec![id.into()]),
            _ => (case.paths.clone(), (0..case.paths.len() as u64).collect()),
        };
        let mut network = Network::of_stream_over(config, paths);
        network.separate_losses_as(Seed(1000 + run), &names);
        if let Some((bytes, idle)) = case.before {
            carry(&mut network, bytes);
            network.run_until(network.now + idle);
            // The earlier transfer is the same for all schedulers.
            for other in (0..case.paths.len() as u8).map(PathId) {
                if scheduler.is_err_and(|only| only != other.0) {
                    network.sender.remove_path(network.now, other);
                }
            }
        }
        is_on.store(true, Ordering::Relaxed);
        carry(&mut network, case.bytes)
    });
    let sum = runs.fold([0.0; 2], |sum, run| [sum[0] + run[0], sum[1] + run[1]]);
    sum.map(|sum| sum / run_count as f64)
}

fn setting(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

#[test]
#[ignore = "an experiment of minutes"]
fn random_networks() {
    let schedulers = setting("SCHEDULERS", "alone,earliest-completion");
    let controllers = setting("CONTROLLERS", "cubic,bbr-linux,bbr3");
    let sizes = setting("BYTES", "10000,100000,1000000,10000000");
    let first: u64 = setting("FIRST", "0").parse().unwrap();
    let count: u64 = setting("COUNT", "4").parse().unwrap();
    for seed in first..first + count {
        let mut rng = Seed(seed * 7919 + 17).rng();
        let mut paths = vec![random_path(&mut rng), random_path(&mut rng)];
        if let Ok(text) = std::env::var("PATHS") {
            paths = text.split('+').map(path_of).collect();
        }
        let idle = Duration::from_millis(1_000 + rng.below(4_000));
        let known = pick(&mut rng, &[300_000, 1_000_000, 3_000_000]);
        let text = paths.iter().map(|path| {
            let (rate, rtt) = (path.rate, (path.delay * 2).as_millis());
            format!("{rate}/{rtt}/{}/{}", path.loss, path.queue.as_millis())
        });
        println!("N,{seed},{}", text.collect::<Vec<_>>().join(" + "));
        for controller in controllers.split(',') {
            for (kind, before) in [("new", None), ("known", Some((known, idle)))] {
                for bytes in sizes.split(',').map(|bytes| bytes.parse().unwrap()) {
                    let paths = paths.clone();
                    let case = Case {
                        paths,
                        controller: controller.to_owned(),
                        before,
                        bytes,
                    };
                    for scheduler in schedulers.split(',') {
                        let times = match scheduler {
                            "alone" => [0, 1].map(|path| mean(&case, Err(path))[0]),
                            name => mean(&case, Ok(name)),
                        };
                        assert!(times[0] < 400.0, "{scheduler}");
                        let columns = times.map(|time| format!("{time:.4}")).join(";");
                        println!("R,{seed},{controller},{kind},{bytes},{scheduler},{columns}");
                    }
                }
            }
        }
    }
}
