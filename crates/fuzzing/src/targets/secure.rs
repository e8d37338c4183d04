//! Handshake and packet protection refuse any bytes that the other end did not make.

use std::sync::{LazyLock, Mutex};

use anabranch_secure::{
    Initiator, ParameterBlock, PublicKey, Reply, Responder, SecretKey, Session, VERSION,
};

use crate::{Bound, Meter, Target};

/// Ends that do not change by a datagram that they refuse.
struct Ends {
    responder: Responder,
    session: Session,
    keys: (SecretKey, PublicKey),
}

static ENDS: LazyLock<Mutex<Ends>> = LazyLock::new(|| {
    let [ours, theirs] = [SecretKey::generate(), SecretKey::generate()];
    let responder_key = theirs.public_key();
    let responder = Responder::new(theirs, [ours.public_key()]);
    let parameters = ParameterBlock::default();
    let mut initiator = Initiator::new(&ours, &responder_key, 2, parameters);
    let request = responder
        .read_initiation(initiator.message())
        .expect("an initiation");
    let answer = responder.accept(request, 1, false, parameters);
    let Ok(Reply::Agreed(agreed)) = initiator.handle_response(&answer.response) else {
        panic!("the responder has accepted");
    };
    let session = agreed.session;
    Mutex::new(Ends {
        responder,
        session,
        keys: (ours, responder_key),
    })
});

/// A session with its ciphers and replay windows, for any input.
const BOUND: Bound = Bound {
    fixed_bytes: 64 << 10,
    bytes_per_byte: 4,
};

/// Returns one datagram of each kind, with invalid contents.
fn seeds() -> Vec<Vec<u8>> {
    let lengths = [(1, 166), (2, 106), (3, 60), (4, 45), (5, 21), (6, 18)];
    lengths
        .map(|(kind, length)| [&[kind, VERSION][..], &vec![0; length - 2]].concat())
        .into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "secure",
    bound: BOUND,
    prepare: prepare_shared,
    seeds,
    run,
};

fn prepare_shared() {
    LazyLock::force(&ENDS);
}

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let mut ends = ENDS.lock().expect("the first panic ends all");
    let Ends {
        responder,
        session,
        keys: (ours, theirs),
    } = &mut *ends;
    // A new one each time: the fuzzer sees comparisons, and would find the mark of a fixed one.
    let parameters = ParameterBlock::default();
    let mut initiator = Initiator::new(ours, theirs, 1, parameters);
    assert!(responder.read_initiation(bytes).is_err());
    let _ = responder.version_notice(bytes);
    let source = ([192, 0, 2, 1], 7000).into();
    assert!(!responder.proves_address(source, bytes));
    let _ = responder.cookie_reply(source, bytes);
    assert!(initiator.handle_response(bytes).is_err());
    assert!(initiator.handle_cookie_reply(bytes).is_err());
    assert!(initiator.handle_version_notice(bytes).is_err());
    assert!(session.open(&mut bytes.to_vec()).is_err());
    meter.check(bytes.len());
}
