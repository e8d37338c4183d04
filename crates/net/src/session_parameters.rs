//! Parameters of a session, and their encoding in the handshake's block.
//!
//! Each parameter is its type, its length and its value; type and length have one byte each. A type
//! of zero ends the list. Unknown types are skipped, so that an end of an earlier version accepts a
//! later one's parameters (RFC 9000 §7.4.2).
//!
//! | type | value |
//! |---|---|
//! | 1 | kind of the session, 1 byte: the index in [`SessionKind::ALL`] |
//! | 2 | latency in milliseconds, 2 bytes, big-endian |
//! | 3 | without a value: the initiator reads challenges with padding |
//! | 4 | without a value: the initiator takes requests of the responder (`remote-control`) |
//! | 5 | without a value: the initiator is a receiver that registers at a relay |

use anabranch_secure::{PARAMETERS_BYTES, ParameterBlock};
use anabranch_units::Duration;

const END: u8 = 0;
const KIND: u8 = 1;
const LATENCY: u8 = 2;
const PADDED_CHALLENGES: u8 = 3;
const REMOTE_CONTROL: u8 = 4;
const REGISTRATION: u8 = 5;

/// Kind of a session, as its initiation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SessionKind {
    /// Frames of live media, towards the responder.
    Frames = 0,
    /// Reliable streams of bytes, both ways.
    Streams = 1,
    /// Datagrams that are worthless when late, both ways.
    Datagrams = 2,
}

impl SessionKind {
    /// Every kind; the index is its byte in the initiation.
    pub const ALL: [SessionKind; 3] = [
        SessionKind::Frames,
        SessionKind::Streams,
        SessionKind::Datagrams,
    ];
}

/// Parameters that an initiator requests, and a responder answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// Kind of the session; `None` if it is missing or not known to this version.
    pub kind: Option<SessionKind>,
    /// Delay of media, in whole milliseconds, at most 65,535; `None`: no request. The larger of
    /// both ends' counts.
    pub latency: Option<Duration>,
    /// Whether the initiator reads challenges of its addresses with padding.
    pub reads_padded_challenges: bool,
    /// Whether the initiator takes requests for changes from the responder. How they are written is
    /// the business of the programs above.
    pub takes_requests: bool,
    /// Whether the initiator is a receiver that registers at a relay. It has no kind then.
    pub is_registration: bool,
}

impl SessionParameters {
    /// Returns the parameters with which a receiver registers at a relay.
    pub(crate) fn of_registration() -> Self {
        SessionParameters {
            kind: None,
            latency: None,
            reads_padded_challenges: false,
            takes_requests: false,
            is_registration: true,
        }
    }

    /// Returns the parameters of a session of this kind, without a latency.
    pub fn of(kind: SessionKind) -> Self {
        SessionParameters {
            kind: Some(kind),
            latency: None,
            reads_padded_challenges: false,
            takes_requests: false,
            is_registration: false,
        }
    }

    /// Returns these parameters with the flags of the initiator, if its `requested` ones are known.
    pub(crate) fn with_flags_of(self, requested: Option<SessionParameters>) -> Self {
        SessionParameters {
            reads_padded_challenges: requested.is_some_and(|its| its.reads_padded_challenges),
            takes_requests: requested.is_some_and(|its| its.takes_requests),
            ..self
        }
    }

    /// Returns these parameters with a latency. It is rounded down to milliseconds, and at least
    /// one of them.
    pub(crate) fn with_latency(self, latency: Option<Duration>) -> Self {
        SessionParameters { latency, ..self }
    }

    /// Returns the same parameters with the larger of both latencies.
    pub(crate) fn agreed(self, latency: Option<Duration>) -> Self {
        self.with_latency(self.latency.max(latency))
    }

    /// Returns the handshake's block.
    pub fn to_block(self) -> ParameterBlock {
        let mut writer = Writer::default();
        if let Some(kind) = self.kind {
            writer.write(KIND, &[kind as u8]);
        }
        if let Some(latency) = self.latency {
            let millis = u16::try_from(latency.as_millis().max(1)).unwrap_or(u16::MAX);
            writer.write(LATENCY, &millis.to_be_bytes());
        }
        if self.reads_padded_challenges {
            writer.write(PADDED_CHALLENGES, &[]);
        }
        if self.takes_requests {
            writer.write(REMOTE_CONTROL, &[]);
        }
        if self.is_registration {
            writer.write(REGISTRATION, &[]);
        }
        ParameterBlock::new(writer.bytes)
    }

    /// Reads a block. Returns `None` for one that is malformed: a parameter exceeds the block,
    /// comes twice, or has another length than its type.
    pub fn from_block(block: &ParameterBlock) -> Option<Self> {
        let mut parameters = SessionParameters {
            kind: None,
            latency: None,
            reads_padded_challenges: false,
            takes_requests: false,
            is_registration: false,
        };
        let mut seen = [false; 256];
        let mut rest = block.as_bytes().as_slice();
        while let [of, after @ ..] = rest
            && *of != END
        {
            let (length, after) = after.split_first()?;
            let (value, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            if core::mem::replace(&mut seen[usize::from(*of)], true) {
                return None;
            }
            match *of {
                KIND => {
                    let [index] = <[u8; 1]>::try_from(value).ok()?;
                    parameters.kind = SessionKind::ALL.get(usize::from(index)).copied();
                }
                LATENCY => {
                    let millis = u16::from_be_bytes(value.try_into().ok()?);
                    let latency = Duration::from_millis(millis.into());
                    parameters.latency = (millis > 0).then_some(latency);
                }
                PADDED_CHALLENGES => {
                    let [] = <[u8; 0]>::try_from(value).ok()?;
                    parameters.reads_padded_challenges = true;
                }
                REMOTE_CONTROL => {
                    let [] = <[u8; 0]>::try_from(value).ok()?;
                    parameters.takes_requests = true;
                }
                REGISTRATION => {
                    let [] = <[u8; 0]>::try_from(value).ok()?;
                    parameters.is_registration = true;
                }
                _ => {}
            }
        }
        Some(parameters)
    }
}

/// Parameters one after the other.
#[derive(Debug, Default)]
struct Writer {
    bytes: [u8; PARAMETERS_BYTES],
    written_bytes: usize,
}

impl Writer {
    /// Appends a parameter. The known ones take eleven bytes together.
    fn write(&mut self, of: u8, value: &[u8]) {
        let head = [of, value.len() as u8];
        for byte in head.iter().chain(value) {
            self.bytes[self.written_bytes] = *byte;
            self.written_bytes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(head: &[u8]) -> ParameterBlock {
        let mut bytes = [0; PARAMETERS_BYTES];
        bytes[..head.len()].copy_from_slice(head);
        ParameterBlock::new(bytes)
    }

    fn millis(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn parameters_survive_their_way() {
        for kind in SessionKind::ALL {
            for latency in [None, millis(1), millis(300), millis(65_535)] {
                let parameters = SessionParameters::of(kind).with_latency(latency);
                let read = SessionParameters::from_block(&parameters.to_block());
                assert_eq!(read, Some(parameters));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let parameters = SessionParameters::of(SessionKind::Datagrams).with_latency(millis(300));
        assert_eq!(parameters.to_block(), block(&[1, 1, 2, 2, 2, 1, 44]));
        let parameters = SessionParameters {
            reads_padded_challenges: true,
            ..parameters
        };
        assert_eq!(parameters.to_block(), block(&[1, 1, 2, 2, 2, 1, 44, 3, 0]));
        let parameters = SessionParameters {
            takes_requests: true,
            ..parameters
        };
        let expected = block(&[1, 1, 2, 2, 2, 1, 44, 3, 0, 4, 0]);
        assert_eq!(parameters.to_block(), expected);
        assert_eq!(SessionParameters::from_block(&expected), Some(parameters));
        let registration = SessionParameters::of_registration();
        assert_eq!(registration.to_block(), block(&[5, 0]));
        let read = SessionParameters::from_block(&registration.to_block());
        assert_eq!(read, Some(registration));
    }

    #[test]
    fn a_latency_is_at_least_a_millisecond_and_at_most_a_minute() {
        for (latency, sent) in [
            (Duration::from_micros(10), millis(1)),
            (Duration::from_secs(1_000), millis(65_535)),
        ] {
            let parameters = SessionParameters::of(SessionKind::Frames).with_latency(Some(latency));
            let read = SessionParameters::from_block(&parameters.to_block());
            assert_eq!(read.and_then(|read| read.latency), sent, "{latency:?}");
        }
    }

    #[test]
    fn the_larger_latency_is_agreed_on() {
        let requested = SessionParameters::of(SessionKind::Frames);
        for (theirs, ours) in [(300, 0), (0, 300), (300, 200), (200, 300)] {
            let [theirs, ours] = [theirs, ours].map(|it| millis(it).filter(|it| !it.is_zero()));
            let agreed = requested.with_latency(theirs).agreed(ours);
            assert_eq!(agreed.latency, millis(300));
            assert_eq!(agreed.kind, Some(SessionKind::Frames));
        }
    }

    #[test]
    fn parameters_of_a_later_version_are_skipped() {
        let later = block(&[200, 3, 9, 9, 9, 1, 1, 1, 7, 0]);
        let read = SessionParameters::from_block(&later).expect("a list");
        assert_eq!(read, SessionParameters::of(SessionKind::Streams));
        // A kind that this version does not know is not another kind.
        let unknown = SessionParameters::from_block(&block(&[1, 1, 9, 2, 2, 0, 5]));
        let (kind, latency) = (None, millis(5));
        let expected = SessionParameters {
            kind,
            latency,
            reads_padded_challenges: false,
            takes_requests: false,
            is_registration: false,
        };
        assert_eq!(unknown, Some(expected));
    }

    #[test]
    fn malformed_blocks_are_none() {
        let longer_than_the_block = block(&[200, 31]);
        let without_length = {
            let mut bytes = [0; PARAMETERS_BYTES];
            bytes[..2].copy_from_slice(&[200, 29]);
            bytes[PARAMETERS_BYTES - 1] = 1;
            ParameterBlock::new(bytes)
        };
        let twice = block(&[1, 1, 0, 1, 1, 0]);
        let wrong_length = block(&[2, 1, 5]);
        for malformed in [longer_than_the_block, without_length, twice, wrong_length] {
            assert_eq!(SessionParameters::from_block(&malformed), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: [u8; PARAMETERS_BYTES]) {
            if let Some(read) = SessionParameters::from_block(&ParameterBlock::new(bytes)) {
                // Parameters survive another encoding.
                prop_assert_eq!(SessionParameters::from_block(&read.to_block()), Some(read));
            }
        }

        #[test]
        fn unknown_parameters_change_nothing(
            of in 6..=255_u8,
            length in 0..20_u8,
            kind in 0..3_u8,
        ) {
            let mut head = vec![of, length];
            head.resize(2 + usize::from(length), 7);
            head.extend([KIND, 1, kind]);
            let expected = SessionParameters::of(SessionKind::ALL[usize::from(kind)]);
            prop_assert_eq!(SessionParameters::from_block(&block(&head)), Some(expected));
        }
    }
}
