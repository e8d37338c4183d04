//! Callers and listeners of SRT: networks that change, programs that end, slow machines.

use anabranch_net::testing::{Bystander, Hands, Line, Nat, Packet};
use anabranch_units::{Duration, Instant};

use super::{Bed, line, millis, on, seconds};
use crate::srt::{SrtInput, SrtOutput};

/// Silence after which a caller or listener gives a connection up, and a wait for the next call.
const GIVEN_UP: core::time::Duration = core::time::Duration::from_secs(8);

#[test]
fn inputs_at_one_port_get_the_packets_of_their_callers() {
    let bed = Bed::behind_translators(1, 1);
    let (at, secret) = (bed.at(9_000), "passphrase=correct horse");
    let mut a = bed.input(&format!("srt://{at}?mode=listener&streamid=a&{secret}"));
    let of_b = format!("srt://{at}?mode=listener&streamid=b");
    let mut b = bed.input(&of_b);
    let twice = SrtInput::open(&super::address(&of_b), &on(&bed.studio))
        .unwrap_err()
        .to_string();
    assert!(twice.contains("different stream IDs"), "{twice}");
    let ids = [
        "streamid=a&passphrase=correct horse",
        "streamid=b",
        "streamid=a",
        "streamid=c",
    ];
    let mut sources = ids.map(|id| bed.output(&format!("srt://{at}?{id}")));
    let [
        ref mut of_a,
        ref mut of_b,
        ref mut without_secret,
        ref mut of_nobody,
    ] = sources;
    let mut all = [of_a, of_b, without_secret, of_nobody];
    bed.run(&mut all, &mut [&mut a, &mut b], seconds(3));
    for sink in [&a, &b] {
        assert!(sink.numbers.len() > 250, "{}", sink.numbers.len());
        sink.assert_whole(0, *sink.numbers.last().unwrap());
        let link = sink.input.links().get()[0];
        assert!(link.is_there && link.quality.is_some());
    }
    for refused in &sources[2..] {
        assert_eq!(refused.output.receivers().count(), 0);
    }
    drop((a, b));
    bed.input(&format!("srt://{at}?mode=listener"));
}

/// A first picture that is lost costs a viewer all that refer to it.
#[test]
fn a_listener_that_answers_late_gets_the_head_of_the_stream() {
    let bed = Bed::behind_translators(2, 1);
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [], millis(1_000));
    let mut sink = bed.input(&format!("srt://{}?mode=listener", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(3));
    sink.assert_whole(0, 300);
}

#[test]
fn losses_of_a_line_are_repaired_within_the_latency() {
    for seed in 0..5 {
        let bed = Bed::new(seed, &[line(6, 20).with_loss(0.05)]);
        let mut sink = bed.input(&format!(
            "srt://{}?mode=listener&latency=400",
            bed.at(9_000)
        ));
        let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
        bed.run(&mut [&mut source], &mut [&mut sink], seconds(10));
        sink.assert_whole(0, 900);
    }
}

#[test]
fn a_caller_whose_translator_forgets_it_calls_again() {
    let bed = Bed::behind_translators(3, 1);
    let mut sink = bed.input(&format!("srt://{}?mode=listener", bed.at(9_000)));
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    bed.lines[0].rebind();
    bed.run_until_fresh(&mut source, &mut sink, GIVEN_UP);
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    sink.assert_whole(source.count - 150, source.count - 50);
}

#[test]
fn a_caller_follows_the_name_of_its_listener() {
    let bed = Bed::behind_translators(4, 1);
    let (elsewhere, name) = (bed.studio.attach("eth1", &line(100, 1)), "ingest.example");
    let first = bed.studio_line.address();
    bed.world
        .set_name(name, Err("Temporary failure in name resolution".to_owned()));
    let mut source = bed.output(&format!("srt://{name}:9000"));
    let mut sink = bed.input("srt://:9000");
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(3));
    assert_eq!(sink.numbers, []);
    bed.world.set_name(name, Ok(vec![first]));
    bed.run_until_fresh(&mut source, &mut sink, seconds(10));
    // The service moves.
    bed.studio_line.unplug();
    bed.world.set_name(name, Ok(vec![elsewhere.address()]));
    bed.run_until_fresh(&mut source, &mut sink, GIVEN_UP);
}

/// A service whose name has addresses of both families listens by one alone.
#[test]
fn a_caller_tries_each_address_of_a_name() {
    let bed = Bed::behind_translators(5, 1);
    bed.encoder.attach("six", &line(6, 20).over_ipv6());
    let six = bed.studio.attach("six", &line(100, 1).over_ipv6());
    let both = vec![six.address(), bed.studio_line.address()];
    bed.world.set_name("ingest.example", Ok(both));
    let mut sink = bed.input("srt://0.0.0.0:9000");
    let mut source = bed.output("srt://ingest.example:9000");
    bed.run_until_fresh(&mut source, &mut sink, GIVEN_UP);
}

#[test]
fn a_listener_that_is_killed_and_started_again_is_called_again() {
    let bed = Bed::behind_translators(6, 1);
    let listen = format!("srt://{}?mode=listener", bed.at(9_000));
    let mut sink = bed.input(&listen);
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    bed.studio.kill();
    drop(sink);
    bed.run(&mut [&mut source], &mut [], seconds(1));
    let mut sink = bed.input(&listen);
    bed.run_until_fresh(&mut source, &mut sink, GIVEN_UP);
}

#[test]
fn a_caller_that_is_killed_gives_way_to_its_successor() {
    let bed = Bed::behind_translators(7, 1);
    let mut sink = bed.input(&format!("srt://{}?mode=listener", bed.at(9_000)));
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    bed.encoder.kill();
    drop(source);
    // The packets in flight arrive.
    bed.run(&mut [], &mut [&mut sink], seconds(1));
    sink.numbers.clear();
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run_until_fresh(&mut source, &mut sink, seconds(10));
    // It is refused until its predecessor has been silent for long enough.
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(1));
    let first = sink.numbers[0];
    sink.assert_whole(first, first + 60);
}

#[test]
fn a_line_that_vanishes_for_a_moment_costs_that_moment() {
    let bed = Bed::behind_translators(8, 1);
    let mut sink = bed.input(&format!(
        "srt://{}?mode=listener&latency=300",
        bed.at(9_000)
    ));
    let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    bed.lines[0].unplug();
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
    bed.lines[0].plug();
    let back = source.count;
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(3));
    sink.assert_whole(0, 199);
    sink.assert_whole(back, source.count - 50);
    assert_eq!(source.output.receivers().count(), 1, "one connection");
}

/// Each process gets the processor up to 100 ms late, each time.
#[test]
fn slow_machines_lose_nothing_within_the_latency() {
    for seed in 0..10 {
        let bed = Bed::behind_translators(seed, 1);
        bed.encoder.set_lateness(millis(100), 1.0);
        bed.studio.set_lateness(millis(100), 1.0);
        let mut sink = bed.input(&format!(
            "srt://{}?mode=listener&latency=800",
            bed.at(9_000)
        ));
        let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
        bed.run(&mut [&mut source], &mut [&mut sink], seconds(10));
        sink.assert_whole(0, 850);
    }
}

/// The forms in which devices and guides write a stream ID lead to the same input.
#[test]
fn stream_ids_of_devices_reach_their_input() {
    let bed = Bed::behind_translators(9, 1);
    for (id, is_its) in [
        ("front", true),
        ("#!::r=front,m=publish", true),
        ("%23!::r=front,m=publish", true),
        ("live/front", true),
        ("publish:front", true),
        ("Front", false),
    ] {
        let mut sink = bed.input(&format!(
            "srt://{}?mode=listener&streamid=front",
            bed.at(9_000)
        ));
        let mut source = bed.output(&format!("srt://{}?streamid={id}", bed.at(9_000)));
        bed.run(&mut [&mut source], &mut [&mut sink], seconds(1));
        assert_eq!(!sink.numbers.is_empty(), is_its, "{id}");
    }
}

/// Drops the messages that announce the next key, until a time.
struct KeyThief {
    until: Instant,
}

impl Bystander for KeyThief {
    fn see(&mut self, now: Instant, packet: &Packet, hands: &mut Hands) {
        // A user-defined control packet with a request of key material (draft-sharabayko-srt-01,
        // §3.2.2).
        if now < self.until && packet.bytes.starts_with(&[0xff, 0xff, 0, 3]) {
            hands.discard();
        }
    }
}

#[test]
fn a_key_whose_announcement_is_lost_is_not_used_before_it_arrives() {
    let bed = Bed::behind_translators(10, 1);
    let until = bed.world.now() + Duration::from_secs(13);
    let secret = "passphrase=correct horse";
    let listen = format!("srt://{}?mode=listener&{secret}&latency=300", bed.at(9_000));
    let mut sink = bed.input(&listen);
    let key = "kmrefreshrate=600&kmpreannounce=200";
    let mut source = bed.output(&format!("srt://{}?{secret}&{key}", bed.at(9_000)));
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(1));
    bed.world.set_bystander(KeyThief { until });
    bed.run(&mut [&mut source], &mut [&mut sink], seconds(20));
    sink.assert_whole(0, 2_000);
    assert_eq!(source.output.receivers().count(), 1, "one connection");
}

/// A link accepts answers only from the address that it has sent to.
#[test]
fn a_listener_at_every_address_answers_from_the_one_that_was_asked() {
    let bed = Bed::behind_translators(11, 1);
    let second = bed.studio.attach("eth1", &line(100, 1));
    let mut sinks = ["a", "b"].map(|id| bed.input(&format!("srt://:9000?streamid={id}")));
    let places = [bed.at(9_000), second.at(9_000)];
    let [mut a, mut b] = [(places[0], "a"), (places[1], "b")]
        .map(|(place, id)| bed.output(&format!("srt://{place}?streamid={id}")));
    let [first, other] = &mut sinks;
    bed.run(&mut [&mut a, &mut b], &mut [first, other], seconds(2));
    for sink in &sinks {
        sink.assert_whole(0, 150);
    }
}

#[test]
fn worlds_of_srt_replay() {
    let [first, again, other] = [7, 7, 8].map(|seed| {
        let line = Line {
            nat: Some(Nat::default()),
            ..line(2, 30).with_loss(0.05)
        };
        let bed = Bed::new(seed, &[line]);
        let mut sink = bed.input(&format!("srt://{}?mode=listener", bed.at(9_000)));
        let mut source = bed.output(&format!("srt://{}", bed.at(9_000)));
        bed.run(&mut [&mut source], &mut [&mut sink], seconds(3));
        (bed.world.trace_hash(), sink.numbers)
    });
    assert_eq!(first, again);
    assert_ne!(first.0, other.0);
}

/// Another machine's program may listen at the same port.
#[test]
fn machines_do_not_share_ports() {
    let bed = Bed::behind_translators(12, 1);
    let address = super::address("srt://:9000");
    let _inputs = [&bed.studio, &bed.encoder]
        .map(|machine| SrtInput::open(&address, &on(machine)).expect("its own port"));
    let at_studio = SrtOutput::open(&address, &on(&bed.studio));
    assert!(at_studio.is_err(), "the studio's port has that stream");
}
