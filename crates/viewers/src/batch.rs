//! Datagrams of one viewer that one system call sends: all of the same length, but for the last.

use std::net::SocketAddr;

/// Most bytes of a batch: those of a datagram of IPv4, less headers.
const MAX_BYTES: usize = 60_000;

/// Datagrams behind one another.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) datagram_len: usize,
    count: usize,
    /// Whether the last datagram is shorter than the others.
    is_closed: bool,
}

impl Batch {
    /// Creates a batch of one datagram.
    pub(crate) fn new(source: SocketAddr, destination: SocketAddr, bytes: &[u8]) -> Self {
        Batch {
            source,
            destination,
            bytes: bytes.to_vec(),
            datagram_len: bytes.len(),
            count: 1,
            is_closed: bytes.is_empty(),
        }
    }

    /// Adds a datagram, if it fits behind the others and they are fewer than `most`. Returns
    /// whether it does.
    pub(crate) fn add(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
        most: usize,
    ) -> bool {
        let is_same = self.source == source && self.destination == destination;
        let fits = !self.is_closed
            && self.count < most
            && bytes.len() <= self.datagram_len
            && !bytes.is_empty()
            && self.bytes.len() + bytes.len() <= MAX_BYTES;
        if !is_same || !fits {
            return false;
        }
        self.is_closed = bytes.len() < self.datagram_len;
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_one_length_go_together_up_to_a_shorter_one() {
        let [us, viewer, other] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut batch = Batch::new(us, viewer, &[1; 100]);
        assert!(batch.add(us, viewer, &[2; 100], 4));
        assert!(!batch.add(us, other, &[3; 100], 4));
        assert!(!batch.add(us, viewer, &[3; 101], 4));
        assert!(batch.add(us, viewer, &[3; 40], 4));
        assert!(!batch.add(us, viewer, &[4; 40], 4), "behind a shorter one");
        assert_eq!((batch.bytes.len(), batch.datagram_len), (240, 100));
    }

    #[test]
    fn a_batch_has_bounds() {
        let us = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut batch = Batch::new(us, us, &[1; 10]);
        assert!(!batch.add(us, us, &[1; 10], 1));
        assert!(batch.add(us, us, &[1; 10], 2));
        assert!(!batch.add(us, us, &[1; 10], 2));
        let mut batch = Batch::new(us, us, &[1; 40_000]);
        assert!(!batch.add(us, us, &[1; 40_000], 9));
    }
}
