//! Senders that a code lets in.

use std::time::Duration;

use anabranch_net::{
    ConnectError, Ended, PairingOutcome, Receiver, Receptions, RefusedSender, Sender, SessionKind,
    SessionParameters,
};
use anabranch_secure::{Initiator, PairingCode};

use super::bed::{Bed, line, millis};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// Returns whether the sender of this name gets a session, with a code or without.
fn lets_in(bed: &Bed, name: &str, code: Option<&PairingCode>) -> bool {
    let mut client = Sender::builder()
        .key(bed.world.key(name))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .to(bed.address())
        .connect_timeout(Duration::from_secs(4));
    if let Some(code) = code {
        client = client.pairing_code(code.clone());
    }
    match bed.world.block_on(client.connect_async()) {
        Ok((sender, _events)) => {
            drop(sender);
            true
        }
        Err(ConnectError::Ended(Ended::NoAnswer { .. })) => false,
        Err(error) => panic!("{error}"),
    }
}

fn studio(bed: &Bed, lasts: Duration) -> (Receiver, PairingCode) {
    let (receiver, _sessions, code) = studio_with_sessions(bed, lasts);
    (receiver, code)
}

fn studio_with_sessions(bed: &Bed, lasts: Duration) -> (Receiver, Receptions, PairingCode) {
    let server = Receiver::builder()
        .key(bed.world.key("studio"))
        .max_sessions(10)
        .network(bed.studio.network())
        .listen(bed.address());
    let (receiver, sessions) = server.start().expect("the address is free");
    let code = PairingCode::generate();
    receiver.start_pairing(code.clone(), lasts);
    (receiver, sessions, code)
}

fn initiation(bed: &Bed, name: &str, code: &PairingCode) -> Vec<u8> {
    let parameters = SessionParameters::of(SessionKind::Frames).to_block();
    let (local, peer) = (bed.world.key(name), bed.world.key("studio").public_key());
    let initiator = Initiator::pairing(&local, &peer, 7, parameters, code);
    initiator.message().to_vec()
}

/// Sends initiations, each from an address of its own, 20 ms apart. Returns the bytes of the
/// answers.
fn ask(bed: &Bed, messages: &[Vec<u8>]) -> usize {
    let ports = 5_000..;
    let answers = ports.zip(messages).map(|(port, message)| {
        let stranger = bed.world.stranger(port);
        stranger.send(bed.address(), message);
        bed.world.run_for(millis(20));
        stranger.take().concat().len()
    });
    answers.sum()
}

#[test]
fn a_code_registers_one_sender_which_needs_none_from_then_on() {
    let bed = Bed::new(1, &[line(10, 10)]);
    let (receiver, code) = studio(&bed, TEN_MINUTES);
    let [camera, other] = ["camera", "other"].map(|name| bed.world.key(name).public_key());
    assert!(!lets_in(&bed, "camera", None), "nobody knows it");
    assert!(lets_in(&bed, "camera", Some(&code)));
    // Before the owner knows of it, another change of the list takes nothing away.
    receiver.set_allowed(&[]);
    assert!(lets_in(&bed, "camera", None));
    assert_eq!(
        receiver.take_pairing_outcomes(),
        [PairingOutcome::Paired {
            peer: camera,
            code: code.clone()
        }]
    );
    receiver.set_allowed(&[camera]);
    assert!(!lets_in(&bed, "other", Some(&code)), "its second use");
    let refused = receiver.take_refused_senders();
    assert!(
        refused.iter().any(|refused| match refused {
            RefusedSender::WrongCode { peer, .. } => *peer == other,
            _ => false,
        }),
        "{refused:?}"
    );
    assert!(lets_in(&bed, "camera", Some(&code)), "it is known");
    receiver.set_allowed(&[]);
    assert!(
        !lets_in(&bed, "camera", Some(&code)),
        "the owner's list decides"
    );
}

#[test]
fn a_code_expires_and_a_wrong_one_opens_nothing() {
    let bed = Bed::new(2, &[line(10, 10)]);
    let (receiver, code) = studio(&bed, millis(3_000));
    assert!(!lets_in(&bed, "camera", Some(&PairingCode::generate())));
    assert!(
        !lets_in(&bed, "camera", Some(&code)),
        "four seconds have passed"
    );
    assert_eq!(
        receiver.take_pairing_outcomes(),
        [PairingOutcome::Expired { code }]
    );
}

#[test]
fn a_recorded_initiation_registers_its_maker_alone() {
    let bed = Bed::new(3, &[line(10, 10)]);
    let (receiver, sessions, code) = studio_with_sessions(&bed, TEN_MINUTES);
    let recorded = initiation(&bed, "camera", &code);
    let sent = [recorded.clone(), recorded.clone(), recorded];
    let answered = ask(&bed, &sent);
    assert!(answered > 0 && answered < sent.concat().len(), "{answered}");
    let camera = bed.world.key("camera").public_key();
    assert_eq!(
        receiver.take_pairing_outcomes(),
        [PairingOutcome::Paired {
            peer: camera,
            code: code.clone()
        }]
    );
    receiver.set_allowed(&[camera]);
    assert!(sessions.try_recv().is_err(), "no session has begun by them");
    assert!(!lets_in(&bed, "thief", Some(&code)));
    assert!(lets_in(&bed, "camera", None));
}

#[test]
fn a_flood_of_guesses_gets_no_answer_and_does_not_void_the_code() {
    let bed = Bed::new(4, &[line(10, 10)]);
    let (receiver, code) = studio(&bed, TEN_MINUTES);
    let guesses: Vec<Vec<u8>> = (0..80)
        .map(|_| initiation(&bed, "stranger", &PairingCode::generate()))
        .collect();
    let answered = ask(&bed, &guesses);
    // Without a cookie some are answered by one, which is shorter.
    assert!(answered < guesses.concat().len() / 2, "{answered}");
    assert!(receiver.take_pairing_outcomes().is_empty());
    assert_eq!(receiver.snapshots().len(), 0);
    assert!(lets_in(&bed, "camera", Some(&code)));
}
