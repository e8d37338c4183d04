//! The bytes of a datagram on its way.

/// How many bytes are kept in place: the headers of media and usual reports.
const START_BYTES: usize = 23;

/// How many more are kept beside: with them, reports with holes and acknowledgements of streams
/// take two lines of a cache.
const MORE_BYTES: usize = 40;

/// As long as the longest datagrams of simulated media.
static ZEROS: [u8; 2_048] = [0; 2_048];

/// A datagram's bytes, kept small: padding and the contents of simulated frames are zeros, which
/// take no room while nobody reads them. Thousands of packets on their way would else be more than
/// a processor's caches hold.
#[derive(Debug)]
pub(crate) struct Payload {
    length: u32,
    /// The first bytes. Nobody reads those beyond the length.
    start: [u8; START_BYTES],
    /// Whether there are others than zeros after them.
    has_more: bool,
}

/// What does not fit into a [`Payload`].
#[derive(Debug)]
pub(crate) struct More {
    /// The bytes that follow. Nobody reads those beyond the payload's length.
    next: [u8; MORE_BYTES],
    /// Those after them, without (most of) the zeros at the end.
    rest: Vec<u8>,
}

const _: () = assert!(size_of::<More>() == 64);

impl Payload {
    /// Of no bytes.
    pub(crate) const EMPTY: Payload = Payload {
        length: 0,
        start: [0; START_BYTES],
        has_more: false,
    };

    /// Keeps these bytes in place of those before, those that do not fit in `more`.
    pub(crate) fn pack(&mut self, bytes: &[u8], more: &mut More) {
        self.length = bytes.len() as u32;
        let Some((start, rest)) = bytes.split_first_chunk() else {
            self.start[..bytes.len()].copy_from_slice(bytes);
            self.has_more = false;
            return;
        };
        self.start = *start;
        self.has_more = !is_zeros(rest);
        if self.has_more {
            more.pack(rest);
        }
    }

    /// Replaces what is in `out` by all of the bytes; `more` is not looked at if all did fit.
    pub(crate) fn unpack(&self, more: &More, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.start);
        if self.has_more {
            out.extend_from_slice(&more.next);
            out.extend_from_slice(&more.rest);
        }
        out.resize(self.length as usize, 0);
    }
}

impl More {
    /// Of no bytes.
    pub(crate) const EMPTY: More = More {
        next: [0; MORE_BYTES],
        rest: Vec::new(),
    };

    fn pack(&mut self, bytes: &[u8]) {
        self.rest.clear();
        match bytes.split_first_chunk() {
            Some((next, rest)) => {
                self.next = *next;
                self.rest.extend_from_slice(without_trailing_zeros(rest));
            }
            None => self.next[..bytes.len()].copy_from_slice(bytes),
        }
    }
}

/// Whether there is nothing but zeros. What is few bytes is not looked at.
fn is_zeros(bytes: &[u8]) -> bool {
    // Comparing is the fastest way of looking.
    let is_looked_at = bytes.len() >= MORE_BYTES;
    bytes.is_empty() || (is_looked_at && ZEROS.get(..bytes.len()) == Some(bytes))
}

/// `bytes` without the zeros at their end, save a few.
fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    match is_zeros(bytes) {
        true => &[],
        false => strip_zeros::<8>(strip_zeros::<64>(bytes)),
    }
}

fn strip_zeros<const STEP: usize>(mut bytes: &[u8]) -> &[u8] {
    while let Some((before, step)) = bytes.split_last_chunk::<STEP>()
        && step.iter().fold(0, |any, byte| any | byte) == 0
    {
        bytes = before;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_unpacked_as_it_was() {
        let mut out = vec![9; 3];
        let (mut payload, mut more) = (Payload::EMPTY, More::EMPTY);
        for length in [0_usize, 1, 22, 23, 24, 54, 55, 56, 64, 87, 200, 1_200] {
            for last in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut bytes = vec![0; length];
                for byte in bytes.iter_mut().take(last.map_or(0, |last| last + 1)) {
                    *byte = 7;
                }
                payload.pack(&bytes, &mut more);
                payload.unpack(&more, &mut out);
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn zeros_after_a_header_take_no_room() {
        let mut bytes = vec![0; 1_200];
        bytes[..20].fill(1);
        let (mut payload, mut more) = (Payload::EMPTY, More::EMPTY);
        payload.pack(&bytes, &mut more);
        assert!(!payload.has_more && more.rest.is_empty());
    }
}
