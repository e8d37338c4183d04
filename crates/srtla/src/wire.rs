//! Datagrams of SRTLA and of SRT, as far as the receiver reads them. All numbers are big-endian.

/// Length of a group's name; the first half is the sender's choice, the second the receiver's.
pub const ID_BYTES: usize = 256;
/// Number of packets of a link that are acknowledged at a time.
pub(crate) const ACKED_AT_ONCE: usize = 10;
/// Length below which datagrams are not SRT.
const LEAST_SRT_BYTES: usize = 16;
/// Length of short answers, as some mobile networks lose datagrams of two bytes (irlserver/srtla,
/// `pad_sendto.h`).
const LEAST_ANSWER_BYTES: usize = 32;

pub(crate) const KEEPALIVE: u16 = 0x9000;
pub(crate) const ACK: u16 = 0x9100;
pub(crate) const REG1: u16 = 0x9200;
pub(crate) const REG2: u16 = 0x9201;
pub(crate) const REG3: u16 = 0x9202;
pub(crate) const REG_ERR: u16 = 0x9210;
pub(crate) const REG_NGP: u16 = 0x9211;
const SRT_KEEPALIVE: u16 = 0x8001;
const SRT_ACK: u16 = 0x8002;

/// Number behind the type and time of a keepalive that announces a [`SenderInfo`].
pub(crate) const INFO_MAGIC: u16 = 0xc01f;
pub(crate) const INFO_VERSION: u16 = 1;

/// A group's name.
pub(crate) type Id = [u8; ID_BYTES];

/// A message from a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Message<'a> {
    /// REG1: a sender wants a group.
    WantsGroup { half: &'a [u8; ID_BYTES / 2] },
    /// REG2: a link wants to join one.
    Joins { id: &'a Id },
    /// A keepalive, which is returned unchanged.
    Keepalive { info: Option<SenderInfo> },
    /// A datagram of SRT, with its sequence number if it contains video.
    Srt { number: Option<u32> },
}

/// A sender's report on a link in its keepalives (irlserver/srtla_send: 38 bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// The sender's window, in thousandths of a packet.
    pub window: i32,
    /// Packets that are sent and not acknowledged.
    pub in_flight: i32,
    /// The smoothed round-trip time, in milliseconds.
    pub rtt_millis: u32,
    /// Number of negative acknowledgements that named packets of this link.
    pub nak_count: u32,
    /// Rate at which the sender sends by this link.
    pub bytes_per_second: u32,
}

impl<'a> Message<'a> {
    /// Parses a datagram; `None` for datagrams that a receiver ignores.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (kind, rest) = datagram.split_first_chunk()?;
        match u16::from_be_bytes(*kind) {
            REG1 => {
                let id: &Id = rest.try_into().ok()?;
                let (half, _) = id.split_first_chunk()?;
                Some(Message::WantsGroup { half })
            }
            REG2 => Some(Message::Joins {
                id: rest.try_into().ok()?,
            }),
            KEEPALIVE => Some(Message::Keepalive {
                info: SenderInfo::parse(rest),
            }),
            // Further SRTLA types, which only receivers send.
            0x9001..=0x92ff => None,
            _ if datagram.len() < LEAST_SRT_BYTES => None,
            _ => {
                let number = u32::from_be_bytes(*datagram.first_chunk()?);
                Some(Message::Srt {
                    number: (number >> 31 == 0).then_some(number),
                })
            }
        }
    }
}

impl SenderInfo {
    /// Parses a keepalive, behind its type.
    fn parse(rest: &[u8]) -> Option<Self> {
        fn number(index: usize, numbers: &[u8; 20]) -> u32 {
            let bytes = numbers[4 * index..].first_chunk();
            u32::from_be_bytes(bytes.copied().unwrap_or_default())
        }

        // A time in milliseconds, which only the sender uses.
        let (_, rest) = rest.split_first_chunk::<8>()?;
        let (magic, rest) = rest.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let is_info = u16::from_be_bytes(*magic) == INFO_MAGIC
            && u16::from_be_bytes(*version) == INFO_VERSION;
        // The first is an index of the link at the sender.
        let (_, rest) = rest.split_first_chunk::<4>()?;
        if !is_info {
            return None;
        }
        let (numbers, _) = rest.split_first_chunk::<20>()?;
        Some(SenderInfo {
            window: number(0, numbers) as i32,
            in_flight: number(1, numbers) as i32,
            rtt_millis: number(2, numbers),
            nak_count: number(3, numbers),
            bytes_per_second: number(4, numbers),
        })
    }
}

/// Returns whether the SRT listener acknowledges: that goes to every link that has sent SRT.
pub(crate) fn is_srt_ack(datagram: &[u8]) -> bool {
    datagram.starts_with(&SRT_ACK.to_be_bytes())
}

/// Returns whether the SRT listener sends a keepalive.
pub(crate) fn is_srt_keepalive(datagram: &[u8]) -> bool {
    datagram.starts_with(&SRT_KEEPALIVE.to_be_bytes())
}

/// Returns whether the SRT listener's answer is SRT.
pub(crate) fn is_srt(datagram: &[u8]) -> bool {
    datagram.len() >= LEAST_SRT_BYTES
}

/// Returns a REG2: the group's whole name.
pub(crate) fn group(id: &Id) -> Vec<u8> {
    [&REG2.to_be_bytes()[..], id].concat()
}

/// Returns a REG3: the link has joined.
pub(crate) fn joined() -> Vec<u8> {
    padded(REG3)
}

/// Returns a REG_ERR: not this link, or not now.
pub(crate) fn refused() -> Vec<u8> {
    padded(REG_ERR)
}

/// Returns a REG_NGP: there is no such group; the sender asks for a new one.
pub(crate) fn no_group() -> Vec<u8> {
    padded(REG_NGP)
}

/// Returns the acknowledgement of these packets by this link.
pub(crate) fn ack(numbers: &[u32; ACKED_AT_ONCE]) -> Vec<u8> {
    let mut bytes = (u32::from(ACK) << 16).to_be_bytes().to_vec();
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

fn padded(kind: u16) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.resize(LEAST_ANSWER_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_by_type() {
        fn with(kind: u16, id: &[u8; 256]) -> Vec<u8> {
            [&kind.to_be_bytes()[..], id].concat()
        }

        let id: Id = core::array::from_fn(|index| index as u8);
        assert_eq!(
            Message::parse(&with(REG1, &id)),
            Some(Message::WantsGroup {
                half: id.first_chunk().unwrap()
            })
        );
        assert_eq!(
            Message::parse(&with(REG2, &id)),
            Some(Message::Joins { id: &id })
        );
        assert_eq!(Message::parse(&with(REG1, &id)[..257]), None);
        assert_eq!(Message::parse(&joined()), None, "only receivers send it");
        let mut video = vec![0x12, 0x34, 0x56, 0x78];
        video.resize(16, 0);
        let number = Some(0x1234_5678);
        assert_eq!(Message::parse(&video), Some(Message::Srt { number }));
        video[0] = 0x80;
        assert_eq!(Message::parse(&video), Some(Message::Srt { number: None }));
        assert_eq!(Message::parse(&video[..15]), None);
        assert_eq!(Message::parse(&[0x90]), None);
    }

    #[test]
    fn keepalives_of_three_dialects() {
        let mut keepalive = KEEPALIVE.to_be_bytes().to_vec();
        let none = Some(Message::Keepalive { info: None });
        assert_eq!(Message::parse(&keepalive), none);
        keepalive.extend(1_234_567_u64.to_be_bytes());
        assert_eq!(Message::parse(&keepalive), none);
        keepalive.extend([0xc0, 0x1f, 0, 1]);
        for number in [3_u32, 20_000, 12, 54, 2, 250_000] {
            assert_eq!(Message::parse(&keepalive), none);
            keepalive.extend(number.to_be_bytes());
        }
        assert_eq!(keepalive.len(), 38);
        let info = SenderInfo {
            window: 20_000,
            in_flight: 12,
            rtt_millis: 54,
            nak_count: 2,
            bytes_per_second: 250_000,
        };
        let expected = Some(Message::Keepalive { info: Some(info) });
        assert_eq!(Message::parse(&keepalive), expected);
        keepalive[13] = 2;
        assert_eq!(Message::parse(&keepalive), none, "another version");
    }

    #[test]
    fn answers_as_senders_expect_them() {
        assert_eq!(group(&[7; ID_BYTES]).len(), 258);
        assert_eq!(joined()[..3], [0x92, 0x02, 0]);
        assert_eq!(refused()[..3], [0x92, 0x10, 0]);
        assert_eq!(no_group()[..3], [0x92, 0x11, 0]);
        let ack = ack(&core::array::from_fn(|index| index as u32 + 1));
        assert_eq!(ack.len(), 44);
        assert_eq!(ack[..8], [0x91, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(ack[40..], [0, 0, 0, 10]);
    }
}
