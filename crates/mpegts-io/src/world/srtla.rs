//! Senders and receivers of SRTLA: an SRT caller at the encoder's loopback, links, a relay, and an
//! SRT listener at the studio's loopback.

use std::net::SocketAddr;

use super::{Bed, Sink, Source, line, millis, on, seconds};
use crate::bonding::{BondedSender, Callers};
use crate::srtla::Relay;
use anabranch_core::{PathId, PathOptions, PathState, SourceLimits};
use anabranch_net::testing::Machine;
use anabranch_net::{ClientPath, Event, PlainSocket, Remote, Via};

const LATENCY: &str = "latency=1000";

/// The encoder's sender of SRTLA, and the output that calls it.
struct Sender {
    bonded: BondedSender,
    source: Source,
}

/// The studio's receiver of SRTLA, and the input behind it.
struct Receiver {
    relay: Relay,
    sink: Sink,
}

fn path(via: &str, remote: Remote) -> ClientPath {
    ClientPath {
        via: Via::from(via),
        remote,
        options: PathOptions::default(),
    }
}

impl Bed {
    /// Starts a sender with all lines of the encoder.
    fn bond(&self, remote: impl Into<Remote>) -> Sender {
        self.bond_as(LATENCY, remote)
    }

    /// Starts a sender whose caller has these parameters.
    fn bond_as(&self, parameters: &str, remote: impl Into<Remote>) -> Sender {
        let remote = remote.into();
        let paths: Vec<_> = (0..self.lines.len())
            .map(|index| path(&format!("line{index}"), remote.clone()))
            .collect();
        let place = SocketAddr::from(([127, 0, 0, 1], 0));
        let (callers, limits) = (Callers::All, SourceLimits::Fixed);
        let surroundings = on(&self.encoder);
        let bonded = BondedSender::start(place, callers, &paths, limits, &surroundings)
            .expect("a free address");
        let source = self.output(&format!("srt://{}?{parameters}", bonded.address()));
        Sender { bonded, source }
    }

    /// Starts a receiver.
    fn relay(&self, listen: SocketAddr) -> Receiver {
        self.relay_for(LATENCY, listen)
    }

    /// Starts a receiver whose listener has these parameters.
    fn relay_for(&self, parameters: &str, listen: SocketAddr) -> Receiver {
        let sink = self.input(&format!("srt://127.0.0.1:0?mode=listener&{parameters}"));
        let srt = sink
            .input
            .local_address()
            .zip(sink.input.origins())
            .expect("a listener");
        let relay = Relay::start("srtla://test", listen, srt, &on(&self.studio));
        Receiver {
            relay: relay.expect("a free address"),
            sink,
        }
    }

    fn stream(&self, sender: &mut Sender, receiver: &mut Receiver, span: core::time::Duration) {
        self.run(&mut [&mut sender.source], &mut [&mut receiver.sink], span);
    }

    fn stream_until_fresh(
        &self,
        sender: &mut Sender,
        receiver: &mut Receiver,
        limit: core::time::Duration,
    ) {
        self.run_until_fresh(&mut sender.source, &mut receiver.sink, limit);
    }
}

impl Sender {
    fn events(&self) -> Vec<Event> {
        core::iter::from_fn(|| self.bonded.next_event()).collect()
    }

    /// Returns the states of all links.
    fn states(&self) -> Vec<PathState> {
        let snapshot = self.bonded.snapshot();
        snapshot.paths.iter().map(|path| path.view.state).collect()
    }
}

#[test]
fn a_stream_arrives_by_two_links_and_answers_come_back() {
    let bed = Bed::behind_translators(1, 2);
    let mut receiver = bed.relay(bed.at(5_000));
    let mut sender = bed.bond(bed.at(5_000));
    bed.stream(&mut sender, &mut receiver, seconds(10));
    receiver.sink.assert_whole(0, 850);
    let seen = sender.bonded.snapshot();
    assert_eq!(seen.paths.len(), 2);
    for (path, line) in seen.paths.iter().zip(&bed.lines) {
        assert_eq!(path.peer, Some(bed.at(5_000)));
        assert!(path.counters.acked_packets > 50, "{:?}", path.counters);
        let links = receiver.relay.links().get();
        let its = links
            .iter()
            .find(|link| link.address.ip() == line.public_address())
            .expect("it is shown");
        assert!(its.is_there && its.datagram_count > 50 && its.bytes > 50_000);
    }
    drop(receiver);
    bed.relay(bed.at(5_000));
}

/// `recv --phone` makes a stream ID and a passphrase for each phone.
#[test]
fn a_sender_is_let_in_by_its_own_stream_id_and_passphrase() {
    for (its, is_let_in) in [
        ("streamid=van&passphrase=correct-horse", true),
        ("streamid=roof&passphrase=correct-horse", false),
        ("streamid=van&passphrase=correct-house", false),
        ("streamid=van", false),
        ("passphrase=correct-horse", false),
    ] {
        let bed = Bed::behind_translators(3, 2);
        let mut receiver = bed.relay_for("streamid=van&passphrase=correct-horse", bed.at(5_000));
        let mut sender = bed.bond_as(its, bed.at(5_000));
        bed.stream(&mut sender, &mut receiver, seconds(3));
        assert_eq!(!receiver.sink.numbers.is_empty(), is_let_in, "{its}");
    }
}

/// A translator accepts answers only from the address that a link has sent to.
#[test]
fn at_every_address_answers_leave_from_the_one_that_was_asked() {
    for any in ["0.0.0.0:5000", "[::]:5000"] {
        let bed = Bed::behind_translators(2, 2);
        let second = bed.studio.attach("eth1", &line(100, 1));
        let mut receiver = bed.relay(any.parse().unwrap());
        let mut sender = bed.bond(bed.at(5_000));
        let other = path("line1", second.at(5_000).into());
        sender
            .bonded
            .replace_path(PathId(1), other)
            .expect("it is there");
        bed.stream(&mut sender, &mut receiver, seconds(4));
        receiver.sink.assert_whole(0, 200);
        assert_eq!(sender.states(), [PathState::Active; 2]);
        let peers: Vec<_> = sender
            .bonded
            .snapshot()
            .paths
            .iter()
            .map(|path| path.peer)
            .collect();
        assert_eq!(peers, [bed.at(5_000), second.at(5_000)].map(Some));
    }
}

#[test]
fn a_link_whose_translator_forgets_it_is_used_again() {
    for seed in 0..5 {
        let bed = Bed::behind_translators(seed, 2);
        let mut receiver = bed.relay(bed.at(5_000));
        let mut sender = bed.bond(bed.at(5_000));
        bed.stream(&mut sender, &mut receiver, seconds(5));
        bed.lines[0].rebind();
        bed.stream(&mut sender, &mut receiver, seconds(10));
        receiver.sink.assert_whole(0, 1_350);
        assert_eq!(sender.states(), [PathState::Active; 2]);
        let before = sender.bonded.snapshot().paths[0].counters.acked_packets;
        bed.stream(&mut sender, &mut receiver, seconds(2));
        let after = sender.bonded.snapshot().paths[0].counters.acked_packets;
        assert!(after > before, "the link is used");
    }
}

#[test]
fn links_follow_the_name_of_their_receiver() {
    let bed = Bed::behind_translators(3, 2);
    let (elsewhere, name) = (bed.studio.attach("eth1", &line(100, 1)), "ingest.example");
    bed.world.set_resolver_delay(millis(800));
    bed.world
        .set_name(name, Err("Temporary failure in name resolution".to_owned()));
    let mut receiver = bed.relay(([0, 0, 0, 0], 5_000).into());
    let mut sender = bed.bond("ingest.example:5000".parse::<Remote>().unwrap());
    bed.stream(&mut sender, &mut receiver, seconds(3));
    let absent = sender.events();
    let reports = absent
        .iter()
        .filter(|event| matches!(event, Event::PathAbsent { .. }));
    assert_eq!(reports.count(), 2, "each once: {absent:?}");
    bed.world
        .set_name(name, Ok(vec![bed.studio_line.address()]));
    bed.stream_until_fresh(&mut sender, &mut receiver, seconds(20));
    // The service moves.
    bed.studio_line.unplug();
    bed.world.set_name(name, Ok(vec![elsewhere.address()]));
    bed.stream_until_fresh(&mut sender, &mut receiver, seconds(30));
    let peers = sender.bonded.snapshot().paths;
    assert!(
        peers
            .iter()
            .all(|path| path.peer == Some(elsewhere.at(5_000)))
    );
}

#[test]
fn a_receiver_that_is_killed_and_started_again_gets_the_stream_again() {
    for seed in 0..3 {
        let bed = Bed::behind_translators(seed, 2);
        let mut receiver = bed.relay(bed.at(5_000));
        let mut sender = bed.bond(bed.at(5_000));
        bed.stream(&mut sender, &mut receiver, seconds(3));
        bed.studio.kill();
        drop(receiver);
        bed.run(&mut [&mut sender.source], &mut [], seconds(2));
        let mut receiver = bed.relay(bed.at(5_000));
        bed.stream_until_fresh(&mut sender, &mut receiver, seconds(15));
        assert_eq!(sender.states(), [PathState::Active; 2]);
    }
}

/// An encoder's program that is started again calls from another port.
#[test]
fn a_caller_that_is_started_again_takes_over() {
    let bed = Bed::behind_translators(4, 2);
    let mut receiver = bed.relay(bed.at(5_000));
    let mut sender = bed.bond(bed.at(5_000));
    bed.stream(&mut sender, &mut receiver, seconds(3));
    let place = format!("srt://{}?{LATENCY}", sender.bonded.address());
    sender.source = bed.output(&place);
    receiver.sink.numbers.clear();
    bed.stream_until_fresh(&mut sender, &mut receiver, seconds(10));
}

#[test]
fn a_line_that_vanishes_costs_nothing_while_another_carries_the_stream() {
    for seed in 0..5 {
        let bed = Bed::behind_translators(seed, 2);
        let mut receiver = bed.relay(bed.at(5_000));
        let mut sender = bed.bond(bed.at(5_000));
        bed.stream(&mut sender, &mut receiver, seconds(5));
        bed.lines[1].unplug();
        bed.stream(&mut sender, &mut receiver, seconds(5));
        bed.lines[1].plug();
        bed.stream(&mut sender, &mut receiver, seconds(5));
        receiver.sink.assert_whole(0, 1_350);
        assert_eq!(sender.states(), [PathState::Active; 2]);
        let events = sender.events();
        let absences = events
            .iter()
            .filter(|event| matches!(event, Event::PathAbsent { .. }));
        assert_eq!(absences.count(), 1);
    }
}

#[test]
fn an_absent_interface_is_waited_for_and_reported_once() {
    let bed = Bed::behind_translators(5, 2);
    bed.lines[1].unplug();
    let mut receiver = bed.relay(bed.at(5_000));
    let mut sender = bed.bond(bed.at(5_000));
    bed.stream(&mut sender, &mut receiver, seconds(5));
    let absent = Event::PathAbsent {
        path: PathId(1),
        reason: String::new(),
    };
    let is_absence =
        |event: &Event| core::mem::discriminant(event) == core::mem::discriminant(&absent);
    let reports: Vec<_> = sender.events().into_iter().filter(is_absence).collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    let old = sender
        .bonded
        .replace_path(PathId(1), path("nowhere", bed.at(5_000).into()));
    assert!(old.expect("it is there").unsent_datagrams > 0);
    bed.stream(&mut sender, &mut receiver, seconds(2));
    assert!(
        !sender.events().iter().any(is_absence),
        "it is absent as before"
    );
    let other = path("line1", bed.at(5_000).into());
    assert!(
        sender
            .bonded
            .replace_path(PathId(2), other.clone())
            .is_err()
    );
    sender
        .bonded
        .replace_path(PathId(1), other)
        .expect("it is there");
    bed.lines[1].plug();
    bed.stream(&mut sender, &mut receiver, seconds(3));
    let present = Event::PathPresent { path: PathId(1) };
    assert!(sender.events().contains(&present));
    assert_eq!(sender.states(), [PathState::Active; 2]);
}

/// Processes get the processor up to 100 ms late, one time in twenty.
#[test]
fn slow_machines_lose_nothing_within_the_latency() {
    for seed in 0..5 {
        let bed = Bed::behind_translators(seed, 2);
        bed.encoder.set_lateness(millis(100), 0.05);
        bed.studio.set_lateness(millis(100), 0.05);
        let mut receiver = bed.relay(bed.at(5_000));
        let mut sender = bed.bond(bed.at(5_000));
        bed.stream(&mut sender, &mut receiver, seconds(12));
        receiver.sink.assert_whole(0, 950);
    }
}

/// A stranger that registers a group of its own, and calls the SRT listener.
struct Caller {
    socket: PlainSocket,
    has_called: bool,
}

impl Caller {
    fn new(bed: &Bed, machine: &Machine, number: u32) -> Caller {
        let socket =
            PlainSocket::open(&on(machine), &Via::DefaultRoute, bed.at(5_000)).expect("a route");
        let half = number.to_be_bytes().repeat(64);
        let _ = socket.send(&[&[0x92, 0][..], &half].concat());
        Caller {
            socket,
            has_called: false,
        }
    }

    /// Answers the receiver.
    fn step(&mut self) {
        let mut buffer = [0; 1_500];
        while let Ok((length, _, _)) = self.socket.recv(&mut buffer) {
            let answer = &buffer[..length];
            if answer.starts_with(&[0x92, 1]) {
                let _ = self.socket.send(answer);
            } else if answer.starts_with(&[0x92, 2]) && !self.has_called {
                self.has_called = true;
                let packet = [&[0, 0, 0, 0][..], &[0x47; 1_000]].concat();
                let _ = self.socket.send(&packet);
            }
        }
    }
}

/// Attacks SRTLA's port: 5,000 registrations a second of one source, and 25 a second that complete
/// and call the SRT listener. A true sender registers among them, its links are the only ones that
/// are reported, and stay.
#[test]
fn registrations_of_strangers_keep_no_sender_out() {
    let bed = Bed::behind_translators(6, 2);
    let mut receiver = bed.relay(bed.at(5_000));
    let anybody = bed.world.stranger(4_000);
    let machines: [Machine; 10] = core::array::from_fn(|number| {
        let machine = bed.world.machine(&format!("stranger{number}"));
        machine.attach("eth0", &line(100, 1));
        machine
    });
    let register = [&[0x92, 0][..], &[1; 256]].concat();
    let (mut sender, mut callers) = (None, Vec::new());
    for number in 0..600_u32 {
        for _ in 0..50 {
            anybody.send(bed.at(5_000), &register);
        }
        if number % 4 == 1 {
            let machine = &machines[number as usize / 4 % machines.len()];
            callers.push(Caller::new(&bed, machine, number));
        }
        callers.iter_mut().for_each(Caller::step);
        if number == 100 {
            sender = Some(bed.bond(bed.at(5_000)));
        }
        match &mut sender {
            Some(sender) => bed.stream(sender, &mut receiver, millis(10)),
            None => bed.world.run_for(millis(10)),
        }
    }
    assert!(callers.iter().any(|caller| caller.has_called), "an attack");
    let first = *receiver.sink.numbers.first().expect("the stream comes");
    assert!(first < 200, "it begins with packet {first}");
    receiver.sink.assert_whole(first, 350);
    let answered: usize = anybody.take().iter().map(Vec::len).sum();
    assert!(answered <= 600 * 50 * register.len(), "{answered} bytes");
    let links = receiver.relay.links().get();
    let present = links.iter().filter(|link| link.is_there);
    let mut hosts: Vec<_> = present.map(|link| link.address.ip()).collect();
    hosts.sort();
    let own = bed.lines.iter().map(|line| line.public_address());
    assert_eq!(hosts, own.collect::<Vec<_>>());
}
