//! Senders that register by a code, and attackers that have none. Over loopback, in real time.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_core::PathOptions;
use anabranch_net::{
    ClientConfig, ClientPath, Ended, Event, Events, PairingOutcome, Receiver, Receptions, Sender,
    ServerConfig, Via,
};
use anabranch_net::{SessionKind, SessionParameters};
use anabranch_secure::{Initiator, PairingCode, PublicKey, SecretKey};
use anabranch_units::Duration;

const PATIENCE: StdDuration = StdDuration::from_secs(20);
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A receiver that knows nobody and waits for a code.
struct Studio {
    receiver: Receiver,
    receptions: Receptions,
    key: PublicKey,
    code: PairingCode,
}

fn studio(lasts: Duration) -> Studio {
    let secret = SecretKey::generate();
    let key = secret.public_key();
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let mut config = ServerConfig::new(listen, secret, Vec::new());
    config.max_sessions = 10;
    let (receiver, receptions) = Receiver::start(config).expect("loopback");
    let code = PairingCode::generate();
    receiver.start_pairing(code.clone(), lasts);
    Studio {
        receiver,
        receptions,
        key,
        code,
    }
}

impl Studio {
    fn sender(&self, local: &SecretKey, code: Option<PairingCode>) -> (Sender, Events) {
        let path = ClientPath {
            via: Via::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            remote: self.receiver.local_addr().into(),
            options: PathOptions::default(),
        };
        let local = SecretKey::from_text(&local.to_text()).unwrap();
        let mut config = ClientConfig::new(local, self.key, vec![path]);
        config.pairing_code = code;
        config.connect_timeout = Duration::from_secs(4);
        Sender::start(config).expect("loopback")
    }

    /// Whether a sender of this key and code gets a session.
    fn lets_in(&self, local: &SecretKey, code: Option<&PairingCode>) -> bool {
        let (_sender, events) = self.sender(local, code.cloned());
        loop {
            match events.recv_timeout(PATIENCE).expect("an event in time") {
                Event::Connected { .. } => return true,
                Event::Ended(Ended::NoAnswer { .. }) => return false,
                Event::Ended(ended) => panic!("{ended}"),
                _ => {}
            }
        }
    }

    /// Sends initiations, each from the address of a socket of its own, and returns the bytes of
    /// the answers.
    fn ask(&self, messages: &[Vec<u8>]) -> usize {
        let mut answered = 0;
        for message in messages {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let wait = StdDuration::from_millis(20);
            socket.set_read_timeout(Some(wait)).unwrap();
            socket.send_to(message, self.address()).unwrap();
            while let Ok(bytes) = socket.recv(&mut [0; 2_000]) {
                answered += bytes;
            }
        }
        answered
    }

    /// Returns the outcomes of pairing, as soon as there are any.
    fn outcomes(&self) -> Vec<PairingOutcome> {
        for _ in 0..PATIENCE.as_millis() / 10 {
            let outcomes = self.receiver.take_pairing_outcomes();
            if !outcomes.is_empty() {
                return outcomes;
            }
            thread::park_timeout(StdDuration::from_millis(10));
        }
        panic!("no outcome in time");
    }

    fn address(&self) -> SocketAddr {
        self.receiver.local_addr()
    }

    fn initiation(&self, local: &SecretKey, code: &PairingCode) -> Vec<u8> {
        let parameters = SessionParameters::of(SessionKind::Frames).to_block();
        let initiator = Initiator::pairing(local, &self.key, 7, parameters, code);
        initiator.message().to_vec()
    }
}

#[test]
fn a_recorded_initiation_registers_nobody_but_its_maker() {
    let studio = studio(TEN_MINUTES);
    let (camera, thief) = (SecretKey::generate(), SecretKey::generate());
    let recorded = studio.initiation(&camera, &studio.code);
    let sent = [recorded.clone(), recorded.clone(), recorded];
    let answered = studio.ask(&sent);
    assert!(answered < sent.concat().len(), "amplifies nothing");
    let paired = PairingOutcome::Paired(camera.public_key());
    assert_eq!(studio.outcomes(), [paired]);
    studio.receiver.set_allowed(&[camera.public_key()]);
    // The thief has seen the datagrams, and no session has begun by them.
    assert!(studio.receptions.try_recv().is_err());
    assert!(!studio.lets_in(&thief, Some(&studio.code)));
    assert!(studio.lets_in(&camera, None));
}

#[test]
fn a_flood_of_guesses_gets_no_answer_and_makes_the_code_void() {
    let studio = studio(TEN_MINUTES);
    let stranger = SecretKey::generate();
    let guess = |_| studio.initiation(&stranger, &PairingCode::generate());
    let guesses: Vec<Vec<u8>> = (0..80).map(guess).collect();
    let answered = studio.ask(&guesses);
    // Without a cookie some are answered by one, which is shorter.
    assert!(answered < guesses.concat().len() / 2, "{answered}");
    let outcomes = studio.outcomes();
    assert_eq!(outcomes, [PairingOutcome::TooManyGuesses]);
    let camera = SecretKey::generate();
    assert!(!studio.lets_in(&camera, Some(&studio.code)));
    assert_eq!(studio.receiver.snapshots().len(), 0);
    // The owner makes another code.
    let code = PairingCode::generate();
    studio.receiver.start_pairing(code.clone(), TEN_MINUTES);
    assert!(studio.lets_in(&camera, Some(&code)));
}
