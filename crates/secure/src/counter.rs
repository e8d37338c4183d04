//! Counters of 64 bits of which only the low 32 are sent (RFC 9000 §17.1 and §A.3).

/// Returns the counter nearest to `expected` whose low 32 bits are `truncated`. `expected` is one
/// more than the greatest counter authenticated so far on that path.
///
/// Correct if sender and receiver differ by less than 2³¹ datagrams.
pub(crate) fn expand(truncated: u32, expected: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    const HALF_SPAN: u64 = SPAN / 2;
    let candidate = (expected & !(SPAN - 1)) | u64::from(truncated);
    if candidate.saturating_add(HALF_SPAN) <= expected {
        candidate.saturating_add(SPAN)
    } else if candidate > expected.saturating_add(HALF_SPAN) && candidate >= SPAN {
        candidate - SPAN
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expands_across_the_wrap_both_ways() {
        assert_eq!(expand(0, 1 << 32), 1 << 32);
        assert_eq!(expand(2, (1 << 32) - 1), (1 << 32) + 2);
        assert_eq!(expand(u32::MAX, (1 << 32) + 5), (1 << 32) - 1);
        assert_eq!(expand(0x9b32, 0xa82f_30eb), 0x1_0000_9b32);
    }

    #[test]
    fn never_below_zero() {
        assert_eq!(expand(u32::MAX, 0), u64::from(u32::MAX));
    }

    proptest! {
        #[test]
        fn inverts_truncation_near_the_expected(
            expected in 0u64..1 << 48, offset in -(1i64 << 31) + 1..1 << 31,
        ) {
            let counter = expected.saturating_add_signed(offset);
            prop_assert_eq!(expand(counter as u32, expected), counter);
        }

        #[test]
        fn any_input_is_answered_in_its_residue_class(truncated: u32, expected in 0u64..1 << 62) {
            prop_assert_eq!(expand(truncated, expected) as u32, truncated);
        }
    }
}
