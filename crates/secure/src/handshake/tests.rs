//! Tests of the handshake, and of the sessions that come of it.

use super::*;
use proptest::prelude::*;

const INITIATOR_INDEX: u32 = 0x1111_2222;
const RESPONDER_INDEX: u32 = 0x3333_4444;
const CARRIED: [Cargo; 2] = [Cargo::Frames, Cargo::Streams];

/// A responder, whom it lets in, and its public key.
struct Ends {
    initiator: SecretKey,
    responder_key: PublicKey,
    responder: Responder,
}

fn ends() -> Ends {
    let (initiator, responder) = (SecretKey::generate(), SecretKey::generate());
    let responder_key = responder.public_key();
    let responder = Responder::new(responder, [initiator.public_key()], &CARRIED);
    Ends {
        initiator,
        responder_key,
        responder,
    }
}

impl Ends {
    fn initiate(&self, timestamp_nanos: u64) -> Initiator {
        Initiator::new(
            &self.initiator,
            &self.responder_key,
            INITIATOR_INDEX,
            Wishes::of(Cargo::Frames),
            timestamp_nanos,
        )
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
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    assert_eq!(initiator.local_index(), INITIATOR_INDEX);
    assert_eq!(crate::classify(initiator.message()), Some(Kind::Initiation));
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
    assert_eq!(answer.peer, ends.initiator.public_key());
    assert_eq!(crate::classify(&answer.response), Some(Kind::Response));
    assert_eq!(
        crate::receiver_index(&answer.response),
        Some(INITIATOR_INDEX)
    );
    let mut theirs = answer.agreed.unwrap().session;
    let mut ours = initiator.handle_response(&answer.response).unwrap().session;
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
    let mut ends = ends();
    let mut sealed = [Vec::new(), Vec::new()];
    for (timestamp_nanos, datagram) in (1..).zip(&mut sealed) {
        let initiator = ends.initiate(timestamp_nanos);
        let answer = ends
            .responder
            .handle_initiation(RESPONDER_INDEX, initiator.message());
        answer
            .unwrap()
            .agreed
            .unwrap()
            .session
            .seal_append(0, b"same", datagram)
            .unwrap();
    }
    assert_eq!(sealed[0][..10], sealed[1][..10]);
    assert_ne!(sealed[0][10..], sealed[1][10..]);
}

#[test]
fn an_initiation_for_another_key_is_refused() {
    let mut ends = ends();
    let elsewhere = SecretKey::generate().public_key();
    let initiator = Initiator::new(
        &ends.initiator,
        &elsewhere,
        INITIATOR_INDEX,
        Wishes::of(Cargo::Frames),
        1,
    );
    let refused = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message());
    assert_eq!(refused.unwrap_err(), HandshakeError::WrongMac);
    assert_eq!(ends.responder.refused_count(HandshakeError::WrongMac), 1);
}

#[test]
fn a_response_by_another_key_is_refused() {
    let ends = ends();
    let mut initiator = ends.initiate(1);
    // An impostor who holds another key cannot even read the initiation. So let it make a handshake
    // of its own, and answer ours with the response of that.
    let impostor_key = SecretKey::generate();
    let bait = Initiator::new(
        &ends.initiator,
        &impostor_key.public_key(),
        INITIATOR_INDEX,
        Wishes::of(Cargo::Frames),
        1,
    );
    let mut impostor = Responder::new(impostor_key, [ends.initiator.public_key()], &CARRIED);
    let answer = impostor
        .handle_initiation(RESPONDER_INDEX, bait.message())
        .unwrap();
    let refused = initiator.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
}

#[test]
fn a_key_that_is_not_allowed_is_refused() {
    let mut ends = ends();
    let stranger = SecretKey::generate();
    let initiator = Initiator::new(
        &stranger,
        &ends.responder_key,
        INITIATOR_INDEX,
        Wishes::of(Cargo::Frames),
        1,
    );
    for refused_count in 1..=2 {
        let refused = ends
            .responder
            .handle_initiation(RESPONDER_INDEX, initiator.message());
        assert_eq!(refused.unwrap_err(), HandshakeError::NotAllowed);
        assert_eq!(
            ends.responder.refused_count(HandshakeError::NotAllowed),
            refused_count
        );
    }
}

#[test]
fn another_protocol_version_is_refused() {
    let mut ends = ends();
    let mut noise = snow::Builder::new(noise_params())
        .local_private_key(ends.initiator.bytes())
        .and_then(|builder| builder.prologue(b"anabranch 1"))
        .and_then(|builder| builder.remote_public_key(ends.responder_key.as_bytes()))
        .and_then(snow::Builder::build_initiator)
        .unwrap();
    let mut initiation = [0; INITIATION_BYTES];
    initiation[0] = Kind::Initiation as u8;
    write_message(
        &mut noise,
        &[0; INITIATION_PAYLOAD_BYTES],
        &mut initiation[1..FIRST_MAC_AT],
    );
    mark(&mut initiation, &ends.responder_key);
    let refused = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, &initiation);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
}

/// Puts the first mark on what stands before it, as whoever knows the responder's key can.
fn mark(initiation: &mut [u8; INITIATION_BYTES], responder: &PublicKey) {
    let (marked, macs) = initiation.split_at_mut(FIRST_MAC_AT);
    macs[..MAC_BYTES].copy_from_slice(&mac::mac(&mac::first_key(responder), marked));
}

#[test]
fn every_flipped_bit_of_an_initiation_is_refused() {
    let mut ends = ends();
    let initiator = ends.initiate(1);
    for bit in 0..SECOND_MAC_AT * 8 {
        let mut tampered = *initiator.message();
        tampered[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => HandshakeError::Malformed,
            _ => HandshakeError::WrongMac,
        };
        let refused = ends.responder.handle_initiation(RESPONDER_INDEX, &tampered);
        assert_eq!(refused.unwrap_err(), expected, "bit {bit}");
        if bit / 8 == 0 || bit / 8 >= FIRST_MAC_AT {
            continue;
        }
        // What an attacker who knows the responder's key can do.
        mark(&mut tampered, &ends.responder_key);
        let refused = ends.responder.handle_initiation(RESPONDER_INDEX, &tampered);
        assert_eq!(refused.unwrap_err(), HandshakeError::Forged, "bit {bit}");
    }
    assert!(
        ends.responder
            .handle_initiation(RESPONDER_INDEX, initiator.message())
            .is_ok()
    );
}

#[test]
fn who_does_not_know_the_responders_key_is_refused_before_any_public_key_operation() {
    let mut ends = ends();
    let initiator = ends.initiate(1);
    assert_eq!(ends.responder.screen(initiator.message()), Ok(()));
    let mut random = *initiator.message();
    random[1..].reverse();
    assert_eq!(
        ends.responder.screen(&random),
        Err(HandshakeError::WrongMac)
    );
    let short = &initiator.message()[1..];
    assert_eq!(ends.responder.screen(short), Err(HandshakeError::Malformed));
    assert_eq!(ends.responder.refused_count(HandshakeError::WrongMac), 1);
}

#[test]
fn a_responder_under_load_learns_who_receives_at_an_address() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let source: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    let elsewhere: SocketAddr = "192.0.2.9:7000".parse().unwrap();
    let plain = *initiator.message();
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
        Wishes::of(Cargo::Frames),
        1,
    );
    let refused = stranger.handle_cookie_reply(&reply);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
    // Both forms are the same initiation: a resend with a cookie makes no second session.
    let first = ends.responder.handle_initiation(1, &plain).unwrap();
    let second = ends.responder.handle_initiation(2, &proven).unwrap();
    assert_eq!(first.response, second.response);
    assert!(second.agreed.is_none());
    assert!(initiator.handle_response(&second.response).is_ok());
    ends.responder.rotate_cookies();
    assert!(ends.responder.proves_address(source, &proven));
    ends.responder.rotate_cookies();
    assert!(!ends.responder.proves_address(source, &proven));
}

#[test]
fn every_flipped_bit_of_a_response_is_refused_and_harms_nothing() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
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
    let mut ours = initiator.handle_response(&answer.response).unwrap().session;
    assert_carries(&mut ours, &mut answer.agreed.unwrap().session);
}

#[test]
fn truncated_and_lengthened_handshakes() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let initiation = [&initiator.message()[..], &[0]].concat();
    for length in (0..=initiation.len()).filter(|length| *length != INITIATION_BYTES) {
        let refused = ends
            .responder
            .handle_initiation(RESPONDER_INDEX, &initiation[..length]);
        assert_eq!(refused.unwrap_err(), HandshakeError::Malformed);
    }
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
    let response = [&answer.response[..], &[0]].concat();
    for length in (0..=response.len()).filter(|length| *length != RESPONSE_BYTES) {
        let refused = initiator.handle_response(&response[..length]);
        assert_eq!(refused.unwrap_err(), HandshakeError::Malformed);
    }
    assert!(initiator.handle_response(&answer.response).is_ok());
}

#[test]
fn a_resent_initiation_gets_the_same_response() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let first = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
    let again = ends
        .responder
        .handle_initiation(99, initiator.message())
        .unwrap();
    assert_eq!(again.response, first.response);
    assert_eq!(again.peer, first.peer);
    assert!(again.agreed.is_none());
    let mut ours = initiator.handle_response(&again.response).unwrap().session;
    assert_carries(&mut ours, &mut first.agreed.unwrap().session);
}

#[test]
fn a_duplicated_response_is_dropped() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
    assert!(initiator.handle_response(&answer.response).is_ok());
    let refused = initiator.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::AlreadyComplete);
}

#[test]
fn older_initiations_are_refused() {
    let mut ends = ends();
    let (older, newer, same_time) = (ends.initiate(7), ends.initiate(8), ends.initiate(8));
    assert!(ends.responder.handle_initiation(1, older.message()).is_ok());
    assert!(ends.responder.handle_initiation(2, newer.message()).is_ok());
    for stale in [&older, &same_time] {
        let refused = ends.responder.handle_initiation(3, stale.message());
        assert_eq!(refused.unwrap_err(), HandshakeError::Stale);
    }
    assert_eq!(ends.responder.refused_count(HandshakeError::Stale), 2);
    assert!(
        ends.responder
            .handle_initiation(4, ends.initiate(9).message())
            .is_ok()
    );
}

#[test]
fn peers_have_timestamps_of_their_own() {
    let (fast, slow, local) = (
        SecretKey::generate(),
        SecretKey::generate(),
        SecretKey::generate(),
    );
    let remote = local.public_key();
    let mut responder = Responder::new(local, [fast.public_key(), slow.public_key()], &CARRIED);
    for (index, key, timestamp_nanos) in [(1, &fast, u64::MAX), (2, &slow, 1)] {
        let initiator = Initiator::new(
            key,
            &remote,
            index,
            Wishes::of(Cargo::Frames),
            timestamp_nanos,
        );
        let answer = responder
            .handle_initiation(index, initiator.message())
            .unwrap();
        assert_eq!(answer.peer, key.public_key());
    }
}

#[test]
fn sessions_of_another_cargo_have_timestamps_and_answers_of_their_own() {
    let mut ends = ends();
    let initiate = |cargo, timestamp_nanos| {
        let (local, remote) = (&ends.initiator, &ends.responder_key);
        Initiator::new(
            local,
            remote,
            INITIATOR_INDEX,
            Wishes::of(cargo),
            timestamp_nanos,
        )
    };
    let (streams, frames) = (initiate(Cargo::Streams, 9), initiate(Cargo::Frames, 1));
    for (initiator, cargo) in [(&streams, Cargo::Streams), (&frames, Cargo::Frames)] {
        let answer = ends
            .responder
            .handle_initiation(RESPONDER_INDEX, initiator.message());
        assert_eq!(answer.unwrap().cargo, cargo);
    }
    // The one is remembered beside the other.
    for (initiator, cargo) in [(&streams, Cargo::Streams), (&frames, Cargo::Frames)] {
        let answer = ends.responder.resent(initiator.message()).unwrap();
        assert_eq!(answer.cargo, cargo);
    }
    let stale = initiate(Cargo::Streams, 9);
    let refused = ends.responder.handle_initiation(5, stale.message());
    assert_eq!(refused.unwrap_err(), HandshakeError::Stale);
}

#[test]
fn a_cargo_that_the_responder_does_not_carry_is_refused() {
    let mut ends = ends();
    let (local, remote) = (&ends.initiator, &ends.responder_key);
    let initiator = Initiator::new(
        local,
        remote,
        INITIATOR_INDEX,
        Wishes::of(Cargo::Datagrams),
        1,
    );
    let refused = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message());
    assert_eq!(refused.unwrap_err(), HandshakeError::NotCarried);
    assert_eq!(ends.responder.refused_count(HandshakeError::NotCarried), 1);
    // Nothing of it is remembered.
    assert!(ends.responder.resent(initiator.message()).is_none());
}

#[test]
fn a_response_to_another_handshake_is_refused() {
    let mut ends = ends();
    let (first, mut second) = (ends.initiate(1), ends.initiate(2));
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, first.message())
        .unwrap();
    let refused = second.handle_response(&answer.response);
    assert_eq!(refused.unwrap_err(), HandshakeError::Forged);
}

#[test]
fn debug_shows_no_secret() {
    let mut ends = ends();
    let initiator = ends.initiate(1);
    let bytes = ends.initiator.bytes();
    let body = ends.initiator.to_text()["absec_".len()..].to_owned();
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, initiator.message())
        .unwrap();
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

#[test]
fn refusals_are_numbered_as_listed() {
    for (number, kind) in HandshakeError::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn arbitrary_bytes_are_refused(
        mut datagram in prop::collection::vec(any::<u8>(), 100..145), has_kind: bool,
        is_marked: bool,
    ) {
        let mut ends = ends();
        if has_kind {
            datagram.resize(INITIATION_BYTES, 0);
            datagram[0] = Kind::Initiation as u8;
            let initiation: &mut [u8; INITIATION_BYTES] = (&mut datagram[..]).try_into().unwrap();
            if is_marked {
                mark(initiation, &ends.responder_key);
            }
        }
        prop_assert!(ends.responder.handle_initiation(RESPONDER_INDEX, &datagram).is_err());
        let initiator = ends.initiate(1);
        prop_assert!(initiator.handle_cookie_reply(&datagram[..COOKIE_REPLY_BYTES]).is_err());
        datagram.truncate(RESPONSE_BYTES);
        datagram[0] = Kind::Response as u8;
        datagram[1..5].copy_from_slice(&INITIATOR_INDEX.to_be_bytes());
        let mut initiator = ends.initiate(1);
        prop_assert!(initiator.handle_response(&datagram).is_err());
    }
}

#[test]
fn a_responder_that_was_restarted_resets_the_session_and_nobody_else_does() {
    let mut ends = ends();
    let mut initiator = ends.initiate(1);
    let message = initiator.message();
    let answer = ends
        .responder
        .handle_initiation(RESPONDER_INDEX, message)
        .unwrap();
    let session = initiator.handle_response(&answer.response).unwrap().session;
    let restarted = Responder::new(copy(&ends.responder.local), [], &CARRIED);
    let reset = restarted.reset(RESPONDER_INDEX);
    assert_eq!(crate::classify(&reset), Some(Kind::Reset));
    assert!(session.is_reset(&reset));
    assert!(!session.is_reset(&restarted.reset(RESPONDER_INDEX + 1)));
    let stranger = Responder::new(SecretKey::generate(), [], &CARRIED);
    assert!(!session.is_reset(&stranger.reset(RESPONDER_INDEX)));
    // The responder itself cannot be reset: the initiator has no such key.
    let responders = answer.agreed.unwrap().session;
    assert!(!responders.is_reset(&reset));
    // Shorter than what it answers: the shortest datagrams that the transport sends have two bytes.
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
fn no_answer_is_as_long_as_what_it_answers() {
    let mut ends = ends();
    let initiator = ends.initiate(1);
    let asked = initiator.message();
    let source: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    let reply = ends.responder.cookie_reply(source, asked).unwrap();
    let answer = ends.responder.handle_initiation(1, asked).unwrap();
    assert!(reply.len() < asked.len() && answer.response.len() < asked.len());
    let mut shortest = Vec::new();
    let mut session = answer.agreed.unwrap().session;
    session.seal_append(0, b"", &mut shortest).unwrap();
    assert!(ends.responder.reset(1).len() < shortest.len());
}

#[test]
fn an_initiation_does_not_show_who_sends_it() {
    let ends = ends();
    let sender = ends.initiator.public_key();
    let messages = [1, 1].map(|at| *ends.initiate(at).message());
    for message in &messages {
        let mut windows = message.windows(sender.as_bytes().len());
        assert!(!windows.any(|window| window == sender.as_bytes()));
    }
    // Nothing but the kind and what is zero without a cookie is the same in two of one sender.
    let [first, second] = messages.map(|message| message[1..128].to_vec());
    let same = first.chunks(8).zip(second.chunks(8));
    assert_eq!(same.filter(|(first, second)| first == second).count(), 0);
}
