//! Reasons for which a connection is refused (draft-sharabayko-srt-01, §4.3; libsrt's
//! `SRT_REJECT_REASON` and access control codes).

use core::fmt;

/// Reason of a refusal. Codes and words are those of libsrt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The peer refused, and has no more to say.
    Peer,
    /// There is no place for another connection.
    Resource,
    /// The handshake is malformed.
    Rogue,
    /// The listener ends.
    Close,
    /// The version of the protocol is too old.
    Version,
    /// Rendezvous mode, or a wrong cookie.
    RendezvousCookie,
    /// The passphrases differ.
    BadSecret,
    /// One end has a passphrase and the other one has none.
    Unsecure,
    /// A stream of bytes is asked for instead of messages.
    MessageApi,
    /// Another congestion controller than `live`: file mode.
    Congestion,
    /// A packet filter, such as FEC.
    Filter,
    /// A bonding group.
    Group,
    /// The cipher is unknown, such as AES-GCM.
    Crypto,
    /// There is no stream of this ID.
    NotFound,
    /// Another caller has the stream already.
    Conflict,
    /// Another code.
    Other(u32),
}

/// Codes and words of all reasons but [`Rejection::Other`].
const ALL: [(Rejection, u32, &str); 15] = [
    (Rejection::Peer, 1_002, "the peer refused the connection"),
    (
        Rejection::Resource,
        1_003,
        "no place for another connection",
    ),
    (Rejection::Rogue, 1_004, "malformed handshake"),
    (Rejection::Close, 1_007, "the listener ends"),
    (Rejection::Version, 1_008, "the peer's version is too old"),
    (
        Rejection::RendezvousCookie,
        1_009,
        "rendezvous is not spoken here",
    ),
    (Rejection::BadSecret, 1_010, "wrong passphrase"),
    (
        Rejection::Unsecure,
        1_011,
        "only one end has a passphrase; both or none must have it",
    ),
    (
        Rejection::MessageApi,
        1_012,
        "stream mode is not spoken here",
    ),
    (Rejection::Congestion, 1_013, "file mode is not spoken here"),
    (
        Rejection::Filter,
        1_014,
        "packet filters (FEC) are not spoken here",
    ),
    (
        Rejection::Group,
        1_015,
        "bonding groups are not spoken here",
    ),
    (Rejection::Crypto, 1_017, "the cipher is not AES-CTR"),
    (Rejection::NotFound, 2_404, "no stream of this ID"),
    (Rejection::Conflict, 2_409, "another caller has this stream"),
];

impl Rejection {
    /// Returns the reason of a handshake's type.
    pub fn of(code: u32) -> Self {
        let known = ALL.iter().find(|(_, its, _)| *its == code);
        known.map_or(Rejection::Other(code), |(rejection, ..)| *rejection)
    }

    /// Returns the code.
    pub fn code(self) -> u32 {
        if let Rejection::Other(code) = self {
            return code;
        }
        let known = ALL.iter().find(|(its, ..)| *its == self);
        known.map_or(1_000, |(_, code, _)| *code)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ALL.iter().find(|(its, ..)| its == self) {
            Some((_, _, words)) => f.write_str(words),
            None => write!(f, "refused with SRT's code {}", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_libsrt() {
        for (rejection, code, words) in ALL {
            assert_eq!(Rejection::of(code), rejection);
            assert_eq!(
                (rejection.code(), rejection.to_string().as_str()),
                (code, words)
            );
        }
        assert_eq!(Rejection::BadSecret.code(), 1_010);
        assert_eq!(Rejection::of(3_000), Rejection::Other(3_000));
        let words = Rejection::Other(1_000).to_string();
        assert_eq!(words, "refused with SRT's code 1000");
    }
}
