//! A scenario's media flow in real time: the runtime's two ends over loopback, with the scenario's
//! links in a relay between them or directly.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathOptions, ReceivedFrame};
use anabranch_emu::{Relay, RelayConfig, RelayLink, RelayLinkStatistics};
use anabranch_lab::{LinkSpec, MediaSpec, Scenario};
use anabranch_link::LinkConfig;
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Event, Receiver, Reception, Sender, ServerConfig, Snapshot,
    Via,
};
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Instant, Seed};

const PATIENCE: StdDuration = StdDuration::from_secs(20);
/// Time between snapshots of both ends.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time from the clock's origin to the scenario's, in which the session is opened.
const PREPARATION: Duration = Duration::from_secs(1);

/// Network between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The scenario's links.
    Emulated,
    /// Plain loopback.
    Loopback,
}

/// Results of a run. Instants count from the scenario's start.
pub(crate) struct Run {
    /// Frames that the session accepted.
    pub(crate) sent_count: usize,
    pub(crate) received: Vec<ReceivedFrame>,
    /// Received frames that were complete by the scenario's end, as the simulator counts.
    pub(crate) in_time_count: usize,
    pub(crate) samples: Vec<Sample>,
    /// Statistics by path; empty without a relay.
    pub(crate) links: Vec<RelayLinkStatistics>,
}

/// Both ends at one time.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) sender: Snapshot,
    pub(crate) receiver: Snapshot,
}

impl Run {
    /// Returns the first snapshot at or after `at`, or the last.
    pub(crate) fn sample_at(&self, at: Instant) -> &Sample {
        let found = self.samples.iter().find(|look| look.at >= at);
        found.or(self.samples.last()).expect("a sample")
    }

    /// Returns the mean time from a frame's capture to its completion.
    pub(crate) fn mean_delay_ms(&self) -> f64 {
        let delays = self
            .received
            .iter()
            .map(|frame| (frame.completed_at - frame.captured_at).as_millis_f64());
        delays.sum::<f64>() / self.received.len() as f64
    }
}

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Returns the media flow of the scenario.
pub(crate) fn media(scenario: &Scenario) -> &MediaSpec {
    scenario.flows[0].media().expect("the first flow is media")
}

/// Returns the frames that a session delivers until its end.
fn received(reception: &Reception) -> Vec<ReceivedFrame> {
    let mut frames = Vec::new();
    loop {
        let event = reception.events().recv_timeout(PATIENCE);
        match event.expect("the end in time") {
            Event::FrameReceived(frame) => frames.push(frame),
            Event::Ended(_) => return frames,
            _ => {}
        }
    }
}

/// Runs the scenario's first flow.
pub(crate) fn run(scenario: &Scenario, network: Network, seed: Seed) -> Run {
    let clock = Clock::start();
    let begin = Instant::ZERO + PREPARATION;
    let (sender_key, receiver_key) = (SecretKey::generate(), SecretKey::generate());
    let receiver_public = receiver_key.public_key();
    let listen = (loopback(1), 0).into();
    let mut config = ServerConfig::new(listen, receiver_key, vec![sender_key.public_key()]);
    config.clock = clock;
    config.transport = media(scenario).config.clone();
    let (receiver, receptions) = Receiver::start(config).expect("a port of loopback");

    let target = receiver.local_addr();
    let relay = match network {
        Network::Emulated => Some(relay(scenario, target, &clock, seed)),
        Network::Loopback => None,
    };
    let paths = (0..scenario.flows[0].paths.len())
        .map(|index| ClientPath {
            via: Via::Address(loopback(index as u8 + 1)),
            remote: relay
                .as_ref()
                .map_or(target, |relay| relay.listen_addr(index))
                .into(),
            options: PathOptions::default(),
        })
        .collect();
    let mut config = ClientConfig::new(sender_key, receiver_public, paths);
    config.clock = clock;
    config.transport = media(scenario).config.clone();
    config.seed = Some(seed);
    let (sender, events) = Sender::start(config).expect("loopback");
    loop {
        match events.recv_timeout(PATIENCE).expect("an answer in time") {
            Event::Connected { .. } => break,
            Event::Ended(ended) => panic!("{ended}"),
            _ => {}
        }
    }
    let ends = Ends {
        sender,
        receiver,
        clock,
        begin,
    };
    let (sent_count, samples) = ends.feed(scenario, seed);
    ends.sender.close();
    let reception = receptions.recv_timeout(PATIENCE);
    let mut run = Run {
        sent_count,
        received: received(&reception.expect("a session in time")),
        in_time_count: 0,
        samples,
        links: Vec::new(),
    };
    let end = begin + scenario.duration;
    let in_time = run
        .received
        .iter()
        .filter(|frame| frame.completed_at <= end);
    run.in_time_count = in_time.count();
    if let Some(relay) = relay {
        let paths = 0..scenario.flows[0].paths.len();
        run.links = paths.map(|index| relay.statistics(index)).collect();
    }
    run
}

fn relay(scenario: &Scenario, target: SocketAddr, clock: &Clock, seed: Seed) -> Relay {
    fn link(indices: &[usize], links: &[LinkSpec]) -> LinkConfig {
        match indices {
            [index] => links[*index].config.clone(),
            _ => panic!("a relay has one link a way"),
        }
    }
    let paths = scenario.flows[0].paths.iter();
    let links = paths.map(|path| {
        let route = &scenario.routes[path.route];
        RelayLink {
            name: route.name.clone(),
            listen: (loopback(1), 0).into(),
            target,
            forward: link(&route.forward, &scenario.links),
            reverse: link(&route.reverse, &scenario.links),
            seed: seed.derive(&route.name),
        }
    });
    Relay::start(RelayConfig {
        links: links.collect(),
        origin: Some(clock.origin() + PREPARATION.to_std()),
    })
    .expect("loopback can be relayed")
}

/// A session that is up.
struct Ends {
    sender: Sender,
    receiver: Receiver,
    clock: Clock,
    begin: Instant,
}

impl Ends {
    /// Sends the source's frames at their times. Returns the number of accepted ones, and
    /// snapshots.
    fn feed(&self, scenario: &Scenario, seed: Seed) -> (usize, Vec<Sample>) {
        let mut source = (media(scenario).source)
            .build(Instant::ZERO, seed)
            .expect("the scenario was read");
        let end = Instant::ZERO + scenario.duration;
        let mut sent_count = 0;
        let mut samples = Vec::new();
        let mut look_at = Instant::ZERO;
        while let Some(due_at) = source.next_at().filter(|at| *at < end) {
            while look_at < due_at {
                self.wait_until(look_at);
                samples.push(self.take_sample());
                look_at += POLL_INTERVAL;
            }
            self.wait_until(due_at);
            let shape = source.produce(due_at, self.sender.target_bitrate());
            let frame = Frame {
                bytes: vec![7; shape.bytes as usize].into(),
                importance: shape.importance,
                captured_at: self.clock.now(),
                lifetime: None,
            };
            sent_count += usize::from(self.sender.send_frame(&frame).is_ok());
        }
        self.wait_until(end);
        samples.push(self.take_sample());
        (sent_count, samples)
    }

    fn take_sample(&self) -> Sample {
        Sample {
            at: Instant::ZERO + self.clock.now().saturating_since(self.begin),
            sender: self.sender.snapshot(),
            receiver: self.receiver.snapshot(),
        }
    }

    /// Waits until the scenario's time is `at`.
    fn wait_until(&self, at: Instant) {
        let due_at = self.begin + (at - Instant::ZERO);
        let (_keep, never) = mpsc::channel::<()>();
        let _ = never.recv_timeout(due_at.saturating_since(self.clock.now()).to_std());
    }
}
