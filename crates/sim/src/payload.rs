//! The bytes of a datagram in flight.

/// Number of bytes stored in place: the headers of media and usual reports.
const START_BYTES: usize = 23;

/// Number of further bytes stored apart. With them, reports with holes and acknowledgements of
/// streams take two cache lines.
const MORE_BYTES: usize = 40;

/// Zeros, as many as the longest datagrams of simulated media have bytes.
static ZEROS: [u8; 2_048] = [0; 2_048];

/// A datagram's bytes, kept small. Padding and the contents of simulated frames are zeros, which
/// take no room. Otherwise, thousands of packets in flight would exceed a processor's caches.
#[derive(Debug)]
pub(crate) struct Payload {
    length: u32,
    /// The first bytes. Those beyond the length have no meaning.
    start: [u8; START_BYTES],
    /// Whether further bytes are not all zeros.
    has_more: bool,
}

/// Bytes that exceed the space in a [`Payload`].
#[derive(Debug)]
pub(crate) struct More {
    /// The next bytes. Those beyond the payload's length have no meaning.
    next: [u8; MORE_BYTES],
    /// The bytes after `next`, without (most of) the zeros at the end.
    rest: Vec<u8>,
}

// A cache line of processors with addresses of 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<More>() == 64);

impl Payload {
    /// The empty payload.
    pub(crate) const EMPTY: Payload = Payload {
        length: 0,
        start: [0; START_BYTES],
        has_more: false,
    };

    /// Replaces the bytes; `more` takes those that do not fit in place. If the content behind the
    /// headers is known to be zeros, it is not read.
    pub(crate) fn pack(&mut self, bytes: &[u8], has_blank_content: bool, more: &mut More) {
        self.length = bytes.len() as u32;
        let Some((start, mut rest)) = bytes.split_first_chunk() else {
            self.start[..bytes.len()].copy_from_slice(bytes);
            self.has_more = false;
            return;
        };
        self.start = *start;
        if has_blank_content && let Some((next, content)) = rest.split_first_chunk::<MORE_BYTES>() {
            debug_assert!(
                content.iter().all(|byte| *byte == 0),
                "the header is shorter"
            );
            rest = next;
        }
        self.has_more = !is_zeros(rest);
        if self.has_more {
            more.pack(rest);
        }
    }

    /// Returns all bytes, in `buffer`; `more` is not read if all of them fit in place.
    pub(crate) fn unpack<'a>(&self, more: &More, buffer: &'a mut Unpacked) -> &'a [u8] {
        let length = self.length as usize;
        buffer.clear(length);
        buffer.bytes[..START_BYTES].copy_from_slice(&self.start);
        if self.has_more {
            buffer.put(&more.next);
            if !more.rest.is_empty() {
                buffer.put(&more.rest);
            }
        }
        &buffer.bytes[..length]
    }
}

/// Room for unpacking. The zeros at the end of a datagram remain for the next one.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    bytes: Vec<u8>,
    /// Length of the used part, behind which all bytes are zeros.
    used: usize,
}

impl Unpacked {
    /// Makes room for a payload of `length` bytes: zeros behind the bytes that every payload has.
    fn clear(&mut self, length: usize) {
        if self.used > START_BYTES {
            self.bytes[START_BYTES..self.used].fill(0);
        }
        self.used = START_BYTES;
        if self.bytes.len() < length + MORE_BYTES {
            self.bytes.resize(length + START_BYTES + MORE_BYTES, 0);
        }
    }

    /// Appends bytes to the used ones.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        self.bytes[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }
}

impl More {
    /// No further bytes.
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

/// Returns whether all bytes are zeros. Few bytes are not checked: they count as other data.
fn is_zeros(bytes: &[u8]) -> bool {
    // A comparison is the fastest check.
    let is_looked_at = bytes.len() >= MORE_BYTES;
    bytes.is_empty() || (is_looked_at && ZEROS.get(..bytes.len()) == Some(bytes))
}

/// Returns `bytes` without most of the zeros at their end.
fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    if is_zeros(bytes) {
        &[]
    } else {
        strip_zeros::<8>(strip_zeros::<64>(bytes))
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
        let mut buffer = Unpacked::default();
        let (mut payload, mut more) = (Payload::EMPTY, More::EMPTY);
        for length in [
            0_usize, 1_200, 1, 22, 23, 24, 54, 55, 56, 64, 87, 200, 3_000, 40,
        ] {
            for last in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut bytes = vec![0; length];
                for byte in bytes.iter_mut().take(last.map_or(0, |last| last + 1)) {
                    *byte = 7;
                }
                payload.pack(&bytes, false, &mut more);
                assert_eq!(payload.unpack(&more, &mut buffer), bytes);
            }
        }
    }

    #[test]
    fn zeros_after_a_header_take_no_room() {
        let mut bytes = vec![0; 1_200];
        bytes[..20].fill(1);
        let (mut payload, mut more) = (Payload::EMPTY, More::EMPTY);
        payload.pack(&bytes, false, &mut more);
        assert!(!payload.has_more && more.rest.is_empty());
        bytes[..50].fill(1);
        payload.pack(&bytes, true, &mut more);
        assert!(payload.has_more && more.rest.is_empty());
        assert_eq!(payload.unpack(&more, &mut Unpacked::default()), bytes);
    }
}
