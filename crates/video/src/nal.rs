//! NAL units of H.264 in a byte stream (ITU-T H.264 annex B): where they start and of which type
//! they are.

/// NAL unit types of H.264 (ITU-T H.264 table 7-1) that access units are told apart by.
pub(crate) mod h264 {
    pub(crate) const SLICE: u8 = 1;
    pub(crate) const SLICE_PARTITION_A: u8 = 2;
    pub(crate) const IDR_SLICE: u8 = 5;
    pub(crate) const SEI: u8 = 6;
    pub(crate) const SPS: u8 = 7;
    pub(crate) const PPS: u8 = 8;
    pub(crate) const ACCESS_UNIT_DELIMITER: u8 = 9;
}

/// The type of an H.264 NAL unit from its first byte.
pub(crate) const fn h264_type(header: u8) -> u8 {
    header & 0x1f
}

/// The type of an HEVC NAL unit from its first byte.
pub(crate) const fn hevc_type(header: u8) -> u8 {
    header >> 1 & 0x3f
}

/// Positions of the bytes that follow a start code (00 00 01) in `bytes`, in order.
pub(crate) fn header_positions(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let found = find_start_code(&bytes[at..])?;
        at += found + 3;
        Some(at)
    })
    .filter(|&position| position < bytes.len())
}

/// The position of the first start code.
fn find_start_code(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    while at < bytes.len() {
        // The third byte says how far the next start code is away at least.
        match bytes[at] {
            0 => at += 1,
            1 if bytes[at - 1] == 0 && bytes[at - 2] == 0 => return Some(at - 2),
            _ => at += 3,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn start_codes_are_found_as_by_plain_search(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2)], 0..60)
        ) {
            // A start code's three bytes cannot overlap those of another.
            let plain: Vec<usize> = (3..bytes.len())
                .filter(|&at| bytes[at - 3..at] == [0, 0, 1])
                .collect();
            prop_assert_eq!(header_positions(&bytes).collect::<Vec<_>>(), plain);
        }
    }
}
