//! The few fields of SRT that a bonding sender reads and writes (draft-sharabayko-srt-01). All
//! numbers are big-endian.

use anabranch_units::Duration;

/// Length of SRT's header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Number of sequence numbers; they have 31 bits.
pub(crate) const NUMBERS: u64 = 1 << 31;

const HANDSHAKE: u16 = 0x8000;
const ACK: u16 = 0x8002;
const NAK: u16 = 0x8003;
const SHUTDOWN: u16 = 0x8005;
/// Handshake type of a caller's first message.
const INDUCTION: u32 = 1;
/// Length of a handshake without extensions.
const HANDSHAKE_BYTES: usize = 48;
/// Extensions that hold the latency: a caller's request and a listener's response.
const LATENCY_EXTENSIONS: [u16; 2] = [1, 2];
/// Marks the first number of a range in a NAK.
const RANGE: u32 = 1 << 31;

/// A datagram of SRT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// Media with its sequence number.
    Data { number: u32 },
    /// A handshake.
    Handshake {
        is_induction: bool,
        /// Socket id of its sender.
        socket: u32,
        /// Latency in its extension.
        latency: Option<Duration>,
    },
    /// A cumulative acknowledgement: every number before `next` has arrived or was given up.
    Ack { ack_number: u32, next: u32 },
    /// A list of missing numbers.
    Nak { list: &'a [u8] },
    /// A message that is only passed on.
    Other,
}

impl<'a> Packet<'a> {
    /// Parses a datagram; `None` if it is not SRT.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (header, rest) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let first = word(header, 0)?;
        if first & RANGE == 0 {
            return Some(Packet::Data { number: first });
        }
        let packet = match (first >> 16) as u16 {
            HANDSHAKE => handshake(rest),
            ACK => word(rest, 0).map(|next| Packet::Ack {
                ack_number: word(header, 1).unwrap_or_default(),
                next: next & (RANGE - 1),
            }),
            NAK => Some(Packet::Nak { list: rest }),
            _ => None,
        };
        Some(packet.unwrap_or(Packet::Other))
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(4 * index..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

fn handshake<'a>(body: &[u8]) -> Option<Packet<'a>> {
    let (fixed, extensions) = body.split_at_checked(HANDSHAKE_BYTES)?;
    Some(Packet::Handshake {
        is_induction: word(fixed, 5)? == INDUCTION,
        socket: word(fixed, 6)?,
        latency: latency(extensions),
    })
}

/// Returns the latency in a handshake's extensions: that of receiving, or of sending if there is
/// none.
fn latency(mut extensions: &[u8]) -> Option<Duration> {
    loop {
        let head = word(extensions, 0)?;
        let (kind, words) = ((head >> 16) as u16, (head & 0xffff) as usize);
        let (content, rest) = extensions[4..].split_at_checked(4 * words)?;
        if LATENCY_EXTENSIONS.contains(&kind) {
            let delays = word(content, 2)?;
            let millis = match delays >> 16 {
                0 => delays & 0xffff,
                receiving => receiving,
            };
            return Some(Duration::from_millis(u64::from(millis)));
        }
        extensions = rest;
    }
}

/// Returns the ranges of a NAK's list, first and last number each. Single numbers are ranges of
/// one.
pub(crate) fn ranges(list: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let first = word(list, at)?;
        at += 1;
        if first & RANGE == 0 {
            return Some((first, first));
        }
        let last = word(list, at)?;
        at += 1;
        Some((first & (RANGE - 1), last & (RANGE - 1)))
    })
}

/// Returns a NAK with the header of another that lists these ranges.
pub(crate) fn nak(like: &[u8], ranges: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = like[..HEADER_BYTES.min(like.len())].to_vec();
    for &(first, last) in ranges {
        if first != last {
            bytes.extend((first | RANGE).to_be_bytes());
        }
        bytes.extend(last.to_be_bytes());
    }
    bytes
}

/// Returns a message that ends the connection of a socket.
pub(crate) fn shutdown(socket: u32) -> Vec<u8> {
    let mut bytes = (u32::from(SHUTDOWN) << 16).to_be_bytes().to_vec();
    bytes.extend([0; 8]);
    bytes.extend(socket.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Returns the number of which `number` holds the lowest 31 bits and that is nearest to `near`.
pub(crate) fn extended(number: u32, near: u64) -> u64 {
    let ahead = u64::from(number).wrapping_sub(near) % NUMBERS;
    if ahead < NUMBERS / 2 {
        near + ahead
    } else {
        (near + ahead).saturating_sub(NUMBERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(kind: u16, words: &[u32]) -> Vec<u8> {
        let head = [u32::from(kind) << 16, 7, 0, 9];
        let words = head.iter().chain(words);
        words.flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn fields_of_the_messages() {
        let data = [5_u32.to_be_bytes().as_slice(), &[0; 12]].concat();
        assert_eq!(Packet::parse(&data), Some(Packet::Data { number: 5 }));
        assert_eq!(Packet::parse(&data[..15]), None);
        let ack = Packet::Ack {
            ack_number: 7,
            next: 40,
        };
        assert_eq!(Packet::parse(&control(ACK, &[40, 1, 2])), Some(ack));
        assert_eq!(Packet::parse(&control(ACK, &[])), Some(Packet::Other));
        assert_eq!(Packet::parse(&control(0x8006, &[])), Some(Packet::Other));
    }

    #[test]
    fn handshake_has_socket_and_latency() {
        fn parsed(words: &[u32]) -> bool {
            Packet::parse(&control(HANDSHAKE, words)) == {
                Some(Packet::Handshake {
                    is_induction: words[5] == 1,
                    socket: 77,
                    latency: (words.len() > 16).then_some(Duration::from_millis(800)),
                })
            }
        }

        let mut words = vec![5, 0, 0, 1_500, 8_192, INDUCTION, 77, 0, 0, 0, 0, 0];
        assert!(parsed(&words));
        words[5] = u32::MAX;
        // An extension of another kind comes first.
        words.extend([
            (5 << 16) | 1,
            0,
            (2 << 16) | 3,
            0x10503,
            0xbf,
            800 << 16 | 120,
        ]);
        assert!(parsed(&words));
        words.truncate(17);
        assert_eq!(
            Packet::parse(&control(HANDSHAKE, &words)),
            Some(Packet::Handshake {
                is_induction: false,
                socket: 77,
                latency: None
            }),
            "cut off"
        );
    }

    #[test]
    fn lists_of_missing_numbers() {
        let listed = control(NAK, &[3, RANGE | 5, 8, 10, RANGE | 12]);
        let Some(Packet::Nak { list }) = Packet::parse(&listed) else {
            panic!("no NAK")
        };
        let all: Vec<_> = ranges(list).collect();
        assert_eq!(all, [(3, 3), (5, 8), (10, 10)], "the last one is cut off");
        assert_eq!(nak(&listed, &all), control(NAK, &[3, RANGE | 5, 8, 10]));
    }

    #[test]
    fn numbers_wrap() {
        let near = 3 * NUMBERS - 2;
        assert_eq!(extended(u32::MAX >> 1, near), near + 1);
        assert_eq!(extended(3, near), near + 5);
        assert_eq!(
            extended(u32::MAX >> 2, near),
            near + (NUMBERS >> 1) + 1 - NUMBERS
        );
        assert_eq!(extended(u32::MAX >> 1, 0), 0, "before the first");
    }
}
