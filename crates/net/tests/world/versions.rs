//! Ends of different versions of the protocol.

use anabranch_net::{Ended, Event, Refused, RefusedSender};
use anabranch_secure::{PublicKey, VERSION};
use ring::hmac;

use super::bed::{Bed, drain, line, millis};

/// Returns the first 16 bytes of an HMAC under a key that the public key `of` makes.
fn mark(label: &str, of: &PublicKey, parts: &[&[u8]]) -> [u8; 16] {
    let label = hmac::Key::new(hmac::HMAC_SHA256, label.as_bytes());
    let key = hmac::sign(&label, of.as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    let tag = hmac::sign(&key, &parts.concat());
    *tag.as_ref().first_chunk().unwrap()
}

/// Checks the formats of `docs/protocol-security.md` that are the same in every version.
#[test]
fn ends_of_different_versions_say_so() {
    let bed = Bed::new(1, &[line(10, 10)]);
    let receiver_public = bed.world.key("studio").public_key();
    // A receiver of a later version answers our sender, …
    let other = bed.world.stranger(4_000);
    let client = bed
        .client()
        .to(other.address())
        .connect_timeout(millis(1_000));
    let (_sender, events) = client.start().expect("a set-up");
    bed.world.run_for(millis(100));
    let asked_at = other.take_with_sources();
    let (sender, initiation) = asked_at.first().expect("an initiation");
    let length = initiation.len();
    let asked = &initiation[length - 32..length - 16];
    let version = VERSION + 1;
    let proof = mark("anabranch version", &receiver_public, &[&[version], asked]);
    other.send(*sender, &[&[6, version][..], &proof].concat());
    bed.world.run_for(millis(2_000));
    let expected = Refused::OtherVersion(version);
    let seen = drain(&events);
    assert!(seen.contains(&Event::Refused(expected)), "{seen:?}");
    assert!(
        seen.iter().any(|event| match event {
            Event::Ended(Ended::Refused { refused, .. }) => *refused == expected,
            _ => false,
        }),
        "{seen:?}"
    );
    // … and our receiver a sender of a later version, whose initiations are longer.
    drop(other.take());
    let (receiver, _sessions) = bed.receiver();
    let mut initiation = vec![7; 1_000];
    initiation[..2].copy_from_slice(&[1, version]);
    let asked = mark("anabranch mac1", &receiver_public, &[&initiation]);
    initiation.extend_from_slice(&asked);
    initiation.extend_from_slice(&[0; 16]);
    other.send(bed.address(), &initiation);
    bed.world.run_for(millis(100));
    let proof = mark("anabranch version", &receiver_public, &[&[VERSION], &asked]);
    assert_eq!(other.take(), [[&[6, VERSION][..], &proof].concat()]);
    let from = other.address();
    let expected = RefusedSender::OtherVersion { version, from };
    assert_eq!(receiver.take_refused_senders(), [expected]);
}
