//! First messages: those that wait for their turn, and those that an attacker has recorded.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anabranch_net::testing::{Bystander, Hands, Packet, Stranger};
use anabranch_net::{
    Ended, Event, Events, Receiver, Receptions, Refused, RefusedSender, Sender, SessionKind,
    SessionParameters,
};
use anabranch_secure::{Initiator, Kind, Refusal};
use anabranch_units::{Duration, Instant};

use super::bed::{Bed, drain, line, millis};

/// Returns the reason of the end, if the session has ended.
fn ended(events: &Events) -> Option<Ended> {
    drain(events).into_iter().find_map(|event| match event {
        Event::Ended(ended) => Some(ended),
        _ => None,
    })
}

fn is_connected(events: &Events) -> bool {
    drain(events)
        .iter()
        .any(|event| matches!(event, Event::Connected { .. }))
}

/// A bystander that records the datagrams for the studio.
struct Tap {
    studio: SocketAddr,
    recorded: Arc<Mutex<Vec<Packet>>>,
}

impl Bystander for Tap {
    fn see(&mut self, _: Instant, packet: &Packet, _: &mut Hands) {
        if packet.to == self.studio {
            self.recorded.lock().expect("no panic").push(packet.clone());
        }
    }
}

#[test]
fn an_allowed_key_waits_for_anothers_session_to_end() {
    let bed = Bed::new(1, &[line(10, 10)]);
    let other = bed.world.machine("other");
    other.attach("line0", &line(10, 10));
    let publics = ["camera", "other"].map(|name| bed.world.key(name).public_key());
    let server = bed
        .server()
        .allow(publics[1])
        .configure(|config| config.takeover_after = Duration::from_secs(5));
    let (receiver, sessions) = server.start().expect("the address is free");
    let (first, _first_events) = bed.world.block_on(bed.connect());
    bed.send_for(&first, millis(100));
    let reception = sessions.try_recv().expect("a session");
    assert_eq!(reception.peer(), publics[0]);
    let second = Sender::builder()
        .key(bed.world.key("other"))
        .peer(bed.world.key("studio").public_key())
        .network(other.network())
        .to(bed.address());
    let (second, second_events) = second.start().expect("the set-up works");
    bed.send_for(&first, millis(2_000));
    assert_eq!(receiver.snapshot().peer, Some(publics[0]));
    assert_eq!(receiver.snapshot().session.frames_received, 105);
    assert!(receiver.snapshot().edge.refused_handshakes >= 3);
    let (peer, reason) = (publics[1], Refusal::NoPlace);
    let refused_senders = receiver.take_refused_senders();
    assert_eq!(refused_senders, [RefusedSender::Refused { peer, reason }]);
    let refused = Event::Refused(Refused::ByReceiver(reason));
    assert_eq!(drain(&second_events), [refused], "and once");
    drop(first);
    assert_eq!(ended(reception.events()), Some(Ended::ClosedByPeer));
    bed.world.run_for(millis(3_000));
    assert!(is_connected(&second_events), "its turn has come");
    bed.send_for(&second, millis(100));
    assert_eq!(sessions.try_recv().expect("a session").peer(), publics[1]);
}

/// Sends the recorded packets again.
fn replay(bed: &Bed, recorded: &Mutex<Vec<Packet>>) {
    for packet in recorded.lock().expect("no panic").iter() {
        bed.world.inject(packet.clone());
    }
}

/// Checks that no session begins in half a second.
fn assert_idle(bed: &Bed, receiver: &Receiver, sessions: &Receptions) {
    bed.world.run_for(millis(500));
    assert_eq!(receiver.snapshots().len(), 0);
    assert!(sessions.try_recv().is_err());
}

#[test]
fn recorded_initiations_disturb_no_session_and_take_no_place() {
    let bed = Bed::new(2, &[line(10, 10)]);
    let recorded = Arc::<Mutex<Vec<Packet>>>::default();
    bed.world.set_bystander(Tap {
        studio: bed.address(),
        recorded: Arc::clone(&recorded),
    });
    let mut before = bed.receiver();
    for restarts in 0..2 {
        let (receiver, sessions) = before;
        // During a session, …
        let (sender, _events) = bed.world.block_on(bed.connect());
        replay(&bed, &recorded);
        bed.send_for(&sender, millis(500));
        replay(&bed, &recorded);
        bed.send_for(&sender, millis(500));
        assert_eq!(receiver.snapshots().len(), 1);
        assert_eq!(sender.finish(), Ended::Closed);
        let first = sessions.try_recv().expect("a session");
        assert_eq!(ended(first.events()), Some(Ended::ClosedByPeer));
        assert_eq!(
            receiver.snapshot().session.frames_received,
            50,
            "{restarts}"
        );
        // … after it, …
        replay(&bed, &recorded);
        assert_idle(&bed, &receiver, &sessions);
        drop((first, receiver, sessions));
        // … and at a receiver that was started again, from its first datagram on.
        before = bed.receiver();
        replay(&bed, &recorded);
        assert_idle(&bed, &before.0, &before.1);
    }
}

/// Replays of initiations, meanwhile.
struct Flood<'a, M> {
    bed: &'a Bed,
    stranger: Stranger,
    messages: M,
    last_frame: u64,
}

impl<'a, M: Iterator<Item = &'a Vec<u8>>> Flood<'a, M> {
    /// Lets this number of milliseconds pass.
    fn run_for(&mut self, span: u64) {
        for _ in 0..span / 10 {
            for message in self.messages.by_ref().take(8) {
                self.stranger.send(self.bed.address(), message);
            }
            self.bed.world.run_for(millis(10));
        }
    }

    /// Sends 50 frames in a second.
    fn stream(&mut self, sender: &Sender) {
        for _ in 0..50 {
            let importance =
                anabranch_units::Importance::key_if(self.last_frame.is_multiple_of(25));
            let frame = super::bed::frame_bytes(self.last_frame);
            sender.send(frame, importance).expect("taken");
            self.last_frame += 1;
            self.run_for(20);
        }
        self.run_for(200);
    }
}

/// Replays different initiations of the peer, as many as it makes in months, at four times the rate
/// at which a receiver without sessions does handshakes.
#[test]
fn replays_at_rate_delay_no_handshake_and_no_frame() {
    let bed = Bed::new(3, &[line(10, 10)]);
    let (receiver, sessions) = bed.receiver();
    let (camera, studio) = (
        bed.world.key("camera"),
        bed.world.key("studio").public_key(),
    );
    let parameters = SessionParameters::of(SessionKind::Frames).to_block();
    let recorded: Vec<Vec<u8>> = (0..500)
        .map(|index| {
            let initiator = Initiator::new(&camera, &studio, index, parameters);
            initiator.message().to_vec()
        })
        .collect();
    let mut flood = Flood {
        bed: &bed,
        stranger: bed.world.stranger(1),
        messages: recorded.iter().cycle(),
        last_frame: 0,
    };
    flood.run_for(1_000);
    assert_eq!(receiver.snapshots().len(), 0);
    let (first, first_events) = bed.client().start().expect("the set-up works");
    flood.run_for(500);
    assert!(is_connected(&first_events), "within half a second");
    flood.stream(&first);
    let reception = sessions.try_recv().expect("a session");
    assert_eq!(receiver.snapshots().len(), 1);
    assert_eq!(receiver.snapshot().session.frames_received, 50);
    // The same key's next program takes over during the replays, and only once.
    let (second, second_events) = bed.client().start().expect("the set-up works");
    flood.run_for(500);
    assert!(is_connected(&second_events));
    flood.stream(&second);
    assert_eq!(ended(reception.events()), Some(Ended::Replaced));
    assert_eq!(receiver.snapshots().len(), 1);
    assert_eq!(receiver.snapshot().session.frames_received, 50);
    // 800 a second for 4.4 s.
    assert!(receiver.snapshot().edge.refused_handshakes > 1_700);
}

#[test]
fn a_source_that_floods_uses_up_nobody_elses_resets() {
    let bed = Bed::new(4, &[]);
    let (_receiver, _sessions) = bed.receiver();
    let unknown = [&[Kind::Data as u8][..], &[0; 59]].concat();
    let flooding = bed.world.stranger(1);
    let other = bed.camera.attach("line0", &line(10, 10));
    let other = SocketAddr::new(other.address(), 5_000);
    let answers = Arc::<Mutex<usize>>::default();
    bed.world.set_bystander(Answers {
        to: other,
        count: Arc::clone(&answers),
    });
    for turn in 0..2_000 {
        flooding.send(bed.address(), &unknown);
        bed.world.run_for(millis(1));
        if turn % 100 == 99 {
            bed.world.inject(Packet {
                from: other,
                to: bed.address(),
                ecn: anabranch_units::Ecn::NotEct,
                bytes: unknown.clone(),
            });
        }
    }
    bed.world.run_for(millis(500));
    // Both may share a slot for a second of two.
    let count = *answers.lock().expect("no panic");
    assert!(count >= 8, "{count} of 20");
    assert!(flooding.take().len() <= 200, "one in 10 ms");
}

/// A bystander that counts the datagrams to an address.
struct Answers {
    to: SocketAddr,
    count: Arc<Mutex<usize>>,
}

impl Bystander for Answers {
    fn see(&mut self, _: Instant, packet: &Packet, _: &mut Hands) {
        let is_its = packet.to == self.to;
        *self.count.lock().expect("no panic") += usize::from(is_its);
    }
}
