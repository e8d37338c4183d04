//! Sealed datagrams for the sockets. Those of equal size on one path form a batch.

use core::ops::Range;

use anabranch_core::{PathId, SendReason, Transmit};
use anabranch_secure::{HEADER_BYTES, TAG_BYTES};
use anabranch_units::Ecn;

use crate::socket::MAX_BATCH_BYTES;

/// Number of bytes above which the outbox must be emptied before more is added.
const FULL_BYTES: usize = 4 * MAX_BATCH_BYTES;

/// Datagrams that leave in one system call: all but the last have the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) path: PathId,
    pub(crate) ecn: Ecn,
    /// Range of the outbox's bytes.
    pub(crate) range: Range<usize>,
    pub(crate) datagram_bytes: usize,
    /// Whether it is a single datagram that the interface may refuse for its length.
    pub(crate) is_mtu_probe: bool,
    /// Whether the peer acknowledges some of it.
    pub(crate) wants_answer: bool,
}

impl Parcel {
    pub(crate) fn datagram_count(&self) -> usize {
        self.range.len().div_ceil(self.datagram_bytes)
    }
}

/// Datagrams that leave by one path.
#[derive(Debug, Default)]
struct Lot {
    bytes: Vec<u8>,
    parcels: Vec<Parcel>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Datagrams by path. Those of several paths are sent by turns, but leave in one batch per
    /// path.
    lots: Vec<Lot>,
    /// The lot of the last datagram, which the next one most likely joins.
    latest: usize,
    bytes_count: usize,
}

impl Outbox {
    pub(crate) fn is_full(&self) -> bool {
        self.bytes_count >= FULL_BYTES
    }

    /// Appends a plaintext by `write` and protects it by `seal`. The datagram goes to the last
    /// parcel of its path if it fits there. Returns whether there was a datagram.
    ///
    /// # Errors
    /// The error of `seal`. The datagram is then lost.
    pub(crate) fn add<E>(
        &mut self,
        max_batch_count: impl Fn(PathId) -> usize,
        write: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>,
        seal: impl FnOnce(PathId, &mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.reach(self.latest);
        let bytes = &mut self.lots[self.latest].bytes;
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEADER_BYTES]);
        let Some(transmit) = write(bytes) else {
            bytes.truncate(start);
            return Ok(false);
        };
        bytes.extend_from_slice(&[0; TAG_BYTES]);
        if let Err(error) = seal(transmit.path, &mut bytes[start..]) {
            bytes.truncate(start);
            return Err(error);
        }
        self.bytes_count += bytes.len() - start;
        let start = self.move_to(transmit.path, start);
        let Lot { bytes, parcels } = &mut self.lots[self.latest];
        let range = start..bytes.len();
        match parcels.last_mut() {
            Some(last) if takes(last, &transmit, &range, max_batch_count(transmit.path)) => {
                last.range.end = range.end;
                last.wants_answer |= transmit.reason.is_tracked();
            }
            _ => parcels.push(Parcel {
                path: transmit.path,
                ecn: transmit.ecn,
                datagram_bytes: range.len(),
                is_mtu_probe: is_mtu_probe(&transmit),
                wants_answer: transmit.reason.is_tracked(),
                range,
            }),
        }
        Ok(true)
    }

    fn reach(&mut self, index: usize) {
        if self.lots.len() <= index {
            self.lots.resize_with(index + 1, Lot::default);
        }
    }

    /// Moves the last datagram of the latest lot, from `start` on, to the lot of its path. Returns
    /// its start there.
    fn move_to(&mut self, path: PathId, start: usize) -> usize {
        let from = core::mem::replace(&mut self.latest, path.index());
        if from == self.latest {
            return start;
        }
        self.reach(self.latest);
        let [from, to] = self
            .lots
            .get_disjoint_mut([from, self.latest])
            .expect("two lots");
        let moved_to = to.bytes.len();
        to.bytes.extend_from_slice(&from.bytes[start..]);
        from.bytes.truncate(start);
        moved_to
    }

    /// Hands over all parcels, those of each path in order, and empties the outbox.
    pub(crate) fn empty(&mut self, mut send: impl FnMut(&Parcel, &[u8])) {
        for lot in &mut self.lots {
            for parcel in &lot.parcels {
                send(parcel, &lot.bytes[parcel.range.clone()]);
            }
            lot.parcels.clear();
            lot.bytes.clear();
        }
        self.bytes_count = 0;
    }
}

fn is_mtu_probe(transmit: &Transmit) -> bool {
    transmit.reason == SendReason::MtuProbe
}

/// Returns whether a datagram may follow in the parcel: segmentation offload lets only the last one
/// be shorter.
fn takes(parcel: &Parcel, transmit: &Transmit, range: &Range<usize>, max_count: usize) -> bool {
    let is_open = parcel.range.len().is_multiple_of(parcel.datagram_bytes);
    is_open
        && !(parcel.is_mtu_probe || is_mtu_probe(transmit))
        && parcel.path == transmit.path
        && parcel.ecn == transmit.ecn
        && range.len() <= parcel.datagram_bytes
        && parcel.datagram_count() < max_count
        && parcel.range.len() + range.len() <= MAX_BATCH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    /// Size of datagrams that count as probes here.
    const PROBE_SIZE: usize = 1_446;
    const OVERHEAD: usize = HEADER_BYTES + TAG_BYTES;

    /// Returns path, datagram count and bytes of the parcels that datagrams of these paths and
    /// plaintext sizes make.
    fn parcels(datagrams: &[(u8, usize)], max_count: usize) -> Vec<(u8, usize, usize)> {
        let mut outbox = Outbox::default();
        for &(path, size) in datagrams {
            let path = PathId(path);
            let added = outbox.add(
                |_| max_count,
                |bytes| {
                    bytes.resize(bytes.len() + size, 0);
                    Some(Transmit {
                        path,
                        size,
                        ecn: Ecn::NotEct,
                        reason: match size {
                            PROBE_SIZE => SendReason::MtuProbe,
                            _ => SendReason::New,
                        },
                        fragment: None,
                    })
                },
                |_, _| Ok::<_, Infallible>(()),
            );
            assert_eq!(added, Ok(true));
        }
        let mut parcels = Vec::new();
        outbox.empty(|parcel, bytes| {
            assert_eq!(bytes.len(), parcel.range.len());
            parcels.push((parcel.path.0, parcel.datagram_count(), bytes.len()));
        });
        parcels
    }

    #[test]
    fn equal_sizes_to_one_path_are_one_parcel_and_a_shorter_one_ends_it() {
        let datagrams = [(0, 1_000), (0, 1_000), (0, 10), (0, 1_000)];
        let expected = [(0, 3, 2_010 + 3 * OVERHEAD), (0, 1, 1_000 + OVERHEAD)];
        assert_eq!(parcels(&datagrams, 64), expected);
    }

    #[test]
    fn another_path_or_a_longer_datagram_starts_a_parcel() {
        let datagrams = [(0, 100), (1, 100), (1, 101)];
        let expected =
            [(0, 100), (1, 100), (1, 101)].map(|(path, size)| (path, 1, size + OVERHEAD));
        assert_eq!(parcels(&datagrams, 64), expected);
    }

    #[test]
    fn paths_that_take_turns_have_a_parcel_each() {
        let datagrams = [(0, 100), (2, 99), (0, 100), (2, 99), (0, 98), (2, 99)];
        let expected = [(0, 3, 298 + 3 * OVERHEAD), (2, 3, 297 + 3 * OVERHEAD)];
        assert_eq!(parcels(&datagrams, 64), expected);
    }

    #[test]
    fn a_probe_for_a_larger_mtu_travels_alone() {
        let datagrams = [(0, PROBE_SIZE), (0, 1_000), (0, 1_000)];
        let expected = [(0, 1, PROBE_SIZE + OVERHEAD), (0, 2, 2_000 + 2 * OVERHEAD)];
        assert_eq!(parcels(&datagrams, 64), expected);
        let datagrams = [(0, PROBE_SIZE), (0, PROBE_SIZE)];
        assert_eq!(parcels(&datagrams, 64).len(), 2);
    }

    #[test]
    fn parcels_stay_within_the_sockets_and_the_protocols_limits() {
        for (max_count, expected) in [
            (64, vec![49, 49, 2]),
            (40, vec![40, 40, 20]),
            (1, vec![1; 100]),
        ] {
            let parcels = parcels(&[(0, 1_300); 100], max_count);
            let counts: Vec<usize> = parcels.iter().map(|(_, count, _)| *count).collect();
            assert_eq!(counts, expected, "{max_count}");
        }
    }

    #[test]
    fn failed_sealing_leaves_no_bytes() {
        let mut outbox = Outbox::default();
        assert_eq!(
            outbox.add(
                |_| 64,
                |bytes| {
                    bytes.push(1);
                    Some(Transmit {
                        path: PathId(0),
                        size: 1,
                        ecn: Ecn::NotEct,
                        reason: SendReason::New,
                        fragment: None,
                    })
                },
                |_, _| Err("used up")
            ),
            Err("used up")
        );
        assert_eq!(outbox.bytes_count, 0);
        outbox.empty(|parcel, _| panic!("{parcel:?}"));
    }
}
