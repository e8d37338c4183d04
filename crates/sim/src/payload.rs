//! The bytes of a datagram on its way.

/// How many bytes are kept in place: the headers of media, usual reports and acknowledgements.
const START_BYTES: usize = 23;

/// Fewer bytes are kept, zeros or not.
const FEW_BYTES: usize = 32;

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
    /// Whether there are others than zeros after them, which are kept elsewhere.
    has_more: bool,
}

impl Payload {
    /// Of no bytes.
    pub(crate) const EMPTY: Payload = Payload {
        length: 0,
        start: [0; START_BYTES],
        has_more: false,
    };

    /// Keeps these bytes in place of those before, those that do not fit in `more`.
    pub(crate) fn pack(&mut self, bytes: &[u8], more: &mut Vec<u8>) {
        self.length = bytes.len() as u32;
        self.has_more = false;
        let Some((start, rest)) = bytes.split_first_chunk() else {
            self.start[..bytes.len()].copy_from_slice(bytes);
            return;
        };
        self.start = *start;
        let kept = without_trailing_zeros(rest);
        if !kept.is_empty() {
            self.has_more = true;
            more.clear();
            more.extend_from_slice(kept);
        }
    }

    /// Replaces what is in `out` by all of the bytes; `more` is asked for those that did not fit.
    pub(crate) fn unpack<'a>(&self, more: impl FnOnce() -> &'a [u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.start);
        if self.has_more {
            out.extend_from_slice(more());
        }
        out.resize(self.length as usize, 0);
    }
}

/// `bytes` without the zeros at their end, save a few.
fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    if bytes.len() < FEW_BYTES {
        return bytes;
    }
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
        let (mut payload, mut more) = (Payload::EMPTY, Vec::new());
        for length in [0_usize, 1, 22, 23, 24, 54, 55, 56, 64, 87, 200, 1_200] {
            for last in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut bytes = vec![0; length];
                for byte in bytes.iter_mut().take(last.map_or(0, |last| last + 1)) {
                    *byte = 7;
                }
                payload.pack(&bytes, &mut more);
                payload.unpack(|| &more, &mut out);
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn zeros_after_a_header_take_no_room() {
        let mut bytes = vec![0; 1_200];
        bytes[..20].fill(1);
        let (mut payload, mut more) = (Payload::EMPTY, Vec::new());
        payload.pack(&bytes, &mut more);
        assert!(!payload.has_more && more.is_empty());
    }
}
