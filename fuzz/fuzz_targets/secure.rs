//! Handshake and packet protection refuse any bytes that the other end did not make.
#![no_main]

use anabranch_secure::{Cargo, Initiator, Reply, Responder, SecretKey, Wishes};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static KEYS: LazyLock<[SecretKey; 2]> =
    LazyLock::new(|| [SecretKey::generate(), SecretKey::generate()]);

fuzz_target!(|bytes: &[u8]| {
    let [ours, theirs] = &*KEYS;
    let again = |key: &SecretKey| SecretKey::from_text(&key.to_text()).unwrap();
    let mut responder = Responder::new(again(theirs), [ours.public_key()]);
    assert!(responder.read_initiation(bytes).is_err());
    let _ = responder.version_notice(bytes);
    let source = ([192, 0, 2, 1], 7000).into();
    assert!(!responder.proves_address(source, bytes));
    let _ = responder.cookie_reply(source, bytes);
    let mut initiator = Initiator::new(ours, &theirs.public_key(), 2, Wishes::of(Cargo::Frames));
    assert!(initiator.handle_response(bytes).is_err());
    assert!(initiator.handle_cookie_reply(bytes).is_err());
    assert!(initiator.handle_version_notice(bytes).is_err());
    let request = responder.read_initiation(initiator.message()).unwrap();
    let answer = responder.accept(request, 1, false);
    let Ok(Reply::Agreed(agreed)) = initiator.handle_response(&answer.response) else {
        panic!("the responder has accepted");
    };
    let mut session = agreed.session;
    assert!(session.open(&mut bytes.to_vec()).is_err());
});
