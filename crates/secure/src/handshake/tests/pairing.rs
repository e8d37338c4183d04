//! Initiators that the responder lets in for a code.

use super::*;
use crate::pairing::PairingCode;

/// A responder that waits for a code, and an initiator that it does not know.
fn pairing() -> (Ends, PairingCode, SecretKey) {
    let mut ends = ends();
    let code = PairingCode::generate();
    ends.responder.add_code(code.clone());
    (ends, code, SecretKey::generate())
}

fn with_code(ends: &Ends, stranger: &SecretKey, code: &PairingCode) -> Initiator {
    let parameters = ParameterBlock::default();
    Initiator::pairing(
        stranger,
        &ends.responder_key,
        INITIATOR_INDEX,
        parameters,
        code,
    )
}

#[test]
fn a_code_lets_in_the_holder_of_the_key_that_came_with_it() {
    let (mut ends, code, stranger) = pairing();
    let mut initiator = with_code(&ends, &stranger, &code);
    assert_eq!(initiator.message().len(), PAIRING_INITIATION_BYTES);
    let request = ends.responder.read_initiation(initiator.message()).unwrap();
    assert_eq!(request.code(), Some(&code));
    assert_eq!(request.peer(), stranger.public_key());
    ends.responder.remove_code(&code);
    ends.responder.allow(request.peer());
    let parameters = ParameterBlock::default();
    let answer = ends
        .responder
        .accept(request, RESPONDER_INDEX, false, parameters);
    assert!(
        answer.response.len() < initiator.message().len(),
        "amplifies nothing"
    );
    let mut theirs = answer.agreed.session;
    let mut ours = agreed(initiator.handle_response(&answer.response));
    assert_carries(&mut ours, &mut theirs);
    // The code is over; the peer is let in with it and without.
    let second_initiator = with_code(&ends, &stranger, &code);
    let request = ends
        .responder
        .read_initiation(second_initiator.message())
        .unwrap();
    assert_eq!(request.code(), None);
    let other = with_code(&ends, &SecretKey::generate(), &code);
    let refused = ends.refusal(other.message());
    assert!(matches!(refused, HandshakeError::WrongCode(_)), "{refused}");
}

#[test]
fn a_wrong_code_lets_nobody_in_and_a_known_peer_needs_none() {
    let (ends, code, stranger) = pairing();
    let key = stranger.public_key();
    let guess = with_code(&ends, &stranger, &PairingCode::generate());
    assert_eq!(
        ends.refusal(guess.message()),
        HandshakeError::WrongCode(key)
    );
    let parameters = ParameterBlock::default();
    let without = Initiator::new(&stranger, &ends.responder_key, 1, parameters);
    assert_eq!(
        ends.refusal(without.message()),
        HandshakeError::NotAllowed(key)
    );
    let known = with_code(&ends, &ends.initiator, &PairingCode::generate());
    let request = ends.responder.read_initiation(known.message()).unwrap();
    assert_eq!(request.code(), None, "the code is still to be used");
    // Nobody else can take the code from an initiation, or put it into another one.
    let mut initiation = with_code(&ends, &stranger, &code).message().to_vec();
    let text = code.to_text();
    assert!(
        !initiation
            .windows(4)
            .any(|bytes| bytes == &text.as_bytes()[..4])
    );
    assert!(
        !initiation
            .windows(4)
            .any(|bytes| bytes == &code.bytes()[..4])
    );
    initiation[40] ^= 1;
    mark(&mut initiation, &ends.responder_key);
    assert_eq!(ends.refusal(&initiation), HandshakeError::Forged);
}

#[test]
fn a_cookie_proves_an_address_with_a_code_too() {
    let (mut ends, code, stranger) = pairing();
    let source: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    let initiator = with_code(&ends, &stranger, &code);
    let reply = ends
        .responder
        .cookie_reply(source, initiator.message())
        .unwrap();
    assert!(reply.len() < initiator.message().len(), "amplifies nothing");
    let proven = initiator.message_with(&initiator.handle_cookie_reply(&reply).unwrap());
    assert!(ends.responder.proves_address(source, &proven));
    let request = ends.responder.read_initiation(&proven).unwrap();
    assert_eq!(request.code(), Some(&code));
    assert_eq!(
        Responder::mark(&proven),
        Responder::mark(initiator.message())
    );
}
