//! Sealed datagrams in a byte stream, for networks that block UDP.
//!
//! ```text
//! bytes 0–7   preamble: AB 41 4E 41 42 52 00 01, the last byte is the version
//! then, for each datagram:
//!   2 bytes   length in bytes, big-endian, 1 to 9,216 (RFC 4571 §2)
//!   n bytes   the datagram
//! ```
//!
//! The stream adds no security and needs none: every datagram is authenticated. The preamble only
//! distinguishes a wrong peer (a web server, a port scanner) at its first byte; RFC 8229 §4 has one
//! for the same purpose. Its first byte begins neither TLS nor HTTP.

/// First bytes of the stream in each direction; the last one is the version.
pub const STREAM_PREAMBLE: [u8; 8] = *b"\xabANABR\x00\x01";

/// Longest datagram in a stream, in bytes: as long as jumbo frames. It bounds the receiver's
/// buffer.
pub const MAX_FRAMED_BYTES: usize = 9_216;

const LENGTH_BYTES: usize = 2;

/// Reason why a byte stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer uses another protocol or another version.
    #[error("the peer does not speak this protocol")]
    Preamble,
    /// A length of zero or above [`MAX_FRAMED_BYTES`].
    #[error("a datagram of {0} bytes is announced")]
    Length(usize),
}

/// Appends a datagram with its length. Returns `false`, and appends nothing, if a stream cannot
/// carry it: it is empty or longer than [`MAX_FRAMED_BYTES`].
pub fn append_framed(stream: &mut Vec<u8>, datagram: &[u8]) -> bool {
    let is_fit = (1..=MAX_FRAMED_BYTES).contains(&datagram.len());
    if is_fit {
        stream.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        stream.extend_from_slice(datagram);
    }
    is_fit
}

/// Reader of one direction of a stream. It holds at most one incomplete datagram.
///
/// ```
/// use anabranch_secure::{Deframer, STREAM_PREAMBLE, append_framed};
///
/// let mut stream = STREAM_PREAMBLE.to_vec();
/// assert!(append_framed(&mut stream, b"one"));
/// assert!(append_framed(&mut stream, b"two"));
///
/// let (mut deframer, mut datagrams) = (Deframer::default(), Vec::new());
/// for piece in stream.chunks_mut(7) {
///     deframer.push(piece, |datagram| datagrams.push(datagram.to_vec()))?;
/// }
/// assert_eq!(datagrams, [b"one", b"two"]);
/// # Ok::<(), anabranch_secure::StreamError>(())
/// ```
#[derive(Debug, Default)]
pub struct Deframer {
    /// The beginning of the preamble or of a datagram with its length.
    begun: Vec<u8>,
    has_preamble: bool,
}

impl Deframer {
    /// Takes the stream's next bytes, however they are cut, and passes each complete datagram to
    /// `take`.
    ///
    /// # Errors
    /// [`StreamError`]; the stream must then be closed. Datagrams before the error have been passed
    /// on.
    pub fn push(
        &mut self,
        mut bytes: &mut [u8],
        mut take: impl FnMut(&mut [u8]),
    ) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            let size = self.size_of_next(bytes)?;
            if self.begun.is_empty() && self.has_preamble && bytes.len() >= size {
                let (framed, rest) = bytes.split_at_mut(size);
                take(&mut framed[LENGTH_BYTES..]);
                bytes = rest;
                continue;
            }
            let missing = size - self.begun.len();
            let (next, rest) = bytes.split_at_mut(missing.min(bytes.len()));
            self.begun.extend_from_slice(next);
            bytes = rest;
            self.finish(size, &mut take)?;
        }
        Ok(())
    }

    /// Returns the size of the element that `bytes` begin, as far as it is known: a preamble, a
    /// length, or a length with its datagram.
    fn size_of_next(&self, bytes: &[u8]) -> Result<usize, StreamError> {
        if !self.has_preamble {
            return Ok(STREAM_PREAMBLE.len());
        }
        let begun = if self.begun.is_empty() {
            bytes
        } else {
            &self.begun
        };
        let Some(length) = begun.first_chunk::<LENGTH_BYTES>() else {
            return Ok(LENGTH_BYTES);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        match length {
            1..=MAX_FRAMED_BYTES => Ok(LENGTH_BYTES + length),
            _ => Err(StreamError::Length(length)),
        }
    }

    fn finish(&mut self, size: usize, take: &mut impl FnMut(&mut [u8])) -> Result<(), StreamError> {
        if !self.has_preamble {
            if !STREAM_PREAMBLE.starts_with(&self.begun) {
                return Err(StreamError::Preamble);
            }
            if self.begun.len() == size {
                self.has_preamble = true;
                self.begun.clear();
            }
        } else if self.begun.len() == size && size > LENGTH_BYTES {
            take(&mut self.begun[LENGTH_BYTES..]);
            self.begun.clear();
        }
        // A complete length must be legal.
        self.size_of_next(&[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(datagrams: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = STREAM_PREAMBLE.to_vec();
        for datagram in datagrams {
            assert!(append_framed(&mut stream, datagram));
        }
        stream
    }

    /// Returns the datagrams of a stream that arrives in pieces that end at `cuts`.
    fn read(stream: &[u8], cuts: &[usize]) -> Result<Vec<Vec<u8>>, StreamError> {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
        ends.push(stream.len());
        ends.sort_unstable();
        let (mut deframer, mut read, mut begin) = (Deframer::default(), Vec::new(), 0);
        for end in ends {
            let mut piece = stream[begin..end].to_vec();
            deframer.push(&mut piece, |datagram| read.push(datagram.to_vec()))?;
            assert!(deframer.begun.len() < LENGTH_BYTES + MAX_FRAMED_BYTES);
            begin = end;
        }
        Ok(read)
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_datagrams(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2_000), 0..8),
            cuts in prop::collection::vec(any::<usize>(), 0..40),
        ) {
            let stream = stream(&datagrams);
            prop_assert_eq!(read(&stream, &cuts), Ok(datagrams));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..3_000),
            cuts in prop::collection::vec(any::<usize>(), 0..10),
        ) {
            let mut stream = STREAM_PREAMBLE.to_vec();
            stream.extend_from_slice(&bytes);
            let _ = read(&stream, &cuts);
            let is_ours = STREAM_PREAMBLE.starts_with(&bytes);
            prop_assert_eq!(read(&bytes, &cuts).is_err(), !is_ours && !bytes.is_empty());
        }
    }

    #[test]
    fn single_bytes_give_the_same_datagrams() {
        let datagrams = vec![vec![1], vec![2; 300], vec![3; MAX_FRAMED_BYTES]];
        let stream = stream(&datagrams);
        let cuts: Vec<usize> = (0..stream.len()).collect();
        assert_eq!(read(&stream, &cuts), Ok(datagrams));
    }

    #[test]
    fn another_protocol_fails_at_its_first_byte() {
        for bytes in [b"G".as_slice(), b"\x16\x03\x01", b"\xabANABR\x00\x02"] {
            assert_eq!(read(bytes, &[]), Err(StreamError::Preamble));
        }
    }

    #[test]
    fn impossible_lengths_fail_before_anything_is_stored() {
        for length in [0, MAX_FRAMED_BYTES + 1, 65_535] {
            let mut stream = STREAM_PREAMBLE.to_vec();
            stream.extend_from_slice(&(length as u16).to_be_bytes());
            assert_eq!(read(&stream, &[]), Err(StreamError::Length(length)));
            assert_eq!(read(&stream, &[9]), Err(StreamError::Length(length)));
        }
        let mut stream = Vec::new();
        assert!(!append_framed(&mut stream, &[]));
        assert!(!append_framed(&mut stream, &[0; MAX_FRAMED_BYTES + 1]));
        assert!(stream.is_empty());
    }
}
