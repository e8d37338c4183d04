//! Tests of the handshake, and of its sessions.

mod pairing;

use core::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::keys::PublicKey;
use crate::kind::Kind;
use crate::mac::{self, COOKIE_REPLY_BYTES};

const INITIATOR_INDEX: u32 = 0x1111_2222;
const RESPONDER_INDEX: u32 = 0x3333_4444;

/// A responder, its allowed peer, and its public key.
struct Ends {
    initiator: SecretKey,
    responder_secret: SecretKey,
    responder_key: PublicKey,
    responder: Responder,
}

fn ends() -> Ends {
    let (initiator, responder) = (SecretKey::generate(), SecretKey::generate());
    let responder_key = responder.public_key();
    let responder_secret = copy(&responder);
    let responder = Responder::new(responder, [initiator.public_key()]);
    Ends {
        initiator,
        responder_secret,
        responder_key,
        responder,
    }
}

impl Ends {
    fn initiate(&self) -> Initiator {
        Initiator::new(
            &self.initiator,
            &self.responder_key,
            INITIATOR_INDEX,
            ParameterBlock::default(),
        )
    }

    /// Returns the responder's answer to an initiation that it accepts.
    fn accept(&self, local_index: u32, initiation: &[u8]) -> Answer {
        let request = self.responder.read_initiation(initiation).unwrap();
        let parameters = *request.parameters();
        self.responder
            .accept(request, local_index, false, parameters)
    }

    /// Returns the reason for which the responder drops an initiation.
    fn refusal(&self, initiation: &[u8]) -> HandshakeError {
        let request = self.responder.read_initiation(initiation);
        request.unwrap_err()
    }
}

/// Returns the session of a response that accepts it.
fn agreed(reply: Result<Reply, HandshakeError>) -> Session {
    match reply.unwrap() {
        Reply::Agreed(agreed) => agreed.session,
        Reply::Refused(reason) => panic!("{reason:?}"),
    }
}

fn assert_carries(from: &mut Session, to: &mut Session) {
    let mut datagram = Vec::new();
    from.seal_append(3, b"a frame", &mut datagram).unwrap();
    assert_eq!(crate::receiver_index(&datagram), Some(to.local_index()));
    let opened = to.open(&mut datagram).unwrap();
    assert_eq!((opened.path_id, &*opened.plaintext), (3, &b"a frame"[..]));
}

#[test]
fn two_messages_make_a_session_both_ways() {
    let ends = ends();
    let mut initiator = ends.initiate();
    assert_eq!(initiator.local_index(), INITIATOR_INDEX);
    assert_eq!(crate::classify(initiator.message()), Some(Kind::Initiation));
    let answer = ends.accept(RESPONDER_INDEX, initiator.message());
    assert_eq!(crate::classify(&answer.response), Some(Kind::Response));
    assert_eq!(
        crate::receiver_index(&answer.response),
        Some(INITIATOR_INDEX)
    );
    let mut theirs = answer.agreed.session;
    let mut ours = agreed(initiator.handle_response(&answer.response));
    assert_eq!(
        (ours.local_index(), ours.remote_index()),
        (INITIATOR_INDEX, RESPONDER_INDEX)
    );
    assert_eq!(
        (theirs.local_index(), theirs.remote_index()),
        (RESPONDER_INDEX, INITIATOR_INDEX)
    );
    assert!(ours.is_confirmed() && !theirs.is_confirmed());
    assert_carries(&mut ours, &mut theirs);
    assert!(theirs.is_confirmed());
    assert_carries(&mut theirs, &mut ours);
}

#[test]
fn every_handshake_has_keys_of_its_own() {
    let ends = ends();
    let mut sealed = [Vec::new(), Vec::new()];
    for datagram in &mut sealed {
        let answer = ends.accept(RESPONDER_INDEX, ends.initiate().message());
        let mut session = answer.agreed.session;
        session.seal_append(0, b"same", datagram).unwrap();
    }
    assert_eq!(sealed[0][..10], sealed[1][..10]);
    assert_ne!(sealed[0][10..], sealed[1][10..]);
}

#[test]
fn an_initiation_for_another_key_is_refused() {
    let ends = ends();
    let elsewhere = SecretKey::generate().public_key();
    let initiator = Initiator::new(
        &ends.initiator,
        &elsewhere,
        INITIATOR_INDEX,
        ParameterBlock::default(),
    );
    assert_eq!(ends.refusal(initiator.message()), HandshakeError::WrongMac);
}

#[test]
fn a_response_by_another_key_is_refused() {
    let ends = ends();
    let mut initiator = ends.initiate();
    // An impostor with another key cannot even read the initiation. So it makes a handshake of its
    // own, and answers ours with the response of that.
    let impostor_key = SecretKey::generate();
    let bait = Initiator::new(
        &ends.initiator,
        &impostor_key.public_key(),
        INITIATOR_INDEX,
        ParameterBlock::default(),
    );
    let impostor = Responder::new(impostor_key, [ends.initiator.public_key()]);
    let request = impostor.read_initiation(bait.message()).unwrap();
    let answer = impostor.accept(request, RESPONDER_INDEX, false, ParameterBlock::default());
    let refused = initiator.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
}

#[test]
fn the_initiator_learns_whether_the_responder_had_a_session() {
    for had_session in [false, true] {
        let ends = ends();
        let mut initiator = ends.initiate();
        let request = ends.responder.read_initiation(initiator.message()).unwrap();
        let parameters = ParameterBlock::default();
        let answer = ends
            .responder
            .accept(request, RESPONDER_INDEX, had_session, parameters);
        match initiator.handle_response(&answer.response) {
            Ok(Reply::Agreed(agreed)) => assert_eq!(agreed.had_session, had_session),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_key_that_is_not_allowed_is_refused() {
    let ends = ends();
    let stranger = SecretKey::generate();
    let initiator = Initiator::new(
        &stranger,
        &ends.responder_key,
        INITIATOR_INDEX,
        ParameterBlock::default(),
    );
    let refused = ends.refusal(initiator.message());
    assert_eq!(refused, HandshakeError::NotAllowed(stranger.public_key()));
}

#[test]
fn other_version_is_refused_with_ours() {
    let ends = ends();
    let initiator = ends.initiate();
    // A later version may have longer initiations: its marks are still at the end.
    for length in [
        INITIATION_BYTES - 50,
        INITIATION_BYTES,
        INITIATION_BYTES + 999,
    ] {
        let mut initiation = vec![7; length];
        initiation[..2].copy_from_slice(&[Kind::Initiation as u8, VERSION + 1]);
        mark(&mut initiation, &ends.responder_key);
        let refused = ends.refusal(&initiation);
        assert_eq!(refused, HandshakeError::OtherVersion(VERSION + 1));
        let notice = ends.responder.version_notice(&initiation).unwrap();
        assert_eq!(crate::classify(&notice), Some(Kind::VersionNotice));
        assert!(notice.len() < initiation.len(), "amplifies nothing");
        let unasked = initiator.handle_version_notice(&notice);
        assert_eq!(unasked, Err(HandshakeError::Forged));
    }
    // The answer of a responder of another version.
    let notice = mac::version_notice(&ends.responder_key, first_mac(initiator.message()), 9);
    assert_eq!(initiator.handle_version_notice(&notice), Ok(9));
    // Without the number, the transcripts differ.
    let mut noise = snow::Builder::new(noise_params())
        .local_private_key(ends.initiator.bytes())
        .and_then(|builder| builder.prologue(b"anabranch 2"))
        .and_then(|builder| builder.remote_public_key(ends.responder_key.as_bytes()))
        .and_then(snow::Builder::build_initiator)
        .unwrap();
    let mut initiation = [0; INITIATION_BYTES];
    initiation[..2].copy_from_slice(&[Kind::Initiation as u8, VERSION]);
    write_message(
        &mut noise,
        &[0; INITIATION_PAYLOAD_BYTES],
        &mut initiation[INITIATION_NOISE_AT..FIRST_MAC_AT],
    );
    mark(&mut initiation, &ends.responder_key);
    assert_eq!(ends.refusal(&initiation), HandshakeError::Forged);
    assert!(PROLOGUE.ends_with(VERSION.to_string().as_bytes()));
}

/// Puts the first mark on the bytes before it, as anybody with the responder's key can.
fn mark(initiation: &mut [u8], responder: &PublicKey) {
    let (marked, macs) = initiation.split_at_mut(initiation.len() - MARKS_BYTES);
    macs[..MAC_BYTES].copy_from_slice(&mac::mac(&mac::first_key(responder), marked));
}

#[test]
fn every_flipped_bit_of_an_initiation_is_refused() {
    let ends = ends();
    let initiator = ends.initiate();
    for bit in 0..SECOND_MAC_AT * 8 {
        let mut tampered = initiator.message().to_vec();
        tampered[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => HandshakeError::Malformed,
            _ => HandshakeError::WrongMac,
        };
        let refused = ends.refusal(&tampered);
        assert_eq!(refused, expected, "bit {bit}");
        if bit / 8 == 0 || bit / 8 >= FIRST_MAC_AT {
            continue;
        }
        // Possible for an attacker who knows the responder's key.
        mark(&mut tampered, &ends.responder_key);
        let expected = match bit / 8 {
            VERSION_AT => HandshakeError::OtherVersion(tampered[VERSION_AT]),
            _ => HandshakeError::Forged,
        };
        let refused = ends.refusal(&tampered);
        assert_eq!(refused, expected, "bit {bit}");
    }
    assert!(ends.responder.read_initiation(initiator.message()).is_ok());
}

#[test]
fn unknown_key_is_refused_before_key_operations() {
    let ends = ends();
    let initiator = ends.initiate();
    assert_eq!(ends.responder.screen(initiator.message()), Ok(()));
    let mut random = initiator.message().to_vec();
    random[2..].reverse();
    assert_eq!(
        ends.responder.screen(&random),
        Err(HandshakeError::WrongMac)
    );
    let short = &initiator.message()[1..];
    assert_eq!(ends.responder.screen(short), Err(HandshakeError::Malformed));
}

#[test]
fn a_responder_under_load_learns_who_receives_at_an_address() {
    let mut ends = ends();
    let mut initiator = ends.initiate();
    let source: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    let elsewhere: SocketAddr = "192.0.2.9:7000".parse().unwrap();
    let plain = initiator.message().to_vec();
    assert!(!ends.responder.proves_address(source, &plain));
    let reply = ends.responder.cookie_reply(source, &plain).unwrap();
    const { assert!(COOKIE_REPLY_BYTES < INITIATION_BYTES, "amplifies nothing") };
    let cookie = initiator.handle_cookie_reply(&reply).unwrap();
    let proven = initiator.message_with(&cookie);
    assert!(ends.responder.proves_address(source, &proven));
    assert!(!ends.responder.proves_address(elsewhere, &proven));
    assert!(!ends.responder.proves_address(source, &proven[..125]));
    let stranger = Initiator::new(
        &ends.initiator,
        &ends.responder_key,
        INITIATOR_INDEX,
        ParameterBlock::default(),
    );
    let refused = stranger.handle_cookie_reply(&reply);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
    // Both forms are the same initiation: a resend with a cookie makes no second session.
    assert_eq!(Responder::mark(&plain), Responder::mark(&proven));
    let answer = ends.accept(1, &proven);
    assert!(initiator.handle_response(&answer.response).is_ok());
    ends.responder.rotate_cookies();
    assert!(ends.responder.proves_address(source, &proven));
    ends.responder.rotate_cookies();
    assert!(!ends.responder.proves_address(source, &proven));
}

#[test]
fn every_flipped_bit_of_a_response_is_refused_and_harms_nothing() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let mut answer = ends.accept(RESPONDER_INDEX, initiator.message());
    for bit in 0..RESPONSE_BYTES * 8 {
        let mut tampered = answer.response;
        tampered[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => HandshakeError::Malformed,
            1..5 => HandshakeError::WrongSession,
            _ => HandshakeError::Forged,
        };
        assert_eq!(
            initiator.handle_response(&tampered).unwrap_err(),
            expected,
            "bit {bit}"
        );
    }
    let mut ours = agreed(initiator.handle_response(&answer.response));
    assert_carries(&mut ours, &mut answer.agreed.session);
}

#[test]
fn truncated_and_lengthened_handshakes() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let initiation = [initiator.message(), &[0]].concat();
    for length in (0..=initiation.len()).filter(|length| *length != INITIATION_BYTES) {
        let refused = ends.refusal(&initiation[..length]);
        assert_eq!(refused, HandshakeError::Malformed);
    }
    let answer = ends.accept(RESPONDER_INDEX, initiator.message());
    let response = [&answer.response[..], &[0]].concat();
    for length in (0..=response.len()).filter(|length| *length != RESPONSE_BYTES) {
        let refused = initiator.handle_response(&response[..length]);
        assert_eq!(refused.unwrap_err(), HandshakeError::Malformed);
    }
    assert!(initiator.handle_response(&answer.response).is_ok());
}

#[test]
fn a_replayed_initiation_gets_a_session_that_nobody_can_confirm() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let mut first = ends.accept(RESPONDER_INDEX, initiator.message());
    let mut replayed = ends.accept(99, initiator.message());
    assert_ne!(first.response[5..], replayed.response[5..]);
    let mut ours = agreed(initiator.handle_response(&first.response));
    let mut datagram = Vec::new();
    ours.seal_append(0, b"a frame", &mut datagram).unwrap();
    // Recorded, and addressed to the session of the replay.
    datagram[2..6].copy_from_slice(&99u32.to_be_bytes());
    let opened = replayed.agreed.session.open(&mut datagram);
    assert_eq!(opened.unwrap_err(), crate::Rejected::Forged);
    assert!(!replayed.agreed.session.is_confirmed());
    assert_carries(&mut ours, &mut first.agreed.session);
}

/// Checks the order after a restart with a clock that was set back.
#[test]
fn initiations_are_accepted_in_any_order() {
    let ends = ends();
    let mut initiators = [ends.initiate(), ends.initiate(), ends.initiate()];
    for (at, initiator) in initiators.iter_mut().enumerate().rev() {
        let mut answer = ends.accept(at as u32, initiator.message());
        let mut ours = agreed(initiator.handle_response(&answer.response));
        assert_carries(&mut ours, &mut answer.agreed.session);
    }
}

#[test]
fn each_initiation_has_a_mark_of_its_own() {
    let ends = ends();
    let marks = [ends.initiate(), ends.initiate()].map(|one| Responder::mark(one.message()));
    assert!(marks[0].is_some() && marks[0] != marks[1]);
    assert_eq!(Responder::mark(&[1; INITIATION_BYTES - 1]), None);
}

#[test]
fn a_refusal_is_read_by_the_initiator_alone() {
    let ends = ends();
    for reason in Refusal::ALL {
        let (mut initiator, mut other) = (ends.initiate(), ends.initiate());
        let request = ends.responder.read_initiation(initiator.message()).unwrap();
        let response = ends.responder.refuse(request, reason);
        let forged = other.handle_response(&response);
        assert_eq!(forged.unwrap_err(), HandshakeError::Forged);
        let reply = initiator.handle_response(&response).unwrap();
        assert!(matches!(reply, Reply::Refused(sent_reason) if sent_reason == reason));
        assert!(initiator.is_complete());
    }
}

#[test]
fn a_duplicated_response_is_dropped() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let answer = ends.accept(RESPONDER_INDEX, initiator.message());
    assert!(initiator.handle_response(&answer.response).is_ok());
    let refused = initiator.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::AlreadyComplete);
}

#[test]
fn an_initiation_carries_its_makers_key_and_parameters() {
    let (local, first, second) = (
        SecretKey::generate(),
        SecretKey::generate(),
        SecretKey::generate(),
    );
    let remote = local.public_key();
    let responder = Responder::new(local, [first.public_key(), second.public_key()]);
    for key in [&first, &second] {
        for byte in [0, 1, 255] {
            let parameters = ParameterBlock::new([byte; PARAMETERS_BYTES]);
            let initiator = Initiator::new(key, &remote, 1, parameters);
            let request = responder.read_initiation(initiator.message()).unwrap();
            assert_eq!(request.peer(), key.public_key());
            assert_eq!(request.parameters(), &parameters);
        }
    }
}

#[test]
fn both_ends_know_the_parameters_that_the_responder_chose() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let request = ends.responder.read_initiation(initiator.message()).unwrap();
    let mut bytes = [0; PARAMETERS_BYTES];
    for (byte, value) in bytes.iter_mut().zip(100..) {
        *byte = value;
    }
    let chosen = ParameterBlock::new(bytes);
    let answer = ends
        .responder
        .accept(request, RESPONDER_INDEX, false, chosen);
    assert_eq!(answer.agreed.parameters, chosen);
    let reply = initiator.handle_response(&answer.response).unwrap();
    assert!(matches!(reply, Reply::Agreed(agreed) if agreed.parameters == chosen));
}

#[test]
fn a_response_to_another_handshake_is_refused() {
    let ends = ends();
    let (first, mut second) = (ends.initiate(), ends.initiate());
    let answer = ends.accept(RESPONDER_INDEX, first.message());
    let refused = second.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
}

#[test]
fn debug_shows_no_secret() {
    let ends = ends();
    let initiator = ends.initiate();
    let bytes = ends.initiator.bytes();
    let body = ends.initiator.to_text()["absec_".len()..].to_owned();
    let answer = ends.accept(RESPONDER_INDEX, initiator.message());
    let shown = format!(
        "{initiator:?} {:?} {answer:?} {:?}",
        ends.responder, ends.initiator
    );
    assert!(!shown.contains(&body), "{shown}");
    let list = format!("{:?}", &bytes[..4]);
    assert!(!shown.contains(list.trim_matches(['[', ']'])), "{shown}");
    assert!(
        shown.contains("Initiator { local_index: 286335522, is_complete: false"),
        "{shown}"
    );
}

#[test]
fn threads_may_be_handed_any_of_these() {
    fn assert_send<T: Send>() {}
    assert_send::<Initiator>();
    assert_send::<Responder>();
    assert_send::<Session>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn arbitrary_bytes_are_refused(
        mut datagram in prop::collection::vec(any::<u8>(), 100..145), has_kind: bool,
        is_marked: bool,
    ) {
        let ends = ends();
        if has_kind {
            datagram.resize(INITIATION_BYTES, 0);
            datagram[..2].copy_from_slice(&[Kind::Initiation as u8, VERSION]);
            if is_marked {
                mark(&mut datagram, &ends.responder_key);
            }
        }
        prop_assert!(ends.responder.read_initiation(&datagram).is_err());
        let initiator = ends.initiate();
        prop_assert!(initiator.handle_cookie_reply(&datagram[..COOKIE_REPLY_BYTES]).is_err());
        prop_assert!(initiator.handle_version_notice(&datagram[..18]).is_err());
        datagram.truncate(RESPONSE_BYTES);
        datagram[0] = Kind::Response as u8;
        datagram[1..5].copy_from_slice(&INITIATOR_INDEX.to_be_bytes());
        let mut initiator = ends.initiate();
        prop_assert!(initiator.handle_response(&datagram).is_err());
    }
}

#[test]
fn a_responder_that_was_restarted_resets_the_session_and_nobody_else_does() {
    let ends = ends();
    let mut initiator = ends.initiate();
    let message = initiator.message();
    let answer = ends.accept(RESPONDER_INDEX, message);
    let session = agreed(initiator.handle_response(&answer.response));
    let restarted = Responder::new(copy(&ends.responder_secret), []);
    let reset = restarted.reset(RESPONDER_INDEX);
    assert_eq!(crate::classify(&reset), Some(Kind::Reset));
    assert!(session.is_reset(&reset));
    assert!(!session.is_reset(&restarted.reset(RESPONDER_INDEX + 1)));
    let stranger = Responder::new(SecretKey::generate(), []);
    assert!(!session.is_reset(&stranger.reset(RESPONDER_INDEX)));
    // The responder itself cannot be reset: the initiator has no such key.
    let responders = answer.agreed.session;
    assert!(!responders.is_reset(&reset));
    // Shorter than the datagram that it answers: the shortest datagrams that the transport sends
    // have two bytes.
    assert!(reset.len() < crate::PROTECTION_OVERHEAD_BYTES);
}

fn copy(key: &SecretKey) -> SecretKey {
    SecretKey::from_text(&key.to_text()).unwrap()
}

#[test]
fn a_responder_shows_whom_it_lets_in() {
    let ends = ends();
    let shown = format!("{:?}", ends.responder);
    let allowed = ends.initiator.public_key().to_string();
    assert!(shown.contains(&allowed), "{shown}");
}

#[test]
fn answers_are_shorter_than_requests() {
    let mut ends = ends();
    let initiator = ends.initiate();
    let asked = initiator.message();
    let source: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    let reply = ends.responder.cookie_reply(source, asked).unwrap();
    let answer = ends.accept(1, asked);
    assert!(reply.len() < asked.len() && answer.response.len() < asked.len());
    let mut shortest = Vec::new();
    let mut session = answer.agreed.session;
    session.seal_append(0, b"", &mut shortest).unwrap();
    assert!(ends.responder.reset(1).len() < shortest.len());
}

#[test]
fn an_initiation_does_not_show_who_sends_it() {
    let ends = ends();
    let sender = ends.initiator.public_key();
    let messages = [(), ()].map(|()| ends.initiate().message().to_vec());
    for message in &messages {
        let mut windows = message.windows(sender.as_bytes().len());
        assert!(!windows.any(|window| window == sender.as_bytes()));
    }
    // Two of one sender only share kind, version and the zeros of the second mark.
    let [first, second] = messages.map(|message| message[2..SECOND_MAC_AT].to_vec());
    let same = first.chunks(8).zip(second.chunks(8));
    assert_eq!(same.filter(|(first, second)| first == second).count(), 0);
}
