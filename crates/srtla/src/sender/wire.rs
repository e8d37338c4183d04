//! Datagrams of SRTLA from a sender's side.

use crate::wire::{
    ACK, ACKED_AT_ONCE, ID_BYTES, INFO_MAGIC, INFO_VERSION, Id, KEEPALIVE, REG_ERR, REG_NGP, REG1,
    REG2, REG3, SenderInfo,
};

/// A datagram from the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer<'a> {
    /// REG2: the name of a new group.
    Name(&'a Id),
    /// REG3: the link has joined.
    Joined,
    /// REG_ERR: not this link, or not now.
    Refused,
    /// REG_NGP: there is no such group.
    NoGroup,
    /// The echo of a keepalive, with the time that it was sent with.
    Echo { millis: u64 },
    /// Packets that have arrived by this link.
    Acked(Numbers<'a>),
    /// A datagram of SRT.
    Srt,
}

/// Sequence numbers of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (words, _) = self.0.as_chunks();
        words.iter().map(|word| u32::from_be_bytes(*word))
    }
}

impl<'a> Answer<'a> {
    /// Parses a datagram by its type. Some receivers pad their answers, so lengths say nothing.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (kind, rest) = datagram.split_first_chunk()?;
        match u16::from_be_bytes(*kind) {
            REG2 => Some(Answer::Name(rest.first_chunk()?)),
            REG3 => Some(Answer::Joined),
            REG_ERR => Some(Answer::Refused),
            REG_NGP => Some(Answer::NoGroup),
            KEEPALIVE => Some(Answer::Echo {
                millis: u64::from_be_bytes(*rest.first_chunk()?),
            }),
            ACK => {
                let numbers = rest.get(2..)?;
                let length = numbers.len().min(4 * ACKED_AT_ONCE);
                Some(Answer::Acked(Numbers(&numbers[..length])))
            }
            0x9001..=0x92ff => None,
            _ => Some(Answer::Srt),
        }
    }
}

/// Returns a REG1: asks for a group whose name begins with the first half.
pub(super) fn asks(id: &Id) -> Vec<u8> {
    [&REG1.to_be_bytes()[..], id].concat()
}

/// Returns whether both names have the same first half, which the sender chose.
pub(super) fn has_same_half(left: &Id, right: &Id) -> bool {
    left[..ID_BYTES / 2] == right[..ID_BYTES / 2]
}

/// Returns a keepalive of 38 bytes: shorter ones are lost in some mobile networks.
pub(super) fn keepalive(millis: u64, link: u32, info: &SenderInfo) -> Vec<u8> {
    let mut bytes = KEEPALIVE.to_be_bytes().to_vec();
    bytes.extend(millis.to_be_bytes());
    bytes.extend(INFO_MAGIC.to_be_bytes());
    bytes.extend(INFO_VERSION.to_be_bytes());
    let numbers = [
        link,
        info.window.cast_unsigned(),
        info.in_flight.cast_unsigned(),
        info.rtt_millis,
        info.nak_count,
        info.bytes_per_second,
    ];
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn answers_of_2_and_32_bytes_go_by_their_type() {
        for (padded, expected) in [
            (wire::joined(), Answer::Joined),
            (wire::refused(), Answer::Refused),
            (wire::no_group(), Answer::NoGroup),
        ] {
            assert_eq!(padded.len(), 32);
            assert_eq!(Answer::parse(&padded), Some(expected));
            assert_eq!(Answer::parse(&padded[..2]), Some(expected));
        }
        let id = [3; ID_BYTES];
        assert_eq!(Answer::parse(&wire::group(&id)), Some(Answer::Name(&id)));
        assert_eq!(Answer::parse(&wire::group(&id)[..257]), None);
        assert_eq!(Answer::parse(&[0x92]), None);
        assert_eq!(Answer::parse(&[0x80, 2]), Some(Answer::Srt));
    }

    #[test]
    fn acknowledgements_hold_ten_numbers_at_most() {
        fn numbers(bytes: &[u8]) -> usize {
            match Answer::parse(bytes) {
                Some(Answer::Acked(numbers)) => numbers.iter().count(),
                other => panic!("{other:?}"),
            }
        }

        let ack = wire::ack(&core::array::from_fn(|index| index as u32));
        assert_eq!(numbers(&ack), 10);
        assert_eq!(numbers(&[&ack[..], &[0; 400]].concat()), 10);
        assert_eq!(numbers(&ack[..9]), 1, "cut off");
        assert_eq!(Answer::parse(&ack[..3]), None);
    }

    #[test]
    fn receivers_read_a_keepalive_and_its_echo_has_the_time() {
        let info = SenderInfo {
            window: 20_000,
            in_flight: 12,
            rtt_millis: 54,
            nak_count: 2,
            bytes_per_second: 250_000,
        };
        let bytes = keepalive(1_234, 3, &info);
        assert_eq!(bytes.len(), 38);
        let read = wire::Message::parse(&bytes);
        assert_eq!(read, Some(wire::Message::Keepalive { info: Some(info) }));
        assert_eq!(Answer::parse(&bytes), Some(Answer::Echo { millis: 1_234 }));
    }
}
