//! The bytes of a datagram on its way.

/// How many bytes are kept in place: the headers of media, usual reports and acknowledgements. With
/// them a packet's journey takes two lines of a cache.
const INLINE_BYTES: usize = 56;

/// As long as the longest datagrams of simulated media.
static ZEROS: [u8; 2_048] = [0; 2_048];

/// A datagram's bytes, kept small: padding and the contents of simulated frames are zeros, which
/// take no room while nobody reads them. Thousands of packets on their way would else be more than
/// a processor's caches hold.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The first bytes. Nobody reads those beyond the length.
    start: [u8; INLINE_BYTES],
    length: u32,
    /// Those after them, without (most of) the zeros at the end.
    rest: Box<[u8]>,
}

impl Default for Payload {
    /// Of no bytes.
    fn default() -> Self {
        Payload {
            start: [0; INLINE_BYTES],
            length: 0,
            rest: Box::default(),
        }
    }
}

impl Payload {
    /// Keeps these bytes in place of those before.
    pub(crate) fn pack(&mut self, bytes: &[u8]) {
        self.length = bytes.len() as u32;
        let rest = match bytes.split_first_chunk() {
            Some((start, rest)) => {
                self.start = *start;
                without_trailing_zeros(rest)
            }
            None => {
                self.start[..bytes.len()].copy_from_slice(bytes);
                &[]
            }
        };
        if !(rest.is_empty() && self.rest.is_empty()) {
            self.rest = rest.into();
        }
    }

    /// Replaces what is in `out` by all of the bytes.
    pub(crate) fn unpack(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.start);
        if !self.rest.is_empty() {
            out.extend_from_slice(&self.rest);
        }
        out.resize(self.length as usize, 0);
    }
}

/// `bytes` without the zeros at their end, save a few.
fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    // As most are: nothing but a header has gone before. Comparing is the fastest way of looking.
    match ZEROS.get(..bytes.len()) {
        Some(zeros) if bytes == zeros => &[],
        _ => strip_zeros::<8>(strip_zeros::<64>(bytes)),
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
        let mut payload = Payload::default();
        for length in [0_usize, 1, 55, 56, 57, 64, 65, 200, 1_200] {
            for last in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut bytes = vec![0; length];
                for byte in bytes.iter_mut().take(last.map_or(0, |last| last + 1)) {
                    *byte = 7;
                }
                payload.pack(&bytes);
                payload.unpack(&mut out);
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn zeros_after_a_header_take_no_room() {
        let mut bytes = vec![0; 1_200];
        bytes[..20].fill(1);
        let mut payload = Payload::default();
        payload.pack(&bytes);
        assert!(payload.rest.is_empty());
    }
}
