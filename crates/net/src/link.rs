//! A sender's reports of its links, as the other end reads them.
//!
//! ```text
//! byte 0     0x46
//! bytes 1–4  number of the report; a greater one is newer
//! bytes 5–6  time until the next report, in ms
//! then for each path:
//!   byte 0      index of the path
//!   byte 1      bits 0–1 state, 2 stands by, 3 metered, 4 has round-trip time, 5 has maximum rate,
//!               6 has cap
//!   bytes 2–3   loss ratio, as a share of 65,535
//!   bytes 4–7   rate sent, in kbit/s
//!   bytes 8–11  estimated rate of the path, in kbit/s
//!   4 bytes     round-trip time in µs, if it has one
//!   4 bytes     maximum rate in kbit/s, if it has one
//!   16 bytes    bytes carried and cap, if it has one
//!   1 byte      length of the name, then the name in UTF-8
//! ```
//!
//! Integers are big-endian. Reports are sealed as all datagrams are. A lost one is not sent again:
//! the next one has the same content.

use anabranch_core::{PathId, PathState};
use anabranch_units::{DataRate, Duration};

const KIND: u8 = 0x46;
const HEAD_BYTES: usize = 7;
/// Maximum size of a report; further paths take another datagram.
const MAX_DATAGRAM_BYTES: usize = 1_000;
/// Maximum length of a name; longer ones are cut. Linux's interfaces have 15 bytes, an IPv6 address
/// 39.
const MAX_NAME_BYTES: usize = 40;

const STANDS_BY: u8 = 1 << 2;
const IS_METERED: u8 = 1 << 3;
const HAS_RTT: u8 = 1 << 4;
const HAS_MAX_RATE: u8 = 1 << 5;
const HAS_CAP: u8 = 1 << 6;

const STATES: [PathState; 4] = [
    PathState::Active,
    PathState::Suspect,
    PathState::Out,
    PathState::Removed,
];

/// A path in its sender's view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkReport {
    /// Name of the interface or address that the path leaves its machine by. The peer chose it:
    /// it may hold any characters.
    pub name: String,
    /// The sender's state of the path; [`PathState::Out`] also if nothing has arrived by it
    /// although something must have.
    pub state: PathState,
    /// Whether the path is held in reserve.
    pub is_standby: bool,
    /// Whether the sender pays for it by volume.
    pub is_metered: bool,
    /// Latest round-trip time; `None` before the first.
    pub rtt: Option<Duration>,
    /// Packets lost by packets sent, 0 to 1, over about a hundred packets.
    pub loss_ratio: f64,
    /// Rate on the wire since the report before.
    pub sent_rate: DataRate,
    /// Rate that the path can carry by the sender's estimate.
    pub bandwidth: DataRate,
    /// Maximum rate of the path, set by the sender's user.
    pub max_rate: Option<DataRate>,
    /// Volume that the sender's user allows.
    pub cap: Option<LinkCap>,
}

/// A volume that a path may carry, and has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCap {
    /// Bytes carried, in both directions.
    pub used_bytes: u64,
    /// Bytes allowed.
    pub limit_bytes: u64,
}

/// Head of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u32,
    pub(crate) interval: Duration,
}

/// Returns whether a plaintext is a report.
pub(crate) fn is_report(plaintext: &[u8]) -> bool {
    plaintext.first() == Some(&KIND)
}

/// Returns the datagrams that report these paths.
pub(crate) fn datagrams<'a>(
    head: Head,
    links: impl Iterator<Item = (PathId, &'a LinkReport)>,
) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut datagram = head.to_bytes();
    for (path, link) in links {
        let entry = link.to_bytes(path);
        if datagram.len() + entry.len() > MAX_DATAGRAM_BYTES {
            datagrams.push(core::mem::replace(&mut datagram, head.to_bytes()));
        }
        datagram.extend(entry);
    }
    if datagram.len() > HEAD_BYTES {
        datagrams.push(datagram);
    }
    datagrams
}

/// Reads a report; `None` if it is malformed.
pub(crate) fn read(plaintext: &[u8]) -> Option<(Head, Vec<(PathId, LinkReport)>)> {
    let mut reader = Reader(plaintext);
    if reader.u8()? != KIND {
        return None;
    }
    let head = Head {
        number: reader.u32()?,
        interval: Duration::from_millis(reader.u16()?.into()),
    };
    let mut links = Vec::new();
    while !reader.0.is_empty() {
        // A path that occurs twice is not from this program; the check bounds the list.
        if links.len() == PathId::LIMIT {
            return None;
        }
        links.push(LinkReport::read(&mut reader)?);
    }
    Some((head, links))
}

impl Head {
    fn to_bytes(self) -> Vec<u8> {
        let millis = u16::try_from(self.interval.as_millis()).unwrap_or(u16::MAX);
        let mut bytes = vec![KIND];
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(millis.to_be_bytes());
        bytes
    }
}

/// Returns the flag if it is set, or no flag.
fn flag_if(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn has(flags: u8, flag: u8) -> bool {
    flags & flag != 0
}

impl LinkReport {
    fn to_bytes(&self, path: PathId) -> Vec<u8> {
        let state = STATES.iter().position(|state| *state == self.state);
        let flags = state.unwrap_or_default() as u8
            | flag_if(self.is_standby, STANDS_BY)
            | flag_if(self.is_metered, IS_METERED)
            | flag_if(self.rtt.is_some(), HAS_RTT)
            | flag_if(self.max_rate.is_some(), HAS_MAX_RATE)
            | flag_if(self.cap.is_some(), HAS_CAP);
        let loss = self.loss_ratio.clamp(0.0, 1.0) * f64::from(u16::MAX);
        let mut bytes = vec![path.0, flags];
        bytes.extend((loss.round() as u16).to_be_bytes());
        bytes.extend(kilobits(self.sent_rate).to_be_bytes());
        bytes.extend(kilobits(self.bandwidth).to_be_bytes());
        if let Some(rtt) = self.rtt {
            let micros = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
            bytes.extend(micros.to_be_bytes());
        }
        if let Some(rate) = self.max_rate {
            bytes.extend(kilobits(rate).to_be_bytes());
        }
        if let Some(cap) = self.cap {
            bytes.extend(cap.used_bytes.to_be_bytes());
            bytes.extend(cap.limit_bytes.to_be_bytes());
        }
        let ends = self.name.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = ends.take_while(|end| *end <= MAX_NAME_BYTES).last();
        let name = &self.name[..end.unwrap_or_default()];
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes
    }

    fn read(reader: &mut Reader<'_>) -> Option<(PathId, LinkReport)> {
        let path = PathId(reader.u8()?);
        if path.index() >= PathId::LIMIT {
            return None;
        }
        let flags = reader.u8()?;
        let loss_ratio = f64::from(reader.u16()?) / f64::from(u16::MAX);
        let sent_rate = reader.rate()?;
        let bandwidth = reader.rate()?;
        let rtt = if has(flags, HAS_RTT) {
            Some(Duration::from_micros(reader.u32()?.into()))
        } else {
            None
        };
        let max_rate = if has(flags, HAS_MAX_RATE) {
            Some(reader.rate()?)
        } else {
            None
        };
        let cap = if has(flags, HAS_CAP) {
            Some(LinkCap {
                used_bytes: reader.u64()?,
                limit_bytes: reader.u64()?,
            })
        } else {
            None
        };
        let len = usize::from(reader.u8()?);
        if len > MAX_NAME_BYTES {
            return None;
        }
        let name = core::str::from_utf8(reader.take(len)?).ok()?.to_owned();
        let link = LinkReport {
            name,
            state: STATES[usize::from(flags & 0b11)],
            is_standby: has(flags, STANDS_BY),
            is_metered: has(flags, IS_METERED),
            rtt,
            loss_ratio,
            sent_rate,
            bandwidth,
            max_rate,
            cap,
        };
        Some((path, link))
    }
}

fn kilobits(rate: DataRate) -> u32 {
    u32::try_from(rate.bits_per_second().div_ceil(1_000)).unwrap_or(u32::MAX)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        Some(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.array()?))
    }

    fn rate(&mut self) -> Option<DataRate> {
        Some(DataRate::from_kilobits_per_second(self.u32()?.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> Head {
        Head {
            number: 7,
            interval: Duration::from_millis(300),
        }
    }

    fn link(name: &str) -> LinkReport {
        LinkReport {
            name: name.to_owned(),
            state: PathState::Out,
            is_standby: true,
            is_metered: true,
            rtt: Some(Duration::from_micros(61_234)),
            loss_ratio: 1.0,
            sent_rate: DataRate::from_kilobits_per_second(1_234),
            bandwidth: DataRate::from_megabits_per_second(40),
            max_rate: Some(DataRate::from_megabits_per_second(3)),
            cap: Some(LinkCap {
                used_bytes: 3,
                limit_bytes: 10_000_000_000,
            }),
        }
    }

    #[test]
    fn a_report_reads_back() {
        let links = [link("wlan0"), LinkReport::default()];
        let ids = [PathId(0), PathId(31)];
        let sent = datagrams(head(), ids.into_iter().zip(&links));
        assert_eq!(sent.len(), 1);
        let (read_head, read) = read(&sent[0]).unwrap();
        assert_eq!(read_head, head());
        let expected: Vec<_> = ids.into_iter().zip(links).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn reports_of_many_paths_take_several_datagrams_that_any_path_carries() {
        let links = vec![link(&"ä".repeat(60)); PathId::LIMIT];
        let ids = (0..PathId::LIMIT as u8).map(PathId);
        let sent = datagrams(head(), ids.zip(&links));
        assert!(sent.len() > 1);
        let mut names = Vec::new();
        for datagram in &sent {
            assert!(datagram.len() <= MAX_DATAGRAM_BYTES);
            let (_, links) = read(datagram).unwrap();
            names.extend(links.into_iter().map(|(_, link)| link.name));
        }
        assert_eq!(names, vec!["ä".repeat(20); PathId::LIMIT]);
    }

    #[test]
    fn nothing_to_report_is_no_datagram() {
        assert!(datagrams(head(), core::iter::empty()).is_empty());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(rest in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&rest);
            let mut bytes = rest;
            bytes.insert(0, KIND);
            if let Some((_, links)) = read(&bytes) {
                prop_assert!(links.len() <= PathId::LIMIT);
                prop_assert!(links.iter().all(|(_, link)| link.name.len() <= MAX_NAME_BYTES));
            }
        }

        #[test]
        fn a_report_that_is_cut_short_is_refused(len in 0_usize..60) {
            let links = [link("wlan0")];
            let sent = datagrams(head(), [PathId(3)].into_iter().zip(&links));
            let cut = &sent[0][..len.min(sent[0].len() - 1)];
            prop_assert!(read(cut).is_none_or(|(_, links)| links.is_empty()));
        }
    }
}
