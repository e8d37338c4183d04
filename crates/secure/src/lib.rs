//! The session handshake and the protection of datagrams, sans-IO.
//!
//! Two ends that know each other's static keys ([`SecretKey`], [`PublicKey`]) exchange two
//! datagrams ([`Initiator`], [`Responder`]: Noise IK). Each end then holds a [`Session`], which
//! seals every datagram that leaves and opens every one that arrives. A driver does so at its edge:
//! after the transport's `poll_transmit` and before its `handle_datagram`. The transport itself
//! never sees a key; it only knows that each datagram grows by [`PROTECTION_OVERHEAD_BYTES`].
//!
//! The crate owns no socket, clock, thread or timer: the driver resends an initiation that was not
//! answered. It takes only randomness from the platform, from the operating system's generator, for
//! static and ephemeral keys. Everything else is a function of its inputs.
//!
//! ```
//! use anabranch_secure::{Initiator, ParameterBlock, Reply, Responder, SecretKey};
//!
//! let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
//! let studio_name = studio.public_key();
//! let responder = Responder::new(studio, [camera.public_key()]);
//!
//! // Two datagrams make a session.
//! let request = ParameterBlock::new([1; 32]);
//! let mut initiator = Initiator::new(&camera, &studio_name, 1, request);
//! responder.screen(initiator.message())?;
//! let request = responder.read_initiation(initiator.message())?;
//! assert_eq!(request.peer(), camera.public_key());
//! let parameters = *request.parameters();
//! let answer = responder.accept(request, 2, false, parameters);
//! let Reply::Agreed(agreed) = initiator.handle_response(&answer.response)? else {
//!     panic!("the responder has refused");
//! };
//!
//! // Each end seals its datagrams for a path, and opens those of the other.
//! let (mut camera, mut studio) = (agreed.session, answer.agreed.session);
//! let mut datagram = Vec::new();
//! camera.seal_append(0, b"a packet", &mut datagram)?;
//! assert_eq!(studio.open(&mut datagram)?.plaintext, b"a packet");
//! assert!(studio.is_confirmed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several paths, one session
//!
//! The handshake runs on any one path. Every other path then uses the same session under another
//! path id, with a counter and a replay window of its own, and needs no handshake. A datagram that
//! opens proves that its sender holds the session's key. It does *not* prove that its source
//! address is the peer's, as an attacker can forward a datagram from elsewhere. The driver
//! therefore believes an address after it has answered a challenge.
//!
//! # Routing
//!
//! Each end names a session by a 32-bit index of its own choosing. [`classify`] and
//! [`receiver_index`] read the fields by which a server finds the session without touching a key.
//!
//! The formats, and the attacks without a defence yet, are in `docs/protocol-security.md`.

mod counter;
mod framing;
mod handshake;
mod key_chain;
mod keys;
mod kind;
mod mac;
mod packet;
mod pairing;
mod replay;
mod reset;
mod text;

pub use framing::{Deframer, MAX_FRAMED_BYTES, STREAM_PREAMBLE, StreamError, append_framed};
pub use handshake::{
    Agreed, Answer, HandshakeError, INITIATION_BYTES, Initiator, PAIRING_INITIATION_BYTES,
    PARAMETERS_BYTES, ParameterBlock, RESPONSE_BYTES, Refusal, Reply, Request, Responder, Screen,
    VERSION,
};
pub use keys::{ParseKeyError, PublicKey, SecretKey};
pub use kind::{Kind, classify, receiver_index};
pub use mac::{COOKIE_REPLY_BYTES, Cookie, Mac, VERSION_NOTICE_BYTES};
pub use packet::{
    HEADER_BYTES, KEY_UPDATE_DATAGRAMS, MAX_PATHS, MAX_SEALED_COUNT, Opened,
    PROTECTION_OVERHEAD_BYTES, Rejected, SealError, Session, TAG_BYTES,
};
pub use pairing::{PairingCode, ParseCodeError};
pub use replay::REPLAY_WINDOW_DATAGRAMS;
pub use reset::RESET_BYTES;
