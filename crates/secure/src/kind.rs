//! The kinds of datagrams, and the fields that can be read of them without a key.

/// Kind of a datagram, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first datagram of a handshake: for a [`Responder`](crate::Responder).
    Initiation = 1,
    /// The answer: for the [`Initiator`](crate::Initiator) that [`receiver_index`] names.
    Response = 2,
    /// A protected datagram: for the [`Session`](crate::Session) that [`receiver_index`] names.
    Data = 3,
    /// The answer of a responder under load instead of a response: for the
    /// [`Initiator`](crate::Initiator) that sent there.
    CookieReply = 4,
    /// The notice that a responder does not know the session: see
    /// [`Session::is_reset`](crate::Session::is_reset).
    Reset = 5,
    /// Answer to an initiation of another protocol version: for the
    /// [`Initiator`](crate::Initiator) that sent there.
    VersionNotice = 6,
}

/// Position of the receiver's session index in a response.
pub(crate) const RESPONSE_INDEX_AT: usize = 1;
/// Position of the receiver's session index in a protected datagram.
pub(crate) const DATA_INDEX_AT: usize = 2;
/// Position of the unknown session's index in a reset.
pub(crate) const RESET_INDEX_AT: usize = 1;

/// Returns the kind that a datagram claims to be; `None` for an unknown or absent first byte. This
/// authenticates nothing.
///
/// ```
/// use anabranch_secure::{Initiator, Kind, ParameterBlock, SecretKey, classify, receiver_index};
///
/// let peer = SecretKey::generate().public_key();
/// let parameters = ParameterBlock::default();
/// let initiator = Initiator::new(&SecretKey::generate(), &peer, 1, parameters);
/// assert_eq!(classify(initiator.message()), Some(Kind::Initiation));
/// assert_eq!(receiver_index(initiator.message()), None, "there is no session yet");
/// assert_eq!(classify(b"GET / HTTP/1.1"), None);
/// ```
pub fn classify(datagram: &[u8]) -> Option<Kind> {
    match *datagram.first()? {
        1 => Some(Kind::Initiation),
        2 => Some(Kind::Response),
        3 => Some(Kind::Data),
        4 => Some(Kind::CookieReply),
        5 => Some(Kind::Reset),
        6 => Some(Kind::VersionNotice),
        _ => None,
    }
}

/// Returns the session index that a response or a protected datagram is addressed to: the one that
/// its receiver chose. `None` for an initiation, a cookie reply, a reset, a version notice, an
/// unknown kind, or a datagram too short to hold one.
pub fn receiver_index(datagram: &[u8]) -> Option<u32> {
    let at = match classify(datagram)? {
        Kind::Initiation | Kind::CookieReply | Kind::Reset | Kind::VersionNotice => return None,
        Kind::Response => RESPONSE_INDEX_AT,
        Kind::Data => DATA_INDEX_AT,
    };
    Some(u32::from_be_bytes(*datagram.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_byte_is_the_kind() {
        for kind in [
            Kind::Initiation,
            Kind::Response,
            Kind::Data,
            Kind::CookieReply,
            Kind::Reset,
            Kind::VersionNotice,
        ] {
            assert_eq!(classify(&[kind as u8, 9]), Some(kind));
        }
        assert_eq!(classify(&[]), None);
        assert_eq!(classify(&[0]), None);
        assert_eq!(classify(&[7]), None);
    }

    #[test]
    fn receiver_index_is_big_endian_where_the_kind_has_one() {
        assert_eq!(receiver_index(&[2, 1, 2, 3, 4]), Some(0x0102_0304));
        assert_eq!(receiver_index(&[3, 9, 1, 2, 3, 4]), Some(0x0102_0304));
        assert_eq!(receiver_index(&[1, 1, 2, 3, 4, 5, 6]), None);
        assert_eq!(receiver_index(&[4, 1, 2, 3, 4, 5, 6]), None);
        assert_eq!(receiver_index(&[2, 1, 2, 3]), None);
        assert_eq!(receiver_index(&[3, 9, 1, 2, 3]), None);
        assert_eq!(receiver_index(&[]), None);
    }
}
