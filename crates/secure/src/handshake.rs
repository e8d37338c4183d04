//! The handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s (Noise Protocol Framework, revision 34, §7.5).
//!
//! ```text
//! initiation, 166 bytes               response, 106 bytes
//! byte 0       kind, 1                byte 0      kind, 2
//! byte 1       protocol version, 4    bytes 1–4   receiver's session index
//! bytes 2–33   initiator's ephemeral  bytes 5–36  responder's ephemeral
//! bytes 34–81  initiator's static,    bytes 37–105 sealed: status, 1 byte, the responder's
//!              sealed                             session index, the session's reset
//! bytes 82–133 sealed: the                        token, 16 bytes, and its parameters, 32
//!              initiator's session
//!              index, and its
//!              parameters, 32 bytes
//! bytes 134–149 first mark
//! bytes 150–165 second mark, or zeros
//! ```
//!
//! An initiation of 182 bytes also has a pairing code of 16 bytes at the end of its sealed payload
//! (bytes 82–149); all else follows it. It is for a responder that does not know the initiator.
//!
//! The handshake carries the parameters of a session and does not read them ([`ParameterBlock`]).
//!
//! Integers are big-endian. Both sealed parts carry a 16-byte tag. Kinds, version and the
//! response's receiver index travel outside of Noise; each must have the one value that the
//! receiver expects. The marks (`mac.rs`) come after the Noise message and are checked before it.
//! In every version, byte 1 is the version and the last 32 bytes are the marks.
//!
//! # Freshness
//!
//! An initiation cannot show that it is no replay. Its answer is made with an ephemeral key of its
//! own, so only a live initiator can seal the first datagram of the session. Until that datagram
//! opens ([`Session::is_confirmed`](crate::Session::is_confirmed)), the session is a candidate that
//! replaces nothing. No end needs a clock or a counter that survives a restart.

mod error;
mod initiator;
mod parameter_block;
mod responder;
mod screen;

use snow::HandshakeState;
use zeroize::Zeroize;

use crate::keys::{SecretKey, noise_params};
use crate::kind::RESPONSE_INDEX_AT;
use crate::mac::{MAC_BYTES, Mac};
use crate::packet::{Agreement, Session};
use crate::pairing::CODE_BYTES;
use crate::reset::{ResetToken, TOKEN_BYTES};

pub use error::{HandshakeError, Refusal};
pub use initiator::{Initiator, Reply};
pub use parameter_block::{PARAMETERS_BYTES, ParameterBlock};
pub use responder::{Answer, Request, Responder};
pub use screen::Screen;

/// Length of an initiation.
pub const INITIATION_BYTES: usize = SECOND_MAC_AT + MAC_BYTES;
/// Length of an initiation with a pairing code.
pub const PAIRING_INITIATION_BYTES: usize = INITIATION_BYTES + CODE_BYTES;
/// Length of a response: shorter than an initiation, so that nobody can use a responder to amplify.
pub const RESPONSE_BYTES: usize = RESPONSE_NOISE_AT + RESPONSE_NOISE_BYTES + RESPONSE_PAYLOAD_BYTES;
/// Version of the whole protocol between the ends, not of the handshake alone. Ends of different
/// versions cannot have a session.
pub const VERSION: u8 = 4;

/// Name and [`VERSION`]: transcripts of different versions differ from the first hash on. The
/// version also fixes AES-256-GCM, and how its keys follow one another.
const PROLOGUE: &[u8] = b"anabranch 4";
const INDEX_BYTES: usize = 4;
const STATUS_BYTES: usize = 1;
/// Accepted; the responder had no session with the initiator.
const ACCEPTED: u8 = 0;
/// Accepted, to replace a session that the responder has.
const ACCEPTED_REPLACEMENT: u8 = 3;
const INITIATION_PAYLOAD_BYTES: usize = INDEX_BYTES + PARAMETERS_BYTES;
const RESPONSE_PAYLOAD_BYTES: usize = STATUS_BYTES + INDEX_BYTES + TOKEN_BYTES + PARAMETERS_BYTES;
/// Bytes of Noise around the initiation's payload: two keys, and a tag behind the second and behind
/// the payload.
const INITIATION_NOISE_BYTES: usize = 2 * (32 + 16);
/// Bytes of Noise around the response's payload: a key and a tag.
const RESPONSE_NOISE_BYTES: usize = 32 + 16;
const VERSION_AT: usize = 1;
const INITIATION_NOISE_AT: usize = 2;
const FIRST_MAC_AT: usize = INITIATION_NOISE_AT + INITIATION_NOISE_BYTES + INITIATION_PAYLOAD_BYTES;
const SECOND_MAC_AT: usize = FIRST_MAC_AT + MAC_BYTES;
const MARKS_BYTES: usize = 2 * MAC_BYTES;
const RESPONSE_NOISE_AT: usize = RESPONSE_INDEX_AT + INDEX_BYTES;

/// A session that both ends know, and the parameters agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// The session.
    pub session: Session,
    /// Parameters that the responder has chosen, with the initiator's in view.
    pub parameters: ParameterBlock,
    /// Whether the responder had a session of the same kind with the initiator, so that it was not
    /// restarted since.
    pub had_session: bool,
}

fn builder(local: &SecretKey) -> snow::Builder<'_> {
    snow::Builder::new(noise_params())
        .local_private_key(local.bytes())
        .and_then(|builder| builder.prologue(PROLOGUE))
        .expect("key and prologue are set once")
}

fn first_mac(initiation: &[u8]) -> &Mac {
    let marks = initiation.last_chunk::<MARKS_BYTES>();
    marks
        .and_then(|marks| marks.first_chunk())
        .expect("an initiation has room for two marks")
}

fn write_message(noise: &mut HandshakeState, payload: &[u8], message: &mut [u8]) {
    let written_bytes = noise
        .write_message(payload, message)
        .expect("the message has its exact length, and the operating system randomness to give");
    assert_eq!(
        written_bytes,
        message.len(),
        "the layout follows from the Noise pattern"
    );
}

/// Returns the session of a finished handshake. Noise's Split() gives the initiator's sending key
/// first (§5.2).
///
/// The raw keys go to another AEAD than the handshake's, for speed. That is sound because snow's
/// own transport under these keys is never made, and the prologue's version ties the keys to
/// AES-256-GCM.
fn split(
    noise: &mut HandshakeState,
    local_index: u32,
    remote_index: u32,
    reset_token: Option<ResetToken>,
) -> Session {
    assert!(
        noise.is_handshake_finished(),
        "only a finished handshake has authenticated keys"
    );
    let is_initiator = noise.is_initiator();
    let (mut first, mut second) = noise.dangerously_get_raw_split();
    let (sealing_key, opening_key) = if is_initiator {
        (&first, &second)
    } else {
        (&second, &first)
    };
    let session = Session::new(&Agreement {
        sealing_key,
        opening_key,
        local_index,
        remote_index,
        is_confirmed: is_initiator,
        reset_token,
    });
    first.zeroize();
    second.zeroize();
    session
}

fn big_endian_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("an index is four bytes"))
}

#[cfg(test)]
mod tests;
