//! Variable-length integers: seven bits a byte, the lowest first.

/// Appends a number.
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number of at most `max_len` bytes from the front; `None` if there is none.
pub(crate) fn take(bytes: &mut &[u8], max_len: usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..7 * max_len).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
