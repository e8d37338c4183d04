//! The handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s (Noise Protocol Framework, revision 34, §7.5).
//!
//! ```text
//! initiation, 144 bytes               response, 75 bytes
//! byte 0       kind, 1                byte 0      kind, 2
//! bytes 1–32   initiator's ephemeral  bytes 1–4   receiver's session index
//! bytes 33–80  initiator's static,    bytes 5–36  responder's ephemeral
//!              sealed                 bytes 37–74 sealed: the responder's session index, the
//! bytes 81–111 sealed: timestamp,                  session's reset token, 16 bytes, and the
//!              8 bytes, the initiator's            latency, 2 bytes
//!              session index, what the
//!              session carries, 1, and the
//!              latency wished for, 2 bytes
//! bytes 112–127 first mark
//! bytes 128–143 second mark, or zeros
//! ```
//!
//! Integers are big-endian. Both sealed parts carry a 16-byte tag. Only the kinds and the
//! response's receiver index travel outside of Noise; each must have the one value that the
//! receiver expects. The marks (`mac.rs`) come after the Noise message and are checked before it.

mod error;
mod wishes;

use core::fmt;
use core::net::SocketAddr;
use std::collections::BTreeMap;

use ring::hmac;
use snow::HandshakeState;
use snow::params::NoiseParams;
use zeroize::Zeroize;

use crate::keys::{PublicKey, SecretKey};
use crate::kind::{Kind, RESPONSE_INDEX_AT};
use crate::mac::{self, COOKIE_REPLY_BYTES, Cookie, CookieJar, MAC_BYTES, Mac};
use crate::packet::{Agreement, Session};
use crate::reset::{RESET_BYTES, ResetKey, ResetToken, TOKEN_BYTES};

pub use error::HandshakeError;
pub use wishes::{Cargo, Wishes};

/// Length of an initiation.
pub const INITIATION_BYTES: usize = SECOND_MAC_AT + MAC_BYTES;
/// Length of a response: shorter than what it answers, so that nobody can use a responder to
/// amplify.
pub const RESPONSE_BYTES: usize = 75;

const NOISE_PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Ends of different protocol versions do not understand each other: their transcripts differ from
/// the first hash on. Version 2 also fixes AES-256-GCM, and how its keys follow one another.
const PROLOGUE: &[u8] = b"anabranch 2";
const TIMESTAMP_BYTES: usize = 8;
const INDEX_BYTES: usize = 4;
const CARGO_BYTES: usize = 1;
const LATENCY_BYTES: usize = 2;
const INITIATION_PAYLOAD_BYTES: usize = TIMESTAMP_BYTES + INDEX_BYTES + CARGO_BYTES + LATENCY_BYTES;
const RESPONSE_PAYLOAD_BYTES: usize = INDEX_BYTES + TOKEN_BYTES + LATENCY_BYTES;
const INITIATION_NOISE_AT: usize = 1;
const FIRST_MAC_AT: usize = INITIATION_NOISE_AT + 111;
const SECOND_MAC_AT: usize = FIRST_MAC_AT + MAC_BYTES;
const RESPONSE_NOISE_AT: usize = RESPONSE_INDEX_AT + INDEX_BYTES;

/// A session that both ends know, and what they agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// The session.
    pub session: Session,
    /// The larger of both ends' wishes, in milliseconds; 0: neither has one.
    pub latency_millis: u16,
}

/// The end that opens a session, during the handshake.
pub struct Initiator {
    /// `None` once the response has come.
    noise: Option<HandshakeState>,
    local_index: u32,
    remote: PublicKey,
    /// Without a second mark.
    initiation: [u8; INITIATION_BYTES],
}

impl Initiator {
    /// Starts a handshake from the holder of `local` to the holder of `remote`, for a session as
    /// `wishes` have it.
    ///
    /// `local_index` names the session at this end, and must be unique among this end's sessions.
    /// `timestamp_nanos` must be greater for every new handshake that `local` ever starts for the
    /// same cargo, over restarts too: nanoseconds since 1970 serve. The responder refuses what is
    /// not newer than the newest it has seen, so a clock that was once far ahead locks its owner
    /// out until that time has come, or until the responder is restarted.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn new(
        local: &SecretKey,
        remote: &PublicKey,
        local_index: u32,
        wishes: Wishes,
        timestamp_nanos: u64,
    ) -> Self {
        let mut noise = builder(local)
            .remote_public_key(remote.as_bytes())
            .and_then(snow::Builder::build_initiator)
            .expect("every field of Noise IK's initiator is set, once");
        let mut payload = [0; INITIATION_PAYLOAD_BYTES];
        let (timestamp, rest) = payload.split_at_mut(TIMESTAMP_BYTES);
        let (index, rest) = rest.split_at_mut(INDEX_BYTES);
        let (carried, latency) = rest.split_at_mut(CARGO_BYTES);
        timestamp.copy_from_slice(&timestamp_nanos.to_be_bytes());
        index.copy_from_slice(&local_index.to_be_bytes());
        carried[0] = wishes.cargo as u8;
        latency.copy_from_slice(&wishes.latency_millis.to_be_bytes());
        let mut initiation = [0; INITIATION_BYTES];
        initiation[0] = Kind::Initiation as u8;
        let (marked, macs) = initiation.split_at_mut(FIRST_MAC_AT);
        write_message(&mut noise, &payload, &mut marked[INITIATION_NOISE_AT..]);
        macs[..MAC_BYTES].copy_from_slice(&mac::mac(&mac::first_key(remote), marked));
        Initiator {
            noise: Some(noise),
            local_index,
            remote: *remote,
            initiation,
        }
    }

    /// The initiation to send, and to send again, the very same, until the response comes: the
    /// driver decides when. An initiation that was received twice gets the same response twice.
    pub fn message(&self) -> &[u8; INITIATION_BYTES] {
        &self.initiation
    }

    /// The same initiation for a responder under load, which answers only to those that it gave a
    /// cookie. A cookie is good for the address that the responder saw it asked from.
    pub fn message_with(&self, cookie: &Cookie) -> [u8; INITIATION_BYTES] {
        let mut initiation = self.initiation;
        let (marked, second) = initiation.split_at_mut(SECOND_MAC_AT);
        second.copy_from_slice(&cookie.mac(marked));
        initiation
    }

    /// The cookie of a reply to [`message`](Self::message): send
    /// [`message_with`](Self::message_with) it from the same address.
    ///
    /// # Errors
    /// [`HandshakeError::Forged`] if the responder did not make it in answer to this initiation.
    pub fn handle_cookie_reply(&self, datagram: &[u8]) -> Result<Cookie, HandshakeError> {
        Cookie::open(&self.remote, first_mac(&self.initiation), datagram)
            .ok_or(HandshakeError::Forged)
    }

    /// The index that the response will be addressed to.
    pub fn local_index(&self) -> u32 {
        self.local_index
    }

    /// Completes the handshake.
    ///
    /// # Errors
    /// Why the datagram is to be dropped. The handshake goes on as if it had not come.
    pub fn handle_response(&mut self, datagram: &[u8]) -> Result<Agreed, HandshakeError> {
        let message = noise_message(datagram, Kind::Response, RESPONSE_NOISE_AT, RESPONSE_BYTES)?;
        let receiver_index = big_endian_u32(&datagram[RESPONSE_INDEX_AT..RESPONSE_NOISE_AT]);
        if receiver_index != self.local_index {
            return Err(HandshakeError::WrongSession);
        }
        let noise = self.noise.as_mut().ok_or(HandshakeError::AlreadyComplete)?;
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        noise
            .read_message(message, &mut payload)
            .map_err(|_| HandshakeError::Forged)?;
        let (index, rest) = payload.split_at(INDEX_BYTES);
        let (token, latency) = rest.split_at(TOKEN_BYTES);
        let token = token.try_into().expect("a token follows the index");
        let token = ResetToken::from_bytes(token);
        let session = split(noise, self.local_index, big_endian_u32(index), Some(token));
        self.noise = None;
        Ok(Agreed {
            session,
            latency_millis: big_endian_u16(latency),
        })
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("local_index", &self.local_index)
            .field("is_complete", &self.noise.is_none())
            .finish_non_exhaustive()
    }
}

/// What a [`Responder`] makes of an initiation that it accepts.
#[derive(Debug)]
pub struct Answer {
    /// Who is at the other end, authenticated.
    pub peer: PublicKey,
    /// What the session is to carry.
    pub cargo: Cargo,
    /// The datagram to send back to where the initiation came from.
    pub response: [u8; RESPONSE_BYTES],
    /// The new session; `None` if the initiation is a resend of the peer's newest, whose session
    /// the caller already has. See [`Session::is_confirmed`] for when it may replace an older one.
    pub agreed: Option<Agreed>,
}

/// The end that waits for sessions. It knows whom it lets in, and of each peer and cargo the newest
/// initiation with its response: its memory is bounded by the number of allowed peers.
pub struct Responder {
    local: SecretKey,
    first_mac_key: hmac::Key,
    cookies: CookieJar,
    reset_key: ResetKey,
    carried: Vec<Cargo>,
    latency_millis: u16,
    /// By cargo.
    peers: BTreeMap<PublicKey, [Option<Answered>; Cargo::ALL.len()]>,
    refused_counts: [u64; HandshakeError::ALL.len()],
}

/// A peer's newest initiation of a session with one cargo.
struct Answered {
    timestamp_nanos: u64,
    /// All of it but the second mark, which a resend may have got since.
    initiation: [u8; SECOND_MAC_AT],
    response: [u8; RESPONSE_BYTES],
}

impl Responder {
    /// A responder that lets in the holders of the `allowed` keys, and nobody if there are none,
    /// with sessions that carry what is in `carried`.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn new(
        local: SecretKey,
        allowed: impl IntoIterator<Item = PublicKey>,
        carried: &[Cargo],
    ) -> Self {
        let none = || [const { None }; Cargo::ALL.len()];
        let peers = allowed.into_iter().map(|key| (key, none())).collect();
        let public = local.public_key();
        Responder {
            first_mac_key: mac::first_key(&public),
            cookies: CookieJar::new(&public),
            reset_key: ResetKey::new(&local),
            local,
            carried: carried.to_vec(),
            latency_millis: 0,
            peers,
            refused_counts: [0; HandshakeError::ALL.len()],
        }
    }

    /// How long media may take, in milliseconds, as this end wishes; 0: no wish.
    pub fn set_latency_millis(&mut self, latency_millis: u16) {
        self.latency_millis = latency_millis;
    }

    /// Lets in the holders of these keys from now on, and nobody else. What is known of those who
    /// stay is kept.
    pub fn set_allowed(&mut self, allowed: &[PublicKey]) {
        self.peers.retain(|key, _| allowed.contains(key));
        for key in allowed {
            let none = || [const { None }; Cargo::ALL.len()];
            self.peers.entry(*key).or_insert_with(none);
        }
    }

    /// Whether `datagram` looks like an initiation by someone who knows this end's public key. It
    /// takes a microsecond, where a handshake takes hundreds; a refusal is counted.
    ///
    /// # Errors
    /// [`HandshakeError::Malformed`] or [`HandshakeError::WrongMac`].
    pub fn screen(&mut self, datagram: &[u8]) -> Result<(), HandshakeError> {
        let screened = self.is_marked(datagram);
        if let Err(kind) = screened {
            self.refused_counts[kind as usize] += 1;
        }
        screened
    }

    /// Whether an initiation's maker has the cookie of the address that it came from.
    pub fn proves_address(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        datagram
            .split_at_checked(SECOND_MAC_AT)
            .and_then(|(marked, mac)| Some((marked, mac.try_into().ok()?)))
            .is_some_and(|(marked, mac)| self.cookies.proves(source, marked, mac))
    }

    /// What a responder under load answers to an initiation that [`screen`](Self::screen) let pass:
    /// how its maker proves that it receives at `source`. `None` for any other datagram. Nothing is
    /// kept.
    pub fn cookie_reply(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Option<[u8; COOKIE_REPLY_BYTES]> {
        let initiation = datagram.try_into().ok()?;
        Some(self.cookies.reply(source, first_mac(initiation)))
    }

    /// Makes cookies of another secret from now on. Those made before stay good until the next
    /// call: every two minutes serves.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn rotate_cookies(&mut self) {
        self.cookies.rotate();
    }

    /// Answers an initiation. `local_index` is to name the new session at this end and must be
    /// unique among this end's sessions; a resent initiation does not use it.
    ///
    /// # Errors
    /// Why the datagram is to be dropped without an answer; also counted.
    pub fn handle_initiation(
        &mut self,
        local_index: u32,
        datagram: &[u8],
    ) -> Result<Answer, HandshakeError> {
        self.screen(datagram)?;
        // Before any public-key cryptography: resends are cheap to answer, and replays of the
        // newest initiation too.
        if let Some(answer) = self.resent(datagram) {
            return Ok(answer);
        }
        let answer = self.answer(local_index, datagram);
        if let Err(kind) = answer {
            self.refused_counts[kind as usize] += 1;
        }
        answer
    }

    /// Initiations refused so far for the reason `kind`.
    pub fn refused_count(&self, kind: HandshakeError) -> u64 {
        self.refused_counts[kind as usize]
    }

    /// What to answer a protected datagram with that is addressed to a session `local_index` which
    /// this end does not have: it proves to that session's initiator, and to nobody else, that it
    /// is so. Whoever holds the key makes the same, before a restart and after.
    ///
    /// Not for an index that is in use; in answer to longer datagrams only; and not without a limit
    /// of their rate.
    pub fn reset(&self, local_index: u32) -> [u8; RESET_BYTES] {
        self.reset_key.reset(local_index)
    }

    fn is_marked(&self, datagram: &[u8]) -> Result<(), HandshakeError> {
        noise_message(
            datagram,
            Kind::Initiation,
            INITIATION_NOISE_AT,
            INITIATION_BYTES,
        )?;
        let (marked, macs) = datagram.split_at(FIRST_MAC_AT);
        let claimed = macs.first_chunk().ok_or(HandshakeError::Malformed)?;
        match mac::is_mac(&self.first_mac_key, marked, claimed) {
            true => Ok(()),
            false => Err(HandshakeError::WrongMac),
        }
    }

    /// The answer to an initiation that [`screen`](Self::screen) let pass, if it is a resend of a
    /// peer's newest: it costs no public-key work.
    pub fn resent(&self, datagram: &[u8]) -> Option<Answer> {
        let marked = datagram.get(..SECOND_MAC_AT)?;
        let answered = self.peers.iter().flat_map(|(peer, answered)| {
            let of_cargo = Cargo::ALL.into_iter().zip(answered);
            of_cargo.filter_map(move |(cargo, answered)| Some((peer, cargo, answered.as_ref()?)))
        });
        let mut same = answered.filter(|(_, _, answered)| answered.initiation == marked);
        same.next().map(|(peer, cargo, answered)| Answer {
            peer: *peer,
            cargo,
            response: answered.response,
            agreed: None,
        })
    }

    fn answer(&mut self, local_index: u32, datagram: &[u8]) -> Result<Answer, HandshakeError> {
        let message = &datagram[INITIATION_NOISE_AT..FIRST_MAC_AT];
        let mut noise = builder(&self.local)
            .build_responder()
            .expect("every field of Noise IK's responder is set, once");
        let mut payload = [0; INITIATION_PAYLOAD_BYTES];
        noise
            .read_message(message, &mut payload)
            .map_err(|_| HandshakeError::Forged)?;
        let peer = noise
            .get_remote_static()
            .and_then(|key| key.try_into().ok().map(PublicKey::claimed))
            .ok_or(HandshakeError::NotAllowed)?;
        let of_peer = self
            .peers
            .get_mut(&peer)
            .ok_or(HandshakeError::NotAllowed)?;
        let (timestamp, rest) = payload
            .split_first_chunk()
            .expect("the payload is longer than its timestamp");
        let (index, rest) = rest.split_at(INDEX_BYTES);
        let (cargo, latency) = rest.split_at(CARGO_BYTES);
        let latency_millis = self.latency_millis.max(big_endian_u16(latency));
        let cargo = Cargo::ALL.get(usize::from(cargo[0])).copied();
        let is_carried = |cargo: &Cargo| self.carried.contains(cargo);
        let cargo = cargo.filter(is_carried).ok_or(HandshakeError::NotCarried)?;
        let newest = &mut of_peer[cargo as usize];
        let timestamp_nanos = u64::from_be_bytes(*timestamp);
        if newest
            .as_ref()
            .is_some_and(|newest| timestamp_nanos <= newest.timestamp_nanos)
        {
            return Err(HandshakeError::Stale);
        }

        let remote_index = big_endian_u32(index);
        let mut response = [0; RESPONSE_BYTES];
        response[0] = Kind::Response as u8;
        response[RESPONSE_INDEX_AT..RESPONSE_NOISE_AT].copy_from_slice(&remote_index.to_be_bytes());
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        let (index, rest) = payload.split_at_mut(INDEX_BYTES);
        let (token, latency) = rest.split_at_mut(TOKEN_BYTES);
        latency.copy_from_slice(&latency_millis.to_be_bytes());
        index.copy_from_slice(&local_index.to_be_bytes());
        token.copy_from_slice(self.reset_key.token(local_index).as_bytes());
        write_message(&mut noise, &payload, &mut response[RESPONSE_NOISE_AT..]);
        let mut initiation = [0; SECOND_MAC_AT];
        initiation.copy_from_slice(&datagram[..SECOND_MAC_AT]);
        *newest = Some(Answered {
            timestamp_nanos,
            initiation,
            response,
        });
        Ok(Answer {
            peer,
            cargo,
            response,
            agreed: Some(Agreed {
                session: split(&mut noise, local_index, remote_index, None),
                latency_millis,
            }),
        })
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("allowed", &self.peers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

pub(crate) fn noise_params() -> NoiseParams {
    NOISE_PROTOCOL
        .parse()
        .expect("snow knows its own name for Noise IK")
}

fn builder(local: &SecretKey) -> snow::Builder<'_> {
    snow::Builder::new(noise_params())
        .local_private_key(local.bytes())
        .and_then(|builder| builder.prologue(PROLOGUE))
        .expect("key and prologue are set once")
}

/// The Noise message of a datagram with the expected kind and length.
fn noise_message(
    datagram: &[u8],
    kind: Kind,
    from: usize,
    length_bytes: usize,
) -> Result<&[u8], HandshakeError> {
    if datagram.len() == length_bytes && datagram[0] == kind as u8 {
        Ok(&datagram[from..])
    } else {
        Err(HandshakeError::Malformed)
    }
}

fn first_mac(initiation: &[u8; INITIATION_BYTES]) -> &Mac {
    initiation[FIRST_MAC_AT..]
        .first_chunk()
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

/// The session of a finished handshake. Noise's Split() gives the initiator's sending key first
/// (§5.2).
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

fn big_endian_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes.try_into().expect("two bytes"))
}

#[cfg(test)]
mod tests;
