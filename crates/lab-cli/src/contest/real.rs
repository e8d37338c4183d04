//! A row in real time: the runtimes of `send` and `recv` over loopback, with the scenario's links
//! in a relay between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathOptions};
use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_lab::{MediaSpec, ORACLE, Scenario};
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Event, Events, Receiver, Sender, ServerConfig, Via,
};
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Instant, Seed};
use anabranch_video::player::Decodability;
use anyhow::{Context, bail, ensure};

use super::table::{Figures, counts_decodable};

/// Longest wait for an event.
const PATIENCE: StdDuration = StdDuration::from_secs(90);
/// Time from the clock's origin to the scenario's, in which the session is opened.
const PREPARATION: Duration = Duration::from_secs(1);

/// Runs the first flow of `scenario`.
pub(super) fn run(scenario: &Scenario, seed: Seed) -> anyhow::Result<Figures> {
    let media = scenario.flows[0].media().context("a row carries media")?;
    ensure!(
        media.config.scheduler.name() != ORACLE,
        "the scheduler {ORACLE} knows the network, as only a simulated one can be known"
    );
    let clock = Clock::start();
    let (sender_key, receiver_key) = (SecretKey::generate(), SecretKey::generate());
    let receiver_public = receiver_key.public_key();
    let allowed = vec![sender_key.public_key()];
    let mut config = ServerConfig::new((loopback(), 0).into(), receiver_key, allowed);
    config.clock = clock;
    config.transport = media.config.clone();
    let (receiver, receptions) = Receiver::start(config)?;
    let relay = relay(scenario, receiver.local_addr(), &clock, seed)?;
    let paths = (0..scenario.flows[0].paths.len())
        .map(|index| ClientPath {
            via: Via::Address(loopback()),
            remote: relay.listen_addr(index).into(),
            options: PathOptions::default(),
        })
        .collect();
    let mut config = ClientConfig::new(sender_key, receiver_public, paths);
    config.clock = clock;
    config.transport = media.config.clone();
    let (sender, events) = Sender::start(config)?;
    match events.recv_timeout(PATIENCE).context("no session")? {
        Event::Connected { .. } => {}
        event => bail!("no session, but {event:?}"),
    }
    let deadline = media.config.media.deadline;
    let taker = std::thread::spawn(move || {
        let reception = receptions.recv_timeout(PATIENCE);
        reception.map(|reception| take(reception.events(), &clock, deadline))
    });
    let sent = feed(&sender, media, &clock, scenario.duration, seed);
    // Packets in flight get the time of the deadline.
    wait_until(&clock, clock.now() + deadline);
    let (at_sender, at_receiver) = (sender.snapshot(), receiver.snapshot());
    sender.close();
    let Ok(delivered) = taker.join() else {
        bail!("a thread panicked");
    };
    let (complete, decodable) = delivered.context("no session")?;
    let delivered = if counts_decodable(scenario) {
        decodable
    } else {
        complete
    };
    let frame_count = sent.count.max(1) as f64;
    let ends = [&at_sender, &at_receiver];
    let paths = ends.into_iter().flat_map(|end| &end.paths);
    let wire_bytes: u64 = paths
        .map(|path| path.counters.sent_bytes + path.counters.control_bytes)
        .sum();
    Ok(Figures {
        delivered: delivered as f64 / frame_count,
        decodable: decodable as f64 / frame_count,
        overhead: wire_bytes as f64 / sent.bytes.max(1) as f64 - 1.0,
    })
}

fn loopback() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

fn relay(
    scenario: &Scenario,
    target: SocketAddr,
    clock: &Clock,
    seed: Seed,
) -> anyhow::Result<Relay> {
    let links = scenario.flows[0].paths.iter().map(|path| {
        let route = &scenario.routes[path.route];
        let [forward, reverse] = scenario.only_links(route)?.map(Clone::clone);
        Ok(RelayLink {
            name: route.name.clone(),
            listen: (loopback(), 0).into(),
            target,
            forward,
            reverse,
            seed: seed.derive(&route.name),
        })
    });
    Ok(Relay::start(RelayConfig {
        links: links.collect::<anyhow::Result<_>>()?,
        origin: Some(clock.origin() + PREPARATION.to_std()),
    })?)
}

/// Frames that the source made.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    count: u64,
    bytes: u64,
}

/// Sends the source's frames at their times.
fn feed(sender: &Sender, media: &MediaSpec, clock: &Clock, span: Duration, seed: Seed) -> Sent {
    let mut source = media
        .source
        .build(Instant::ZERO, seed)
        .expect("the scenario was read");
    let begin = Instant::ZERO + PREPARATION;
    let mut sent = Sent::default();
    while let Some(due_at) = source.next_at().filter(|at| *at < Instant::ZERO + span) {
        wait_until(clock, begin + (due_at - Instant::ZERO));
        let shape = source.produce(due_at, sender.target_bitrate());
        let frame = Frame {
            bytes: vec![7; shape.bytes as usize].into(),
            importance: shape.importance,
            captured_at: clock.now(),
            lifetime: None,
        };
        // A refused frame counts, because it has been captured.
        let _ = sender.send_frame(&frame);
        sent.count += 1;
        sent.bytes += u64::from(shape.bytes);
    }
    sent
}

/// Counts frames until the session ends. Returns the number of frames that are complete in time,
/// and of frames that are decodable in time.
fn take(received: &Events, clock: &Clock, deadline: Duration) -> (u64, u64) {
    let (mut complete, mut decodable) = (0, 0);
    let mut decodability = Decodability::default();
    loop {
        match received.recv_timeout(PATIENCE) {
            Ok(Event::FrameReceived(frame)) => {
                let is_decodable = decodability.on_frame(frame.importance, true);
                let due_at = frame.captured_at + deadline;
                complete += u64::from(frame.completed_at <= due_at);
                decodable += u64::from(is_decodable && clock.now() <= due_at);
            }
            Ok(Event::FrameDropped { .. }) => decodability.on_unknown_loss(),
            Ok(Event::Ended(_)) | Err(_) => return (complete, decodable),
            Ok(_) => {}
        }
    }
}

fn wait_until(clock: &Clock, due_at: Instant) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(due_at.saturating_since(clock.now()).to_std());
}
