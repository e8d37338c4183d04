//! After `handle_timeout` and `poll_transmit` until `None`, no timer is due: a driver that is
//! called when it asks to be is not called twice for one moment. [`support::Network`] asserts that
//! in all tests; here it is asked of random sessions with every scheduler.

use anabranch_core::{
    Config, DatagramMeta, Frame, MediaConfig, MediaSession, PaddingPolicy, PathId, PathOptions,
};
use anabranch_schedulers::SCHEDULERS;
use anabranch_units::{Duration, Ecn, Importance, Instant, Rng, Seed};

use crate::support::{self, Network, TestPath};

fn any_path(rng: &mut Rng) -> TestPath {
    let second = Instant::from_millis(rng.below(3_000));
    let outage = second + Duration::from_millis(rng.below(1_500));
    TestPath {
        queue: Duration::from_millis(20 + rng.below(300)),
        loss: [0.0, 0.02, 0.2][rng.below(3) as usize],
        duplication: [0.0, 0.05][rng.below(2) as usize],
        jitter: Duration::from_millis([0, 5, 60][rng.below(3) as usize]),
        outage: rng.chance(0.3).then_some((second, outage)),
        outage_back: rng.chance(0.2).then_some((second, outage)),
        is_metered: rng.chance(0.2),
        ..TestPath::new(1 + rng.below(8), rng.below(150))
    }
}

fn any_config(rng: &mut Rng, scheduler: &str) -> Config {
    let controllers = ["live-bbr", "live-bbr", "cubic", "gcc", "bbr3"];
    let fec = ["off", "off", "adaptive", "fixed:overhead=0.5:window=4"];
    let media = MediaConfig {
        deadline: Duration::from_millis([60, 200, 500][rng.below(3) as usize]),
        fec: support::fec(fec[rng.below(fec.len() as u64) as usize]),
        ..MediaConfig::default()
    };
    Config {
        scheduler: support::scheduler(scheduler),
        controller: support::controller(controllers[rng.below(controllers.len() as u64) as usize]),
        padding: match rng.below(4) {
            0 => PaddingPolicy::Always,
            1 => PaddingPolicy::Never,
            _ => PaddingPolicy::WhileProbing,
        },
        media,
        ..support::usual()
    }
}

/// Runs four seconds of one to three paths and frames of any size, importance and spacing.
fn live_through(seed: u64, scheduler: &str) {
    let mut rng = Seed(seed).derive(scheduler).rng();
    let paths = (0..1 + rng.below(3)).map(|_| any_path(&mut rng)).collect();
    let config = any_config(&mut rng, scheduler);
    let mut network = Network::new(config, paths);
    network.reseed(Seed(seed));
    let largest = [2_000, 20_000, 60_000][rng.below(3) as usize];
    while network.now < Instant::from_secs(4) {
        let importance = match rng.below(10) {
            0 => Importance::Key,
            1..4 => Importance::Disposable,
            _ => Importance::Reference,
        };
        network.send_frame(1 + rng.below(largest) as usize, importance);
        network.run_until(network.now + Duration::from_millis(1 + rng.below(80)));
    }
}

#[test]
fn no_timer_is_in_the_past_with_any_scheduler() {
    for entry in SCHEDULERS {
        for seed in 0..20 {
            live_through(seed, entry.name);
        }
    }
}

/// Sends all that the session has to send.
fn drain(session: &mut MediaSession, now: Instant) {
    session.handle_timeout(now);
    let mut datagram = Vec::new();
    while session.poll_transmit(now, &mut datagram).is_some() {
        datagram.clear();
    }
}

/// The path's packets are acknowledged without a sample of its round-trip time, and the others
/// expire as they are about to leave. The path is then idle and unknown: its probe is due at once.
#[test]
fn a_path_that_is_idle_once_its_packets_have_expired_is_probed_in_the_same_turn() {
    let mut config = support::usual();
    config.controller = support::controller("gcc-kalman");
    config.scheduler = support::scheduler("redundant");
    config.padding = PaddingPolicy::Never;
    config.media.deadline = Duration::from_millis(300);
    let mut session = MediaSession::new(config, Seed(1), Instant::ZERO).unwrap();
    session.add_path(Instant::ZERO, PathOptions::default());
    let frame = Frame::new(vec![0; 400], Importance::Key, Instant::ZERO);
    let _ = session.send_frame(Instant::ZERO, &frame);
    drain(&mut session, Instant::ZERO);
    // A forged report, as a fuzzer found it.
    let report = [
        0x40, 0x05, 0x44, 0xc3, 0x0b, 0xc5, 0x6e, 0xd2, 0x82, 0xf3, 0x02, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0x01, 0, 0, 0, 0,
    ];
    let meta = DatagramMeta {
        path: PathId(0),
        received_at: Instant::ZERO,
        ecn: Ecn::NotEct,
    };
    session.handle_datagram(Instant::ZERO, meta, &report);
    drain(&mut session, Instant::ZERO);
    for _ in 0..87 {
        let frame = Frame::new(vec![0; 257], Importance::Key, Instant::ZERO);
        let _ = session.send_frame(Instant::ZERO, &frame);
        drain(&mut session, Instant::ZERO);
    }
    let later = Instant::from_micros(1_044_448);
    drain(&mut session, later);
    let violations = session.check_invariants_at_rest(later);
    assert!(violations.is_empty(), "{violations:#?}");
}

/// The application's thread hands frames in while the driver's thread is late, so the session's
/// time passes the arrival of a report that was not read yet.
#[test]
fn a_report_that_is_read_late_shows_the_round_trip_of_its_arrival() {
    let at = Instant::from_millis;
    let [mut sender, mut receiver] = [(); 2].map(|()| {
        let mut session = MediaSession::new(support::usual(), Seed(1), at(0)).unwrap();
        session.add_path(at(0), PathOptions::default());
        session
    });
    fn meta(received_at: Instant) -> DatagramMeta {
        DatagramMeta {
            path: PathId(0),
            received_at,
            ecn: Ecn::NotEct,
        }
    }
    fn frame(now: Instant) -> Frame {
        Frame::new(vec![0; 500], Importance::Key, now)
    }

    sender.send_frame(at(0), &frame(at(0))).unwrap();
    let mut bytes = Vec::new();
    sender.poll_transmit(at(0), &mut bytes).unwrap();
    receiver.handle_datagram(at(20), meta(at(20)), &bytes);
    let (reported_at, _) = receiver.poll_timeout().unwrap();
    receiver.handle_timeout(reported_at);
    bytes.clear();
    receiver.poll_transmit(reported_at, &mut bytes).unwrap();
    // It arrives 20 ms later, and is read 100 ms after that, behind another frame.
    let arrived_at = reported_at + Duration::from_millis(20);
    let read_at = arrived_at + Duration::from_millis(100);
    sender.send_frame(read_at, &frame(read_at)).unwrap();
    sender.handle_datagram(read_at, meta(arrived_at), &bytes);
    let rtt = sender.paths(read_at)[0].rtt;
    assert_eq!(rtt.latest, Some(Duration::from_millis(40)));
}
