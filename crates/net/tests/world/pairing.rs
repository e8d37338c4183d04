//! Senders that a code lets in.

use std::time::Duration;

use anabranch_net::{ConnectError, Ended, PairingOutcome, Receiver, RefusedSender, Sender};
use anabranch_secure::PairingCode;

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
    let server = Receiver::builder()
        .key(bed.world.key("studio"))
        .max_sessions(10);
    let server = server.network(bed.studio.network()).listen(bed.address());
    let (receiver, _sessions) = server.start().expect("the address is free");
    let code = PairingCode::generate();
    receiver.start_pairing(code.clone(), lasts);
    (receiver, code)
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
        [PairingOutcome::Paired(camera)]
    );
    receiver.set_allowed(&[camera]);
    assert!(!lets_in(&bed, "other", Some(&code)), "its second use");
    let refused = receiver.take_refused_senders();
    let is_other = |refused: &RefusedSender| match refused {
        RefusedSender::WrongCode { peer, .. } => *peer == other,
        _ => false,
    };
    assert!(refused.iter().any(is_other), "{refused:?}");
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
    assert_eq!(receiver.take_pairing_outcomes(), [PairingOutcome::Expired]);
}
