//! Variable-length integers (RFC 9000 §16): 1, 2, 4 or 8 bytes for up to 6, 14, 30 or 62 bits.

/// The largest value that can be written.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// Appends `value`.
///
/// # Panics
/// If `value` is above [`MAX`].
#[inline]
pub(super) fn write(value: u64, out: &mut Vec<u8>) {
    // Most are small.
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        _ => write_longer(value, out),
    }
}

fn write_longer(value: u64, out: &mut Vec<u8>) {
    assert!(value <= MAX, "an integer too large for the wire: {value}");
    match value {
        0..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes a value off the front of `bytes`; `None` if they end too soon.
#[inline]
pub(super) fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first <= 0x3f {
        *bytes = rest;
        return Some(u64::from(first));
    }
    let (value, rest) = read_longer(bytes)?;
    *bytes = rest;
    Some(value)
}

/// Returns the number read, and the bytes behind it.
fn read_longer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    Some(match bytes.first()? >> 6 {
        0 | 1 => {
            let (encoded, rest) = bytes.split_first_chunk()?;
            (u64::from(u16::from_be_bytes(*encoded) & 0x3fff), rest)
        }
        2 => {
            let (encoded, rest) = bytes.split_first_chunk()?;
            (u64::from(u32::from_be_bytes(*encoded) & 0x3fff_ffff), rest)
        }
        _ => {
            let (encoded, rest) = bytes.split_first_chunk()?;
            (u64::from_be_bytes(*encoded) & MAX, rest)
        }
    })
}

/// Folds a signed difference into an unsigned integer that is small when the difference is.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9000_a_1_sample_encodings() {
        for (value, encoded) in [
            (
                151_288_809_941_952_652,
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
            ),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!(out, encoded);
            assert_eq!(read(&mut &out[..]), Some(value));
            assert_eq!(read(&mut &out[..out.len() - 1]), None);
        }
    }

    #[test]
    fn zigzag_is_undone() {
        for value in [0, -1, 1, -64, 63, i64::from(i32::MIN), i64::from(i32::MAX)] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert!(zigzag(-3) < 8);
    }
}
