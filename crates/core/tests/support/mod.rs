//! A network for two endpoints under test: paths of one rate and delay each way, with a drop-tail
//! queue, losses, reordering, duplication and outages. Deliberately simpler than `link`, which the
//! core must not know.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_core::control::Controller;
use anabranch_core::fec::FecPolicyFactory;
use anabranch_core::scheduler::SchedulerFactory;
use anabranch_core::{
    Config, Content, DatagramMeta, Event, Frame, FramePart, Media, PathId, PathOptions, PathState,
    ReceivedFrame, SendReason, Session, Stream, Timer,
};
use anabranch_units::{DataRate, Duration, Ecn, Importance, Instant, Rng, Seed};

/// Returns the usual session, with the usual controller and scheduler.
pub fn usual() -> Config {
    Config::new(
        anabranch_controllers::default_controller(),
        anabranch_schedulers::default_scheduler(),
    )
}

/// Returns a controller by its name.
pub fn controller(name: &str) -> Controller {
    anabranch_controllers::by_name(name).unwrap()
}

/// Returns a scheduler by its name.
pub fn scheduler(name: &str) -> SchedulerFactory {
    anabranch_schedulers::by_name(name).unwrap()
}

/// Returns a policy of forward error correction by its name; `None` for `off`.
pub fn fec(name: &str) -> Option<FecPolicyFactory> {
    anabranch_schedulers::fec_policy(name).unwrap()
}

/// One path, both ways alike; the rate limits the way there only.
#[derive(Clone, Debug)]
pub struct TestPath {
    pub rate: DataRate,
    pub delay: Duration,
    pub queue: Duration,
    pub loss: f64,
    /// The share of datagrams that come twice.
    pub duplication: f64,
    /// Maximum additional delay of a datagram, so that it may be overtaken.
    pub jitter: Duration,
    /// The datagrams, counted from zero, that are lost on the way there.
    pub lost_there: Vec<u64>,
    /// Everything is dropped from the first to the second instant.
    pub outage: Option<(Instant, Instant)>,
    /// Outage of the way back: datagrams are dropped from the first to the second instant.
    pub outage_back: Option<(Instant, Instant)>,
    /// Whether the sender pays for it by volume.
    pub is_metered: bool,
    /// Whether the sender pays for it beyond an amount.
    pub is_capped: bool,
    /// From an instant on, longer packets vanish on the way there.
    pub mtu: Option<(Instant, u64)>,
    /// The sender's interface refuses longer packets.
    pub interface_mtu: Option<u64>,
    /// The user's preference.
    pub weight: f64,
    /// Limit set by the user.
    pub max_rate: Option<DataRate>,
    /// The rate that an earlier session measured on it.
    pub initial_rate: Option<DataRate>,
}

impl TestPath {
    pub fn new(megabits_per_second: u64, delay_millis: u64) -> Self {
        TestPath {
            rate: DataRate::from_megabits_per_second(megabits_per_second),
            delay: Duration::from_millis(delay_millis),
            queue: Duration::from_millis(200),
            loss: 0.0,
            duplication: 0.0,
            jitter: Duration::ZERO,
            lost_there: Vec::new(),
            outage: None,
            outage_back: None,
            is_metered: false,
            is_capped: false,
            mtu: None,
            interface_mtu: None,
            weight: 1.0,
            max_rate: None,
            initial_rate: None,
        }
    }

    fn is_out(&self, now: Instant, is_back: bool) -> bool {
        let back = if is_back { self.outage_back } else { None };
        let mut outages = self.outage.into_iter().chain(back);
        outages.any(|(from, to)| (from..to).contains(&now))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Instant,
    order: u64,
    path: usize,
    is_back: bool,
    bytes: Vec<u8>,
}

/// Content of sessions under test.
pub trait Load: Content {
    /// Reads the available data of a stream. Returns the number of bytes.
    fn read(session: &mut Session<Self>, out: &mut Vec<u8>) -> usize;
}

impl Load for Media {
    fn read(_: &mut Session<Self>, _: &mut Vec<u8>) -> usize {
        0
    }
}

impl Load for Stream {
    fn read(session: &mut Session<Self>, out: &mut Vec<u8>) -> usize {
        session.read(out)
    }
}

/// A sender and a receiver, with their output.
pub struct Network<C = Media> {
    pub now: Instant,
    pub sender: Session<C>,
    pub receiver: Session<C>,
    pub paths: Vec<TestPath>,
    pub received: Vec<(Instant, ReceivedFrame)>,
    /// Parts of frames, if they are handed out.
    pub parts: Vec<(Instant, FramePart)>,
    /// Frames of the other direction, if the receiver sends too.
    pub received_back: Vec<(Instant, ReceivedFrame)>,
    pub dropped: Vec<Event>,
    pub path_states: Vec<(Instant, PathId, PathState)>,
    pub sent_on: Vec<u64>,
    pub is_peer_closed: bool,
    pub is_receiver_gone: bool,
    /// Data that the receiver has read from the stream, if it reads.
    pub stream: Vec<u8>,
    pub is_reading: bool,
    pub is_stream_finished: bool,
    pub is_writable_reported: bool,
    /// Whether moments of the pacer are for `poll_transmit` alone, as its timer promises.
    pub spares_pacing: bool,
    pub spared_count: u64,
    /// When each tracked datagram left, and how long it is on the wire.
    pub sent: Vec<(Instant, u64)>,
    /// When each datagram of the sender left, how long it is on the wire, and why it left.
    pub left: Vec<(Instant, u64, SendReason)>,
    /// When the sender was last handed a datagram.
    pub heard_at: Instant,
    /// When each datagram of the receiver left, and how long it is on the wire.
    pub answered: Vec<(Instant, u64)>,
    /// Number of datagrams that the sender's interfaces refused.
    pub refused_count: u64,
    busy_until: Vec<Instant>,
    in_flight: BinaryHeap<Reverse<Arrival>>,
    order: u64,
    rng: Rng,
    /// Generators by path and direction, so that losses on one path do not depend on the traffic of
    /// the others.
    own_chance: Vec<[Rng; 2]>,
    /// Datagrams that pass through this are altered on their way, to test robustness.
    pub tamper: Option<fn(&mut Rng, &mut Vec<u8>)>,
    /// Whether the invariants of both ends are checked after every call.
    pub checks_invariants: bool,
    pub check_count: u64,
}

pub const OVERHEAD_BYTES: u64 = 28;

impl Network {
    pub fn new(config: Config, paths: Vec<TestPath>) -> Self {
        Network::between(config, paths)
    }

    /// Sends a frame now.
    pub fn send(&mut self, bytes: usize, is_key: bool) {
        self.send_frame(bytes, Importance::key_if(is_key));
    }

    /// Sends a frame of this importance now.
    pub fn send_frame(&mut self, bytes: usize, importance: Importance) {
        self.send_captured(self.now, bytes, importance);
    }

    /// Sends a frame now that was captured earlier.
    pub fn send_captured(&mut self, captured_at: Instant, bytes: usize, importance: Importance) {
        let payload: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        let frame = Frame {
            bytes: payload.into(),
            importance,
            captured_at,
            lifetime: None,
        };
        let sent = self.sender.send_frame(self.now, &frame);
        // A datagram that was tampered with may announce the session's end, or look like a lie.
        let may_be_over = self.tamper.is_some() && self.sender.is_closed();
        assert!(sent.is_ok() || may_be_over, "{sent:?}");
        self.settle();
    }

    /// Sends frames of the target bitrate, 25 a second, a key frame every 50, until `end`.
    pub fn stream_until(&mut self, end: Instant) {
        let mut index = 0;
        while self.now < end {
            let bytes = self
                .sender
                .target_bitrate()
                .bytes_in(Duration::from_millis(40))
                .max(200);
            self.send(bytes as usize, index % 50 == 0);
            index += 1;
            self.run_until(self.now + Duration::from_millis(40));
        }
    }
}

impl Network<Stream> {
    pub fn of_stream(config: Config, path: TestPath) -> Self {
        Network::between(config, vec![path])
    }

    pub fn of_stream_over(config: Config, paths: Vec<TestPath>) -> Self {
        Network::between(config, paths)
    }

    /// Writes all of `bytes` as there is room and ends the stream, until all is acknowledged or
    /// `end` has come.
    pub fn transfer(&mut self, bytes: &[u8], end: Instant) {
        let mut rest = bytes;
        while self.now < end {
            if !rest.is_empty() {
                let taken = self.sender.write(self.now, rest).unwrap();
                rest = &rest[taken..];
                if rest.is_empty() {
                    self.sender.finish().unwrap();
                }
                self.is_writable_reported = false;
            }
            while self.now < end
                && !(if rest.is_empty() {
                    self.sender.is_drained()
                } else {
                    self.is_writable_reported
                })
            {
                self.run_until(self.now + Duration::from_millis(1));
            }
            if rest.is_empty() && self.sender.is_drained() {
                return;
            }
        }
    }
}

impl<C: Load> Network<C> {
    fn between(config: Config, paths: Vec<TestPath>) -> Self {
        let now = Instant::ZERO;
        let sender = Session::new(config.clone(), Seed(1), now).unwrap();
        let receiver = Session::new(config, Seed(2), now).unwrap();
        let mut network = Network {
            now,
            sender,
            receiver,
            received: Vec::new(),
            parts: Vec::new(),
            received_back: Vec::new(),
            dropped: Vec::new(),
            path_states: Vec::new(),
            sent_on: Vec::new(),
            is_peer_closed: false,
            is_receiver_gone: false,
            stream: Vec::new(),
            is_reading: true,
            is_stream_finished: false,
            is_writable_reported: false,
            spares_pacing: false,
            spared_count: 0,
            sent: Vec::new(),
            left: Vec::new(),
            heard_at: now,
            answered: Vec::new(),
            refused_count: 0,
            busy_until: Vec::new(),
            paths: Vec::new(),
            in_flight: BinaryHeap::new(),
            order: 0,
            rng: Seed(3).rng(),
            own_chance: Vec::new(),
            tamper: None,
            checks_invariants: false,
            check_count: 0,
        };
        paths.into_iter().for_each(|path| network.add_path(path));
        network
    }

    /// Adds a path at both ends.
    pub fn add_path(&mut self, path: TestPath) {
        let options = PathOptions {
            is_metered: path.is_metered,
            is_capped: path.is_capped,
            weight: path.weight,
            max_rate: path.max_rate,
            initial_rate: path.initial_rate,
        };
        self.sender.add_path(self.now, options).unwrap();
        let added = self.receiver.add_path(self.now, PathOptions::default());
        added.unwrap();
        self.sent_on.push(0);
        self.busy_until.push(self.now);
        self.paths.push(path);
    }

    /// Sets the seed of all chance.
    pub fn reseed(&mut self, seed: Seed) {
        self.rng = seed.rng();
    }

    /// Gives each path losses by a chance of its own, whatever the others carry. `names` are the
    /// paths', by which they meet the same losses in another network.
    pub fn separate_losses_as(&mut self, seed: Seed, names: &[u64]) {
        self.own_chance = names
            .iter()
            .map(|path| ["there", "back"].map(|way| seed.derive(&format!("{path}/{way}")).rng()))
            .collect();
    }

    pub fn run_until(&mut self, end: Instant) {
        loop {
            self.settle();
            let arrival = self.in_flight.peek().map(|arrival| arrival.0.at);
            let timers = [&self.sender, &self.receiver].map(|end| end.poll_timeout().map(|t| t.0));
            let next = timers.into_iter().chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            let is_spared = [&self.sender, &self.receiver].map(|end| {
                self.spares_pacing && matches!(end.poll_timeout(), Some((_, Timer::Pacing)))
            });
            while self
                .in_flight
                .peek()
                .is_some_and(|arrival| arrival.0.at <= self.now)
            {
                let Reverse(arrival) = self.in_flight.pop().unwrap();
                self.deliver(arrival);
            }
            let ends = [&mut self.sender, &mut self.receiver];
            for (end, is_spared) in ends.into_iter().zip(is_spared) {
                if is_spared {
                    self.spared_count += 1;
                } else {
                    end.handle_timeout(self.now);
                }
            }
            self.check(true, "a timeout");
            self.check(false, "a timeout");
            if is_spared == [false; 2] {
                self.settle();
                self.check_timers();
            }
        }
        self.now = end;
    }

    /// Checks that all due actions are done: neither end asks to be called again at once.
    fn check_timers(&mut self) {
        for (end, name) in [(&self.sender, "sender"), (&self.receiver, "receiver")] {
            if let Some((at, timer)) = end.poll_timeout() {
                assert!(at > self.now, "{name}: {timer:?} of {at} at {}", self.now);
            }
        }
        #[cfg(any(debug_assertions, feature = "invariants"))]
        for is_sender in [true, false] {
            self.check_by(is_sender, "rest", Session::check_invariants_at_rest);
        }
    }

    /// Checks the invariants of an end after `call`, if they are to be checked.
    fn check(&mut self, is_sender: bool, call: &str) {
        #[cfg(any(debug_assertions, feature = "invariants"))]
        self.check_by(is_sender, call, |end, _| end.check_invariants());
        #[cfg(not(any(debug_assertions, feature = "invariants")))]
        let _ = (is_sender, call);
    }

    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check_by(
        &mut self,
        is_sender: bool,
        call: &str,
        check: fn(&Session<C>, Instant) -> Vec<anabranch_core::invariants::Violation>,
    ) {
        if !self.checks_invariants {
            return;
        }
        self.check_count += 1;
        let (end, name) = if is_sender {
            (&self.sender, "sender")
        } else {
            (&self.receiver, "receiver")
        };
        let violations = check(end, self.now);
        let texts: Vec<String> = violations.iter().map(|one| one.to_string()).collect();
        assert!(
            violations.is_empty(),
            "{name} after {call} at {}:\n{}",
            self.now,
            texts.join("\n")
        );
    }

    fn deliver(&mut self, arrival: Arrival) {
        let path = PathId(arrival.path as u8);
        let meta = DatagramMeta {
            path,
            received_at: self.now,
            ecn: Ecn::NotEct,
        };
        let to = if arrival.is_back {
            self.heard_at = self.now;
            &mut self.sender
        } else {
            &mut self.receiver
        };
        to.handle_datagram(self.now, meta, &arrival.bytes);
        self.check(arrival.is_back, "a datagram");
        self.settle();
    }

    pub fn settle(&mut self) {
        let mut bytes = Vec::new();
        self.check(true, "a call of its application");
        while let Some(transmit) = self.sender.poll_transmit(self.now, &mut bytes) {
            self.check(true, "poll_transmit");
            self.sent_on[transmit.path.index()] += u64::from(transmit.reason.is_tracked());
            let wire_bytes = bytes.len() as u64 + OVERHEAD_BYTES;
            self.left.push((self.now, wire_bytes, transmit.reason));
            if transmit.reason.is_tracked() {
                self.sent.push((self.now, wire_bytes));
            }
            let path = transmit.path.index();
            if self.paths[path]
                .interface_mtu
                .is_some_and(|mtu| transmit.size as u64 + OVERHEAD_BYTES > mtu)
            {
                let size = transmit.size;
                self.refused_count += 1;
                self.sender
                    .on_datagram_too_large(self.now, transmit.path, size);
                bytes.clear();
                continue;
            }
            self.launch(path, false, core::mem::take(&mut bytes));
        }
        while let Some(transmit) = self.receiver.poll_transmit(self.now, &mut bytes) {
            let wire_bytes = bytes.len() as u64 + OVERHEAD_BYTES;
            self.answered.push((self.now, wire_bytes));
            self.launch(transmit.path.index(), true, core::mem::take(&mut bytes));
        }
        self.check(true, "poll_transmit");
        self.check(false, "poll_transmit");
        while let Some(event) = self.sender.poll_event() {
            match event {
                Event::PeerLeft => self.is_receiver_gone = true,
                Event::FrameReceived(frame) => self.received_back.push((self.now, frame)),
                Event::PathState { path, state } => self.path_states.push((self.now, path, state)),
                Event::FrameDropped { .. } => self.dropped.push(event),
                Event::StreamWritable => self.is_writable_reported = true,
                _ => {}
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                Event::FrameReceived(frame) => self.received.push((self.now, frame)),
                Event::FramePart(part) => self.parts.push((self.now, part)),
                Event::FrameDropped { .. } => self.dropped.push(event),
                Event::Closed => self.is_peer_closed = true,
                Event::StreamFinished => self.is_stream_finished = true,
                _ => {}
            }
        }
        if self.is_reading && C::read(&mut self.receiver, &mut self.stream) > 0 {
            self.settle();
        }
    }

    fn launch(&mut self, index: usize, is_back: bool, mut bytes: Vec<u8>) {
        let path = &self.paths[index];
        if let Some(tamper) = self.tamper {
            tamper(&mut self.rng, &mut bytes);
        }
        let mut leaves_at = self.now;
        if !is_back {
            let wire_bytes = bytes.len() as u64 + OVERHEAD_BYTES;
            leaves_at = self.busy_until[index].max(self.now) + path.rate.time_for(wire_bytes);
            if leaves_at - self.now > path.queue {
                return;
            }
            self.busy_until[index] = leaves_at;
        }
        let mut at = leaves_at + path.delay;
        if !path.jitter.is_zero() {
            at += path.jitter.mul_f64(self.rng.next_f64());
        }
        let is_listed = !is_back
            && (self.sent.len() as u64)
                .checked_sub(1)
                .is_some_and(|index| path.lost_there.contains(&index));
        let is_lost = is_listed
            || path.mtu.is_some_and(|(since, mtu)| {
                !is_back && self.now >= since && bytes.len() as u64 + OVERHEAD_BYTES > mtu
            })
            || match self.own_chance.get_mut(index) {
                Some(own) => own[usize::from(is_back)].chance(path.loss),
                None => self.rng.chance(path.loss),
            }
            || path.is_out(self.now, is_back)
            || path.is_out(at, is_back);
        if !is_lost {
            if path.duplication > 0.0 && self.rng.chance(path.duplication) {
                self.fly(at + path.delay, index, is_back, bytes.clone());
            }
            self.fly(at, index, is_back, bytes);
        }
    }

    fn fly(&mut self, at: Instant, path: usize, is_back: bool, bytes: Vec<u8>) {
        self.order += 1;
        let order = self.order;
        self.in_flight.push(Reverse(Arrival {
            at,
            order,
            path,
            is_back,
            bytes,
        }));
    }

    /// Returns each frame's time from its capture to its delivery.
    pub fn frame_delays(&self) -> Vec<Duration> {
        self.received
            .iter()
            .map(|(at, frame)| *at - frame.captured_at)
            .collect()
    }
}
