//! Handshake and packet protection refuse any bytes that the other end did not make.
#![no_main]

use anabranch_secure::{Cargo, Initiator, Responder, SecretKey, Wishes};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static KEYS: LazyLock<[SecretKey; 2]> =
    LazyLock::new(|| [SecretKey::generate(), SecretKey::generate()]);

fuzz_target!(|bytes: &[u8]| {
    let [ours, theirs] = &*KEYS;
    let again = |key: &SecretKey| SecretKey::from_text(&key.to_text()).unwrap();
    let mut responder = Responder::new(again(theirs), [ours.public_key()], &[Cargo::Frames]);
    assert!(responder.handle_initiation(1, bytes).is_err());
    let source = ([192, 0, 2, 1], 7000).into();
    assert!(!responder.proves_address(source, bytes));
    let mut initiator = Initiator::new(ours, &theirs.public_key(), 2, Wishes::of(Cargo::Frames), 1);
    assert!(initiator.handle_response(bytes).is_err());
    assert!(initiator.handle_cookie_reply(bytes).is_err());
    let answer = responder.handle_initiation(1, initiator.message()).unwrap();
    let mut session = initiator.handle_response(&answer.response).unwrap().session;
    assert!(session.open(&mut bytes.to_vec()).is_err());
});
