//! Sessions by a relay: camera and studio are both behind NATs that let in answers alone.

use std::net::SocketAddr;

use anabranch_net::testing::{Interface, Machine, Nat, World};
use anabranch_net::{
    Ended, PairingOutcome, Receiver, Receptions, Relay, RelayAccess, RelayConfig, RelayState,
    Sender,
};
use anabranch_secure::{Initiator, PairingCode};
use anabranch_units::{DataRate, Importance};

use super::bed::{FRAME_INTERVAL, frame_bytes, line, millis, receive};

/// A camera with two lines, a studio and a relay.
struct Bed {
    world: World,
    camera: Machine,
    studio: Machine,
    relay: Machine,
    lines: [Interface; 2],
    studio_line: Interface,
    relay_line: Interface,
}

impl Bed {
    fn new(seed: u64) -> Bed {
        let world = World::new(seed);
        let [camera, studio, relay] = ["camera", "studio", "relay"].map(|name| world.machine(name));
        let lines =
            [(2, 20), (2, 35)].map(|(rate, delay)| line(rate, delay).behind(Nat::default()));
        let lines = [0, 1].map(|at| camera.attach(&format!("line{at}"), &lines[at]));
        let studio_line = studio.attach("eth0", &line(50, 5).behind(Nat::default()));
        let relay_line = relay.attach("eth0", &line(1_000, 1));
        Bed {
            world,
            camera,
            studio,
            relay,
            lines,
            studio_line,
            relay_line,
        }
    }

    fn at(&self) -> SocketAddr {
        self.relay_line.at(7_000)
    }

    fn config(&self) -> RelayConfig {
        let studio = self.world.key("studio").public_key();
        RelayConfig {
            network: self.relay.network(),
            ..RelayConfig::new(self.at(), self.world.key("relay"), vec![studio])
        }
    }

    fn start_relay(&self) -> Relay {
        Relay::start(self.config()).expect("the address is free")
    }

    fn receiver(&self, code: Option<PairingCode>) -> (Receiver, Receptions) {
        let access = RelayAccess {
            address: self.at(),
            key: self.world.key("relay").public_key(),
            code,
        };
        let server = Receiver::builder()
            .key(self.world.key("studio"))
            .allow(self.world.key("camera").public_key())
            .network(self.studio.network())
            .listen((self.studio_line.address(), 7_000))
            .configure(|config| config.relay = Some(access));
        server.start().expect("the address is free")
    }

    async fn connect(&self) -> Sender {
        let sender = Sender::builder()
            .key(self.world.key("camera"))
            .peer(self.world.key("studio").public_key())
            .network(self.camera.network())
            .to(self.at())
            .via("line0")
            .via("line1");
        sender.connect_async().await.expect("the studio answers").0
    }

    async fn stream(&self, sender: &Sender, first: u64, count: u64) {
        for number in first..first + count {
            let importance = Importance::key_if(number.is_multiple_of(25));
            let _ = sender.send(frame_bytes(number), importance);
            self.world.sleep(FRAME_INTERVAL).await;
        }
    }

    /// Streams frames, and does something in the middle. Returns the numbers of received frames.
    fn carry(&self, sessions: &Receptions, count: u64, middle: impl FnOnce()) -> (Vec<u64>, usize) {
        let sending = async {
            let sender = self.connect().await;
            self.stream(&sender, 0, count / 2).await;
            middle();
            self.stream(&sender, count / 2, count - count / 2).await;
            let paths = sender.snapshot().paths;
            assert_eq!(sender.finish_async().await, Ended::Closed);
            paths
                .iter()
                .filter(|path| path.counters.acked_packets > 100)
                .count()
        };
        let receiving = async {
            let mut all = Vec::new();
            loop {
                let session = sessions.recv_async().await.expect("the camera comes");
                let (numbers, ended) = receive(&session).await;
                all.extend(numbers);
                if ended == Ended::ClosedByPeer {
                    return all;
                }
            }
        };
        let (used, numbers) = self
            .world
            .block_on(async { tokio::join!(sending, receiving) });
        (numbers, used)
    }
}

#[test]
fn both_ends_behind_nats_have_a_session_over_two_paths() {
    for seed in 1..=5 {
        let bed = Bed::new(seed);
        let relay = bed.start_relay();
        let (receiver, sessions) = bed.receiver(None);
        assert_eq!(receiver.relay_state(), Some(RelayState::Waiting));
        bed.world.run_for(millis(500));
        assert_eq!(receiver.relay_state(), Some(RelayState::Registered));
        let (numbers, used) = bed.carry(&sessions, 500, || ());
        assert_eq!(numbers.len(), 500, "seed {seed}");
        assert_eq!(used, 2, "seed {seed}: both paths carry");
        let seen = relay.snapshot();
        assert_eq!((seen.receivers.len(), seen.flow_count), (1, 2));
        assert!(seen.receivers[0].carried_bytes > 2_000_000);
        // The paths of the sender are forgotten after a while, the receiver is not.
        bed.world.run_for(millis(125_000));
        let seen = relay.snapshot();
        assert_eq!((seen.receivers.len(), seen.flow_count), (1, 0));
        drop(receiver);
        bed.world.run_for(millis(1_000));
        assert!(relay.snapshot().receivers.is_empty());
    }
}

#[test]
fn a_session_outlives_a_restart_of_the_relay() {
    for seed in 1..=5 {
        let bed = Bed::new(seed);
        let relay = core::cell::RefCell::new(Some(bed.start_relay()));
        let (_receiver, sessions) = bed.receiver(None);
        bed.world.run_for(millis(500));
        let (numbers, _) = bed.carry(&sessions, 1_000, || {
            bed.relay.kill();
            relay.replace(None);
            relay.replace(Some(bed.start_relay()));
        });
        // The camera asks again after a second, and the studio at the first reset.
        assert!(numbers.len() > 850, "seed {seed}: {}", numbers.len());
        let last = numbers.last().copied();
        assert_eq!(last, Some(999), "seed {seed}");
    }
}

#[test]
fn a_session_outlives_other_addresses_of_both_ends() {
    for seed in 1..=5 {
        let bed = Bed::new(seed);
        let _relay = bed.start_relay();
        let (_receiver, sessions) = bed.receiver(None);
        bed.world.run_for(millis(500));
        let (numbers, _) = bed.carry(&sessions, 1_000, || {
            bed.studio_line.rebind();
            bed.lines[0].rebind();
        });
        assert!(numbers.len() > 930, "seed {seed}: {}", numbers.len());
        assert_eq!(numbers.last(), Some(&999), "seed {seed}");
    }
}

#[test]
fn a_sender_goes_on_with_a_receiver_that_was_restarted() {
    let bed = Bed::new(1);
    let _relay = bed.start_relay();
    let (receiver, sessions) = bed.receiver(None);
    bed.world.run_for(millis(500));
    let sending = async {
        let sender = bed.connect().await;
        bed.stream(&sender, 0, 100).await;
        bed.studio.kill();
        drop((receiver, sessions));
        let (receiver, sessions) = bed.receiver(None);
        bed.stream(&sender, 100, 400).await;
        let session = sessions.try_recv().expect("the camera comes again");
        drop(sender);
        (receive(&session).await.0, receiver)
    };
    let (numbers, _receiver) = bed.world.block_on(sending);
    assert!(numbers.len() > 250, "{}", numbers.len());
}

#[test]
fn a_code_registers_a_receiver_and_strangers_get_nothing() {
    let bed = Bed::new(1);
    let config = RelayConfig {
        allowed: Vec::new(),
        ..bed.config()
    };
    let relay = Relay::start(config).expect("the address is free");
    let (receiver, _sessions) = bed.receiver(None);
    bed.world.run_for(millis(3_000));
    assert_eq!(receiver.relay_state(), Some(RelayState::Waiting));
    drop(receiver);
    let code = PairingCode::generate();
    relay.start_pairing(code.clone(), millis(600_000));
    let (receiver, _sessions) = bed.receiver(Some(code.clone()));
    bed.world.run_for(millis(3_000));
    assert_eq!(receiver.relay_state(), Some(RelayState::Registered));
    let peer = bed.world.key("studio").public_key();
    let outcomes = relay.take_pairing_outcomes();
    assert_eq!(outcomes, [PairingOutcome::Paired { peer, code }]);
    relay.set_allowed(&[]);
    // It pings every ten seconds.
    bed.world.run_for(millis(12_000));
    assert_eq!(receiver.relay_state(), Some(RelayState::Waiting));
    assert!(relay.snapshot().receivers.is_empty());
}

/// Strangers try to misuse a relay: by initiations without and with a cookie, floods
/// of data, copies. Nobody gets more bytes than he has sent, and the tables stay small.
#[test]
fn a_relay_is_no_amplifier_and_carries_nothing_for_strangers() {
    let bed = Bed::new(1);
    let relay = bed.start_relay();
    let (_receiver, _sessions) = bed.receiver(None);
    bed.world.run_for(millis(500));
    let parameters = anabranch_net::SessionParameters::of(anabranch_net::SessionKind::Frames);
    for (number, name) in ["studio", "relay", "nobody"].iter().enumerate() {
        let peer = bed.world.key(name).public_key();
        for port in 0..200_u16 {
            let block = parameters.to_block();
            let initiator = Initiator::new(&bed.world.key("thief"), &peer, 7, block);
            let stranger = bed.world.stranger(10_000 + number as u16 * 1_000 + port);
            let mut sent = initiator.message().len();
            stranger.send(bed.at(), initiator.message());
            bed.world.run_for(millis(100));
            let mut received: usize = 0;
            for answer in stranger.take() {
                received += answer.len();
                assert_ne!(*name, "nobody", "an initiation for nobody has no answer");
                // With a cookie it is carried to the studio, which does not know the thief.
                if let Ok(cookie) = initiator.handle_cookie_reply(&answer) {
                    let message = initiator.message_with(&cookie);
                    sent += message.len();
                    stranger.send(bed.at(), &message);
                }
            }
            bed.world.run_for(millis(100));
            received += stranger.take().iter().map(Vec::len).sum::<usize>();
            assert!(received <= sent, "{name}: {received} for {sent}");
            // Data of sessions that do not exist.
            let data = [&[3, 0, 1, 2, 3, 4][..], &[9; 60]].concat();
            stranger.send(bed.at(), &data);
            bed.world.run_for(millis(20));
            let answered: usize = stranger.take().iter().map(Vec::len).sum();
            assert!(answered < data.len(), "{answered}");
        }
    }
    let seen = relay.snapshot();
    assert_eq!(seen.receivers.len(), 1, "{seen:?}");
    assert!(
        seen.flow_count <= 60 && seen.unconfirmed_count == 0,
        "{seen:?}"
    );
    bed.world.run_for(millis(20_000));
    assert_eq!(relay.snapshot().flow_count, 0);
}

#[test]
fn a_receiver_has_its_rate_and_no_more() {
    let bed = Bed::new(1);
    let config = RelayConfig {
        rate: DataRate::from_megabits_per_second(1),
        ..bed.config()
    };
    let relay = Relay::start(config).expect("the address is free");
    let (_receiver, _sessions) = bed.receiver(None);
    bed.world.run_for(millis(500));
    let sending = async {
        let sender = bed.connect().await;
        bed.stream(&sender, 0, 500).await;
    };
    bed.world.block_on(sending);
    let seen = relay.snapshot();
    // Ten seconds, and half a second at once.
    let carried = seen.receivers[0].carried_bytes;
    assert!((800_000..=1_400_000).contains(&carried), "{carried}");
    assert!(seen.receivers[0].dropped_count > 0);
}
