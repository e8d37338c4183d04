//! Counters of which only the low 32 bits travel (as RFC 9000 §A.3 does with packet numbers).

/// Returns the value with these low bits that is nearest to `expected`.
pub(crate) fn expand(low_bits: u32, expected: u64) -> u64 {
    const WINDOW: u64 = 1 << 32;
    let candidate = (expected & !(WINDOW - 1)) | u64::from(low_bits);
    if candidate + WINDOW / 2 <= expected && candidate < u64::MAX - WINDOW {
        candidate + WINDOW
    } else if candidate > expected + WINDOW / 2 && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_value_wins() {
        let at = 5 << 32;
        assert_eq!(expand(7, at), at + 7);
        assert_eq!(expand(u32::MAX, at), at - 1);
        assert_eq!(expand(0, at - 1), at);
        assert_eq!(expand(u32::MAX, 0), u64::from(u32::MAX));
    }
}
