//! Tests of protected datagrams, on two sessions made without a handshake.

use super::*;
use crate::replay::REPLAY_WINDOW_DATAGRAMS;
use proptest::prelude::*;

/// Returns two sessions that are each other's peer.
fn pair() -> (Session, Session) {
    let (one, other) = ([1; 32], [2; 32]);
    let first = Session::new(&Agreement {
        sealing_key: &one,
        opening_key: &other,
        local_index: 10,
        remote_index: 20,
        is_confirmed: true,
        reset_token: None,
    });
    let second = Session::new(&Agreement {
        sealing_key: &other,
        opening_key: &one,
        local_index: 20,
        remote_index: 10,
        is_confirmed: false,
        reset_token: None,
    });
    (first, second)
}

fn sealed(session: &mut Session, path_id: u8, plaintext: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    session
        .seal_append(path_id, plaintext, &mut datagram)
        .unwrap();
    datagram
}

/// Returns the result of opening a copy of `datagram` by `session`.
fn opened(session: &mut Session, datagram: &[u8]) -> Result<(u8, Vec<u8>), Rejected> {
    let mut datagram = datagram.to_vec();
    session
        .open(&mut datagram)
        .map(|opened| (opened.path_id, opened.plaintext.to_vec()))
}

/// Makes the next datagram from `sender` to `receiver` on `path_id` carry `counter`.
fn skip_to(sender: &mut Session, receiver: &mut Session, path_id: u8, counter: u64) {
    sender.next_counters[usize::from(path_id)] = counter;
    let windows = &mut receiver.windows;
    windows.resize_with(MAX_PATHS, ReplayWindow::default);
    windows[usize::from(path_id)].accept(counter - 1);
}

#[test]
fn both_directions_and_every_path() {
    let (mut ours, mut theirs) = pair();
    for path_id in 0..MAX_PATHS as u8 {
        let datagram = sealed(&mut ours, path_id, b"video");
        assert_eq!(datagram.len(), 5 + PROTECTION_OVERHEAD_BYTES);
        assert_eq!(
            opened(&mut theirs, &datagram),
            Ok((path_id, b"video".to_vec()))
        );
        let datagram = sealed(&mut theirs, path_id, b"");
        assert_eq!(opened(&mut ours, &datagram), Ok((path_id, Vec::new())));
    }
}

#[test]
fn layout_of_the_header() {
    let (mut ours, mut theirs) = pair();
    skip_to(&mut ours, &mut theirs, 7, 0x9_0102_0304);
    let datagram = sealed(&mut ours, 7, b"x");
    assert_eq!(datagram[..HEADER_BYTES], [3, 7, 0, 0, 0, 20, 1, 2, 3, 4]);
    assert_eq!(crate::classify(&datagram), Some(Kind::Data));
    assert_eq!(crate::receiver_index(&datagram), Some(theirs.local_index()));
    assert_eq!(opened(&mut theirs, &datagram), Ok((7, b"x".to_vec())));
}

#[test]
fn known_answer_of_another_aes_256_gcm() {
    let (mut ours, mut theirs) = pair();
    skip_to(&mut ours, &mut theirs, 7, 0x9_0102_0304);
    let datagram = sealed(&mut ours, 7, b"key frame");
    // Computed with Python's hmac and OpenSSL: secret 32 × 01, nonce 00000007 0000000901020304,
    // additional data = the header.
    assert_eq!(
        hex(&datagram[HEADER_BYTES..]),
        "355578546fec36cc8c69a1e3c19e3a8d811ef246a96d6982a8"
    );
    ours.next_counters[7] = 0x9_0102_0304;
    ours.sealing.max_sealed_count = 1;
    let datagram = sealed(&mut ours, 7, b"key frame");
    assert_eq!(datagram[1], 7 | 1 << 6);
    assert_eq!(
        hex(&datagram[HEADER_BYTES..]),
        "a9c75a925e62b6279eae9b50f36a62549fabdaefab3a57bced"
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns two sessions of which each key seals `limit` datagrams.
fn pair_with_limit(limit: u64) -> (Session, Session) {
    let (mut ours, mut theirs) = pair();
    ours.sealing.max_sealed_count = limit;
    theirs.sealing.max_sealed_count = limit;
    (ours, theirs)
}

#[test]
fn keys_follow_one_another_both_ways_and_nothing_is_lost() {
    let (mut ours, mut theirs) = pair_with_limit(3);
    for count in 0..100u8 {
        let datagram = sealed(&mut ours, count % 2, &[count]);
        assert_eq!(datagram[1] >> 6, count / 3 % 4, "three by each key");
        assert_eq!(
            opened(&mut theirs, &datagram),
            Ok((count % 2, vec![count])),
            "datagram {count}"
        );
        if count % 5 == 0 {
            let datagram = sealed(&mut theirs, 0, &[count]);
            assert_eq!(opened(&mut ours, &datagram), Ok((0, vec![count])));
        }
    }
}

#[test]
fn a_key_seals_4194304_datagrams() {
    let (mut ours, mut theirs) = pair();
    ours.sealing.sealed_count = (1 << 22) - 1;
    let last = sealed(&mut ours, 0, b"last of its key");
    let first = sealed(&mut ours, 0, b"first of the next");
    assert_eq!([last[1] >> 6, first[1] >> 6], [0, 1]);
    // The next one first: neither is lost.
    assert!(opened(&mut theirs, &first).is_ok() && opened(&mut theirs, &last).is_ok());
}

#[test]
fn a_datagram_overtaken_by_a_key_update_still_opens() {
    let (mut ours, mut theirs) = pair_with_limit(2);
    let datagrams: Vec<_> = (0..6).map(|count| sealed(&mut ours, 0, &[count])).collect();
    for at in [2, 0, 1, 4, 3, 5] {
        assert_eq!(
            opened(&mut theirs, &datagrams[at]),
            Ok((0, vec![at as u8])),
            "datagram {at}"
        );
    }
}

#[test]
fn a_path_that_was_silent_for_generations_goes_on() {
    let (mut ours, mut theirs) = pair_with_limit(2);
    for count in 0..11 {
        let datagram = sealed(&mut ours, 0, &[count]);
        assert!(opened(&mut theirs, &datagram).is_ok());
    }
    let datagram = sealed(&mut ours, 1, b"awake");
    assert_eq!(opened(&mut theirs, &datagram), Ok((1, b"awake".to_vec())));
}

#[test]
fn a_forged_generation_moves_no_key() {
    let (mut ours, mut theirs) = pair_with_limit(100);
    let datagram = sealed(&mut ours, 0, b"now");
    for generation in 1..4 {
        let mut forged = datagram.clone();
        forged[1] |= generation << 6;
        assert_eq!(opened(&mut theirs, &forged), Err(Rejected::Forged));
    }
    assert_eq!(theirs.opening.generation, 0);
    assert!(opened(&mut theirs, &datagram).is_ok());
}

#[test]
fn a_key_of_two_generations_ago_is_gone() {
    let (mut ours, mut theirs) = pair_with_limit(1);
    let datagrams: Vec<_> = (0..3).map(|count| sealed(&mut ours, 0, &[count])).collect();
    assert!(opened(&mut theirs, &datagrams[1]).is_ok());
    assert!(opened(&mut theirs, &datagrams[2]).is_ok());
    assert_eq!(opened(&mut theirs, &datagrams[0]), Err(Rejected::Forged));
}

#[test]
fn seal_in_place_is_seal_append() {
    let (mut ours, _) = pair();
    let (mut twin, _) = pair();
    let mut datagram = [&[0xee; HEADER_BYTES][..], b"plaintext", &[0xee; TAG_BYTES]].concat();
    ours.seal(3, &mut datagram).unwrap();
    assert_eq!(datagram, sealed(&mut twin, 3, b"plaintext"));
    assert!(!datagram.windows(9).any(|window| window == b"plaintext"));
}

#[test]
fn a_batch_shares_one_buffer() {
    let (mut ours, mut theirs) = pair();
    let mut batch = Vec::with_capacity(3 * (4 + PROTECTION_OVERHEAD_BYTES));
    let capacity = batch.capacity();
    for plaintext in [b"1111", b"2222", b"3333"] {
        ours.seal_append(0, plaintext, &mut batch).unwrap();
    }
    assert_eq!(batch.capacity(), capacity);
    for (datagram, plaintext) in batch.chunks(30).zip([b"1111", b"2222", b"3333"]) {
        assert_eq!(opened(&mut theirs, datagram), Ok((0, plaintext.to_vec())));
    }
}

#[test]
fn every_flipped_bit_is_rejected_and_harms_nothing() {
    let (mut ours, mut theirs) = pair();
    // High enough that flipped counter bits land before, inside and beyond the window.
    skip_to(&mut ours, &mut theirs, 1, 5_000);
    let datagram = sealed(&mut ours, 1, b"key frame");
    for bit in 0..datagram.len() * 8 {
        let mut tampered = datagram.clone();
        tampered[bit / 8] ^= 1 << (bit % 8);
        let kind = opened(&mut theirs, &tampered).unwrap_err();
        match bit / 8 {
            0 => assert_eq!(kind, Rejected::UnknownKind),
            1 => assert!(matches!(kind, Rejected::Forged | Rejected::PathOutOfRange)),
            2..6 => assert_eq!(kind, Rejected::WrongSession),
            6..10 => assert!(matches!(
                kind,
                Rejected::Forged | Rejected::TooOld | Rejected::Replayed
            )),
            _ => assert_eq!(kind, Rejected::Forged, "byte {}", bit / 8),
        }
    }
    assert!(!theirs.is_confirmed());
    assert_eq!(
        opened(&mut theirs, &datagram),
        Ok((1, b"key frame".to_vec()))
    );
    let rejected_count: u64 = Rejected::ALL
        .map(|kind| theirs.rejected_count(kind))
        .iter()
        .sum();
    assert_eq!(rejected_count, datagram.len() as u64 * 8);
}

#[test]
fn truncated_and_lengthened_datagrams() {
    let (mut ours, mut theirs) = pair();
    let datagram = sealed(&mut ours, 0, b"0123456789");
    for length in 0..datagram.len() {
        let kind = opened(&mut theirs, &datagram[..length]).unwrap_err();
        let expected = if length < PROTECTION_OVERHEAD_BYTES {
            Rejected::TooShort
        } else {
            Rejected::Forged
        };
        assert_eq!(kind, expected);
    }
    let longer = [&datagram[..], &[0]].concat();
    assert_eq!(opened(&mut theirs, &longer), Err(Rejected::Forged));
    assert_eq!(
        theirs.rejected_count(Rejected::TooShort),
        PROTECTION_OVERHEAD_BYTES as u64
    );
    assert!(opened(&mut theirs, &datagram).is_ok());
}

#[test]
fn replayed_on_one_path_and_not_portable_to_another() {
    let (mut ours, mut theirs) = pair();
    let mut datagram = sealed(&mut ours, 0, b"once");
    assert!(opened(&mut theirs, &datagram).is_ok());
    assert_eq!(opened(&mut theirs, &datagram), Err(Rejected::Replayed));
    datagram[1] = 1;
    assert_eq!(opened(&mut theirs, &datagram), Err(Rejected::Forged));
}

#[test]
fn a_copy_can_be_opened_to_learn_that_it_is_authentic_and_nothing_else_can() {
    let (mut ours, mut theirs) = pair();
    let datagram = sealed(&mut ours, 0, b"once");
    let fresh = theirs.open_replayed(&mut datagram.clone()).map(|_| ());
    assert_eq!(fresh, Err(Rejected::Replayed), "it has not come before");
    assert!(opened(&mut theirs, &datagram).is_ok());
    let mut copy = datagram.clone();
    let copy = theirs.open_replayed(&mut copy).expect("a copy");
    assert_eq!((copy.counter, &*copy.plaintext), (0, &b"once"[..]));
    assert_eq!(opened(&mut theirs, &datagram), Err(Rejected::Replayed));
    let mut forged = datagram;
    forged[12] ^= 1;
    let forged = theirs.open_replayed(&mut forged).map(|_| ());
    assert_eq!(forged, Err(Rejected::Forged));
}

#[test]
fn reflected_datagrams_are_rejected() {
    let (mut ours, _) = pair();
    let mut datagram = sealed(&mut ours, 0, b"echo");
    assert_eq!(opened(&mut ours, &datagram), Err(Rejected::WrongSession));
    datagram[2..6].copy_from_slice(&ours.local_index().to_be_bytes());
    assert_eq!(opened(&mut ours, &datagram), Err(Rejected::Forged));
}

#[test]
fn reordered_within_the_window_and_too_old_beyond() {
    let (mut ours, mut theirs) = pair();
    let datagrams: Vec<_> = (0..=REPLAY_WINDOW_DATAGRAMS)
        .map(|_| sealed(&mut ours, 0, b"in any order"))
        .collect();
    let (too_old, rest) = datagrams.split_first().unwrap();
    for datagram in rest.iter().rev() {
        assert!(opened(&mut theirs, datagram).is_ok());
    }
    assert_eq!(opened(&mut theirs, too_old), Err(Rejected::TooOld));
    assert_eq!(theirs.rejected_count(Rejected::TooOld), 1);
}

#[test]
fn counters_expand_across_2_to_the_32() {
    let (mut ours, mut theirs) = pair();
    skip_to(&mut ours, &mut theirs, 2, (1 << 32) - 3);
    let datagrams: Vec<_> = (0..6).map(|_| sealed(&mut ours, 2, b"wrap")).collect();
    for at in [0, 4, 1, 5, 2, 3] {
        assert!(opened(&mut theirs, &datagrams[at]).is_ok(), "datagram {at}");
    }
    assert_eq!(theirs.windows[2].expected(), (1 << 32) + 3);
    assert_eq!(opened(&mut theirs, &datagrams[0]), Err(Rejected::Replayed));
}

#[test]
fn same_counter_on_two_paths_is_another_nonce() {
    let (mut ours, mut theirs) = pair();
    let (first, second) = (
        sealed(&mut ours, 0, &[0; 64]),
        sealed(&mut ours, 1, &[0; 64]),
    );
    assert_eq!(
        first[COUNTER_AT..HEADER_BYTES],
        second[COUNTER_AT..HEADER_BYTES]
    );
    // The plaintexts are zero, so equal nonces would show as equal ciphertexts.
    assert_ne!(
        first[HEADER_BYTES..HEADER_BYTES + 64],
        second[HEADER_BYTES..HEADER_BYTES + 64]
    );
    assert!(opened(&mut theirs, &first).is_ok());
    assert!(opened(&mut theirs, &second).is_ok());
}

#[test]
fn whole_counter_is_in_the_nonce() {
    fn of(path_id: u8, counter: u64) -> [u8; 12] {
        *nonce(path_id, counter).as_ref()
    }
    assert_ne!(of(0, 1), of(0, 1 + (1 << 32)));
    assert_eq!(
        of(0x1f, 0x0102_0304_0506_0708),
        [0, 0, 0, 0x1f, 1, 2, 3, 4, 5, 6, 7, 8]
    );
}

#[test]
fn a_key_is_updated_when_its_owner_says_so_and_nothing_is_lost() {
    let (mut ours, mut theirs) = pair();
    for round in 0..10 {
        // Without a datagram between, nothing changes: the peer would lose its place.
        ours.update_key();
        ours.update_key();
        let datagrams = [sealed(&mut ours, 0, b"one"), sealed(&mut ours, 1, b"two")];
        ours.update_key();
        let next = sealed(&mut ours, 0, b"three");
        assert_ne!(
            datagrams[0][1] >> GENERATION_SHIFT,
            next[1] >> GENERATION_SHIFT
        );
        // The last datagram of a generation is overtaken by the first of the next.
        for datagram in [&datagrams[0], &next, &datagrams[1]] {
            assert!(opened(&mut theirs, datagram).is_ok(), "{round}");
        }
    }
}

#[test]
fn sealing_stops_when_the_key_is_used_up() {
    let (mut ours, _) = pair();
    ours.sealed_count = MAX_SEALED_COUNT - 1;
    let mut datagrams = sealed(&mut ours, 0, b"the last");
    let length = datagrams.len();
    for path_id in [0, 1] {
        let refused = ours.seal_append(path_id, b"one too many", &mut datagrams);
        assert_eq!(refused, Err(SealError::KeyExhausted));
    }
    assert_eq!(datagrams.len(), length);
    assert_eq!(ours.sealed_count(), MAX_SEALED_COUNT);
}

#[test]
fn mistakes_of_the_caller_are_named() {
    let (mut ours, _) = pair();
    let refused = ours.seal(32, &mut [0; 40]).unwrap_err();
    assert_eq!(refused, SealError::PathOutOfRange { path_id: 32 });
    assert_eq!(
        refused.to_string(),
        "path 32 is out of range: path ids are 0 to 31"
    );
    assert_eq!(
        ours.seal(0, &mut [0; 25]),
        Err(SealError::NoRoom { datagram_bytes: 25 })
    );
    assert_eq!(ours.sealed_count(), 0);
}

#[test]
fn responder_is_confirmed_by_the_first_datagram_that_opens() {
    let (mut ours, mut theirs) = pair();
    assert!(ours.is_confirmed() && !theirs.is_confirmed());
    let datagram = sealed(&mut ours, 0, b"");
    let mut forged = datagram.clone();
    forged[HEADER_BYTES] ^= 1;
    assert_eq!(opened(&mut theirs, &forged), Err(Rejected::Forged));
    assert!(!theirs.is_confirmed());
    // Hundreds of sessions may wait for a first datagram that never arrives.
    let heap_bytes = theirs.windows.capacity() * size_of::<ReplayWindow>();
    assert!(heap_bytes + size_of::<Session>() < 4_000);
    assert!(opened(&mut theirs, &datagram).is_ok());
    assert!(theirs.is_confirmed());
}

#[test]
fn debug_shows_no_key() {
    let (ours, _) = pair();
    let shown = format!("{ours:?}");
    assert!(
        shown.starts_with("Session { local_index: 10, remote_index: 20"),
        "{shown}"
    );
    assert!(!shown.contains("[1, 1"), "{shown}");
}

#[test]
fn rejections_are_numbered_as_listed() {
    for (number, kind) in Rejected::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_open(
        mut datagram in prop::collection::vec(any::<u8>(), 0..200), is_addressed: bool,
    ) {
        let (_, mut theirs) = pair();
        if is_addressed && datagram.len() >= 6 {
            datagram[..6].copy_from_slice(&[3, 0, 0, 0, 0, 20]);
        }
        prop_assert!(theirs.open(&mut datagram).is_err());
    }
}
