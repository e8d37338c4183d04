//! Protected datagrams: an established session seals and opens them in place.
//!
//! ```text
//! byte 0      kind, 3
//! byte 1      bits 0–4 path id, bit 5 zero, bits 6–7 the key's generation modulo 4
//! bytes 2–5   the receiver's session index, big-endian
//! bytes 6–9   low 32 bits of the path's counter, big-endian
//! bytes 10…   ciphertext, as long as the plaintext
//! last 16     tag
//! ```
//!
//! The AEAD is AES-256-GCM under one key per direction. The first ten bytes are its additional
//! data. Its nonce is the path id as 32 bits and the path's counter as 64 bits, both big-endian. No
//! two datagrams of a key share a nonce: the paths' counters are independent and may be equal.
//!
//! # Limits of AES-GCM
//!
//! A key's secrecy wears with the blocks it encrypts: an attacker's advantage in distinguishing AES
//! from a random function grows to about s²/2¹²⁹ with s blocks of 16 bytes. So each direction takes
//! another key (`key_chain.rs`) after [`KEY_UPDATE_DATAGRAMS`]: with datagrams of 9,000 bytes that
//! is 2⁻⁶⁶ a key, where QUIC allows 2⁻⁵⁷ (RFC 9001 §B.1.1).
//!
//! # Key updates
//!
//! Like QUIC's (RFC 9001 §6), but without an answer. The sealing end takes the next key at any time
//! and indicates it in the header. The opening end takes it when a datagram opens with it, and
//! keeps the key before for datagrams that were overtaken. Two bits distinguish next from previous
//! on a path that was silent for more than a generation, which QUIC's one bit could not.

use core::fmt;

use ring::aead::{Aad, LessSafeKey, Nonce};
use thiserror::Error;

use crate::counter;
use crate::key_chain::KeyChain;
use crate::kind::{DATA_INDEX_AT, Kind};
use crate::replay::{Freshness, ReplayWindow};
use crate::reset::ResetToken;

/// Bytes before a datagram's ciphertext.
pub const HEADER_BYTES: usize = 10;
/// Bytes behind a datagram's ciphertext.
pub const TAG_BYTES: usize = 16;
/// Number of bytes by which a protected datagram exceeds its plaintext.
pub const PROTECTION_OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// Maximum number of paths of a session: path ids are 0 to one less.
pub const MAX_PATHS: usize = 32;
/// Number of datagrams that a session seals, over all paths, before it refuses. No counter comes
/// near 2⁶⁴, so no nonce repeats; at a million datagrams a second it takes 36,000 years.
pub const MAX_SEALED_COUNT: u64 = 1 << 60;
/// Number of datagrams that one key seals, over all paths, before the next key does.
pub const KEY_UPDATE_DATAGRAMS: u64 = 1 << 22;

const COUNTER_AT: usize = 6;
/// Position of a key's generation in the byte of the path id.
const GENERATION_SHIFT: u32 = 6;
/// The bits of that byte that are the path id; the one between stays zero.
const PATH_MASK: u8 = MAX_PATHS as u8 - 1;
const GENERATIONS: u8 = 4;

/// Reason for which a session refuses to seal: the caller's mistake, or a key that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SealError {
    /// The path does not exist.
    #[error("path {path_id} is out of range: path ids are 0 to {}", MAX_PATHS - 1)]
    PathOutOfRange {
        /// The requested path.
        path_id: u8,
    },
    /// The buffer has no room for header and tag around the plaintext.
    #[error(
        "a datagram of {datagram_bytes} bytes has no room for header and tag, \
         {PROTECTION_OVERHEAD_BYTES} bytes together"
    )]
    NoRoom {
        /// Length of the buffer for the datagram.
        datagram_bytes: usize,
    },
    /// The session has sealed [`MAX_SEALED_COUNT`] datagrams; only a new handshake helps.
    #[error("the session's keys are used up: make a new handshake")]
    KeyExhausted,
}

/// Reason for which an arriving datagram was dropped. Any of these may come from chance or from an
/// attacker; the kind is for counters. All but `Forged` are found without the key, so they rely on
/// unauthenticated fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Rejected {
    /// Shorter than header and tag.
    #[error("too short")]
    TooShort,
    /// The first byte is not a protected datagram's.
    #[error("unknown kind")]
    UnknownKind,
    /// Addressed to another session.
    #[error("wrong session")]
    WrongSession,
    /// A path id that is never sealed.
    #[error("path out of range")]
    PathOutOfRange,
    /// Its counter was accepted before on its path.
    #[error("replayed")]
    Replayed,
    /// Its counter trails the path's greatest by more than
    /// [`REPLAY_WINDOW_DATAGRAMS`](crate::REPLAY_WINDOW_DATAGRAMS), beyond the memory of the
    /// window.
    #[error("too old")]
    TooOld,
    /// The datagram was not sealed by the peer with this header, or changed since, or its key is
    /// gone.
    #[error("forged")]
    Forged,
}

impl Rejected {
    /// Every kind, in the order of [`Session::open`]'s checks.
    pub const ALL: [Rejected; 7] = [
        Rejected::TooShort,
        Rejected::UnknownKind,
        Rejected::WrongSession,
        Rejected::PathOutOfRange,
        Rejected::Replayed,
        Rejected::TooOld,
        Rejected::Forged,
    ];
}

/// Content of a datagram that [`Session::open`] has opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// The path that the peer sealed it for, below [`MAX_PATHS`]. Authenticated, unlike the
    /// addresses of the datagram.
    pub path_id: u8,
    /// The datagram's counter, which grows with every datagram sealed for the path. It shows which
    /// of two is newer.
    pub counter: u64,
    /// The plaintext, inside the caller's buffer.
    pub plaintext: &'a mut [u8],
}

/// An established session: AEAD keys for each direction, and per path a counter and a replay
/// window. It takes about 3 kB, and 8 kB more from the first datagram that opens, as a responder
/// may hold many that are never confirmed. It allocates nothing after that.
pub struct Session {
    sealing: SealingKeys,
    opening: OpeningKeys,
    local_index: u32,
    remote_index: u32,
    /// Counter of the next datagram to be sealed, by path.
    next_counters: [u64; MAX_PATHS],
    sealed_count: u64,
    /// Window of each path; empty before the first datagram opens.
    windows: Vec<ReplayWindow>,
    rejected_counts: [u64; Rejected::ALL.len()],
    is_confirmed: bool,
    /// The initiator's proof that the responder no longer has the session.
    reset_token: Option<ResetToken>,
}

/// Keys and indices that a handshake agrees on for its session.
pub(crate) struct Agreement<'a> {
    pub(crate) sealing_key: &'a [u8; 32],
    pub(crate) opening_key: &'a [u8; 32],
    pub(crate) local_index: u32,
    pub(crate) remote_index: u32,
    /// Whether the peer has proven to hold the keys, as opposed to having sent an initiation once.
    pub(crate) is_confirmed: bool,
    pub(crate) reset_token: Option<ResetToken>,
}

impl Session {
    pub(crate) fn new(agreement: &Agreement<'_>) -> Self {
        Session {
            sealing: SealingKeys::new(agreement.sealing_key),
            opening: OpeningKeys::new(agreement.opening_key),
            local_index: agreement.local_index,
            remote_index: agreement.remote_index,
            next_counters: [0; MAX_PATHS],
            sealed_count: 0,
            windows: Vec::new(),
            rejected_counts: [0; Rejected::ALL.len()],
            is_confirmed: agreement.is_confirmed,
            reset_token: agreement.reset_token,
        }
    }

    /// Returns the index that this end chose: the [`receiver_index`](crate::receiver_index) of
    /// arriving datagrams.
    pub fn local_index(&self) -> u32 {
        self.local_index
    }

    /// Returns the index that the peer chose: the [`receiver_index`](crate::receiver_index) of
    /// outgoing datagrams.
    pub fn remote_index(&self) -> u32 {
        self.remote_index
    }

    /// Returns whether the peer has proven to hold this session's keys. True from the start for the
    /// initiator; for the responder, once the first datagram opens.
    ///
    /// A replayed initiation makes a responder answer with a session that nobody holds. While this
    /// is false, a responder therefore sends only the response, and keeps an earlier session with
    /// the same peer.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Returns whether the datagram proves that the responder does not have this session: only the
    /// holder of its secret key could make it. Never true for a responder.
    pub fn is_reset(&self, datagram: &[u8]) -> bool {
        self.reset_token
            .is_some_and(|token| token.is_in(datagram, self.remote_index))
    }

    /// Returns the number of datagrams sealed so far, over all paths; at most [`MAX_SEALED_COUNT`].
    pub fn sealed_count(&self) -> u64 {
        self.sealed_count
    }

    /// Returns the number that the next datagram sealed for the path `path_id` gets in its header;
    /// `None` if there can be no such path.
    pub fn next_number(&self, path_id: u8) -> Option<u64> {
        self.next_counters.get(usize::from(path_id)).copied()
    }

    /// Returns the number of datagrams that [`open`](Self::open) rejected so far for the reason
    /// `kind`.
    pub fn rejected_count(&self, kind: Rejected) -> u64 {
        self.rejected_counts[kind as usize]
    }

    /// Seals a datagram in place for the path `path_id`. The plaintext is between [`HEADER_BYTES`]
    /// free bytes before it and [`TAG_BYTES`] behind it. Afterwards all of `datagram` must be sent,
    /// once. (Sent twice, the second copy is a replay.)
    ///
    /// # Errors
    /// [`SealError`]; `datagram` is then unchanged.
    pub fn seal(&mut self, path_id: u8, datagram: &mut [u8]) -> Result<(), SealError> {
        let datagram_bytes = datagram.len();
        let next_counter = self
            .next_counters
            .get_mut(usize::from(path_id))
            .ok_or(SealError::PathOutOfRange { path_id })?;
        if datagram_bytes < PROTECTION_OVERHEAD_BYTES {
            return Err(SealError::NoRoom { datagram_bytes });
        }
        if self.sealed_count >= MAX_SEALED_COUNT {
            return Err(SealError::KeyExhausted);
        }
        let counter = *next_counter;
        *next_counter += 1;
        self.sealed_count += 1;
        self.sealing.count();

        let (header, rest) = datagram.split_at_mut(HEADER_BYTES);
        let (plaintext, tag_room) = rest.split_at_mut(datagram_bytes - PROTECTION_OVERHEAD_BYTES);
        let marked_path = path_id | self.sealing.generation << GENERATION_SHIFT;
        header.copy_from_slice(&header_bytes(marked_path, self.remote_index, counter));
        let tag = self
            .sealing
            .key
            .seal_in_place_separate_tag(nonce(path_id, counter), Aad::from(&*header), plaintext)
            .expect("a datagram is far below AES-GCM's limit of 64 GiB");
        tag_room.copy_from_slice(tag.as_ref());
        Ok(())
    }

    /// Seals with the next key from now on, unless this one has sealed nothing. It must not be
    /// called more often than the peer is known to receive: an end that misses all datagrams of a
    /// generation opens none after it.
    pub fn update_key(&mut self) {
        if self.sealing.sealed_count > 0 {
            self.sealing.update();
        }
    }

    /// Appends `plaintext`, sealed for the path `path_id`, to `datagrams`. It builds a batch from
    /// plaintexts without room around them, at the price of one copy. It allocates only if
    /// `datagrams` has no capacity left.
    ///
    /// # Errors
    /// [`SealError`]; `datagrams` is then unchanged.
    pub fn seal_append(
        &mut self,
        path_id: u8,
        plaintext: &[u8],
        datagrams: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let from = datagrams.len();
        datagrams.extend_from_slice(&[0; HEADER_BYTES]);
        datagrams.extend_from_slice(plaintext);
        datagrams.extend_from_slice(&[0; TAG_BYTES]);
        let sealed = self.seal(path_id, &mut datagrams[from..]);
        if sealed.is_err() {
            datagrams.truncate(from);
        }
        sealed
    }

    /// Opens an arrived datagram in place.
    ///
    /// # Errors
    /// [`Rejected`], which is also counted. The datagram is then to be dropped, its bytes may be
    /// overwritten, and the session is as it was.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<Opened<'a>, Rejected> {
        let opened = self.try_open(datagram);
        if let Err(kind) = opened {
            self.rejected_counts[kind as usize] += 1;
        }
        opened
    }

    /// Opens a datagram that [`open`](Self::open) has rejected as [`Rejected::Replayed`], to learn
    /// that it is authentic and from where a copy came. Its content must not be used again.
    ///
    /// # Errors
    /// As of [`open`](Self::open); uncounted.
    pub fn open_replayed<'a>(&mut self, datagram: &'a mut [u8]) -> Result<Opened<'a>, Rejected> {
        let (_, opened) = self.decrypt(datagram, Freshness::Replayed)?;
        Ok(opened)
    }

    fn try_open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<Opened<'a>, Rejected> {
        let (generation, opened) = self.decrypt(datagram, Freshness::Fresh)?;
        self.opening.on_opened(generation);
        // Only once: the first datagram that opens.
        self.windows.resize_with(MAX_PATHS, ReplayWindow::default);
        self.windows[usize::from(opened.path_id)].accept(opened.counter);
        self.is_confirmed = true;
        Ok(opened)
    }

    /// Opens a datagram if it is as fresh as `wanted`; returns the generation of its key, too.
    fn decrypt<'a>(
        &mut self,
        datagram: &'a mut [u8],
        wanted: Freshness,
    ) -> Result<(u8, Opened<'a>), Rejected> {
        if datagram.len() < PROTECTION_OVERHEAD_BYTES {
            return Err(Rejected::TooShort);
        }
        let (header, sealed) = datagram
            .split_first_chunk_mut::<HEADER_BYTES>()
            .ok_or(Rejected::TooShort)?;
        let [kind, marked_path, index @ .., c0, c1, c2, c3] = *header;
        if kind != Kind::Data as u8 {
            return Err(Rejected::UnknownKind);
        }
        if u32::from_be_bytes(index) != self.local_index {
            return Err(Rejected::WrongSession);
        }
        let generation = marked_path >> GENERATION_SHIFT;
        let path_id = marked_path & PATH_MASK;
        if marked_path != path_id | generation << GENERATION_SHIFT {
            return Err(Rejected::PathOutOfRange);
        }
        let window = self.windows.get(usize::from(path_id));
        let truncated = u32::from_be_bytes([c0, c1, c2, c3]);
        let expected = window.map_or(0, ReplayWindow::expected);
        let counter = counter::expand(truncated, expected);
        let freshness = window.map_or(Freshness::Fresh, |window| window.check(counter));
        if freshness != wanted {
            return Err(match freshness {
                Freshness::TooOld => Rejected::TooOld,
                Freshness::Fresh | Freshness::Replayed => Rejected::Replayed,
            });
        }
        let plaintext = self
            .opening
            .key(generation)
            .ok_or(Rejected::Forged)?
            .open_in_place(nonce(path_id, counter), Aad::from(&*header), sealed)
            .map_err(|_| Rejected::Forged)?;
        let opened = Opened {
            path_id,
            counter,
            plaintext,
        };
        Ok((generation, opened))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("local_index", &self.local_index)
            .field("remote_index", &self.remote_index)
            .field("sealed_count", &self.sealed_count)
            .field("sealing_generation", &self.sealing.generation)
            .field("is_confirmed", &self.is_confirmed)
            .finish_non_exhaustive()
    }
}

/// The sealing key, and the chain of later ones.
struct SealingKeys {
    key: LessSafeKey,
    /// Generation modulo [`GENERATIONS`].
    generation: u8,
    sealed_count: u64,
    max_sealed_count: u64,
    chain: KeyChain,
}

impl SealingKeys {
    fn new(secret: &[u8; 32]) -> Self {
        let mut chain = KeyChain::new(secret);
        SealingKeys {
            key: chain.next_key(),
            generation: 0,
            sealed_count: 0,
            max_sealed_count: KEY_UPDATE_DATAGRAMS,
            chain,
        }
    }

    /// Counts one more datagram, for the next key if this one has sealed enough.
    fn count(&mut self) {
        if self.sealed_count == self.max_sealed_count {
            self.update();
        }
        self.sealed_count += 1;
    }

    fn update(&mut self) {
        self.key = self.chain.next_key();
        self.generation = (self.generation + 1) % GENERATIONS;
        self.sealed_count = 0;
    }
}

/// The opening key and its neighbours.
struct OpeningKeys {
    previous: Option<LessSafeKey>,
    current: LessSafeKey,
    /// The next key, made when a datagram first claims it.
    next: Option<LessSafeKey>,
    /// Generation of the current key, modulo [`GENERATIONS`].
    generation: u8,
    chain: KeyChain,
}

impl OpeningKeys {
    fn new(secret: &[u8; 32]) -> Self {
        let mut chain = KeyChain::new(secret);
        OpeningKeys {
            previous: None,
            current: chain.next_key(),
            next: None,
            generation: 0,
            chain,
        }
    }

    fn ahead(&self, generation: u8) -> u8 {
        (generation + GENERATIONS - self.generation) % GENERATIONS
    }

    /// Returns the key of a generation, modulo [`GENERATIONS`]; `None` if it is neither the current
    /// one nor next to it.
    fn key(&mut self, generation: u8) -> Option<&LessSafeKey> {
        match self.ahead(generation) {
            0 => Some(&self.current),
            1 => Some(self.next.get_or_insert_with(|| self.chain.next_key())),
            2 => None,
            _ => self.previous.as_ref(),
        }
    }

    /// Takes the next key for the current one, once a datagram has opened with it.
    fn on_opened(&mut self, generation: u8) {
        if self.ahead(generation) == 1
            && let Some(next) = self.next.take()
        {
            self.previous = Some(core::mem::replace(&mut self.current, next));
            self.generation = generation;
        }
    }
}

fn header_bytes(marked_path: u8, receiver_index: u32, counter: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = Kind::Data as u8;
    header[1] = marked_path;
    header[DATA_INDEX_AT..COUNTER_AT].copy_from_slice(&receiver_index.to_be_bytes());
    header[COUNTER_AT..].copy_from_slice(&(counter as u32).to_be_bytes());
    header
}

fn nonce(path_id: u8, counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3] = path_id;
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests;
