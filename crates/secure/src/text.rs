//! Bytes as unpadded base64url (RFC 4648 §5), each value in exactly one spelling.

use zeroize::{Zeroize, Zeroizing};

/// Characters that 32 bytes take.
pub(crate) const ENCODED_CHARACTERS: usize = characters(32);

/// Returns the number of characters that `bytes` bytes take.
pub(crate) const fn characters(bytes: usize) -> usize {
    (bytes * 8).div_ceil(6)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Reason for which a text is not `N` bytes in base64url. Carries positions, never
/// characters: the text may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    Length { character_count: usize },
    Character { position: usize },
    TrailingBits,
}

/// Appends `bytes` in base64url.
pub(crate) fn encode(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for sextet in 0..=group.len() {
            let value = bits >> (18 - 6 * sextet) & 0x3f;
            out.push(char::from(ALPHABET[value as usize]));
        }
    }
}

/// Reads what [`encode`] writes.
pub(crate) fn decode<const N: usize>(text: &str) -> Result<Zeroizing<[u8; N]>, DecodeError>
where
    [u8; N]: Zeroize,
{
    let character_count = text.chars().count();
    if character_count != characters(N) {
        return Err(DecodeError::Length { character_count });
    }
    let mut bytes = Zeroizing::new([0; N]);
    let mut filled = 0;
    let mut pending: u32 = 0;
    let mut pending_bits = 0;
    for (position, character) in text.chars().enumerate() {
        let sextet = sextet(character).ok_or(DecodeError::Character { position })?;
        pending = pending << 6 | sextet;
        pending_bits += 6;
        if pending_bits >= 8 {
            pending_bits -= 8;
            bytes[filled] = (pending >> pending_bits) as u8;
            filled += 1;
            pending &= (1 << pending_bits) - 1;
        }
    }
    // 43 characters hold 258 bits. Were the last two ignored, a key would have four spellings.
    if pending == 0 {
        Ok(bytes)
    } else {
        Err(DecodeError::TrailingBits)
    }
}

fn sextet(character: char) -> Option<u32> {
    let value = match character {
        'A'..='Z' => character as u32 - 'A' as u32,
        'a'..='z' => character as u32 - 'a' as u32 + 26,
        '0'..='9' => character as u32 - '0' as u32 + 52,
        '-' => 62,
        '_' => 63,
        _ => return None,
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(bytes: &[u8; 32]) -> String {
        let mut text = String::new();
        encode(bytes, &mut text);
        text
    }

    #[test]
    fn rfc_4648_alphabet_and_order() {
        let mut bytes = [0; 32];
        // RFC 4648 §9: 14 FB 9C 03 D9 7E is "FPucA9l-" in the URL-safe alphabet.
        bytes[..6].copy_from_slice(&[0x14, 0xfb, 0x9c, 0x03, 0xd9, 0x7e]);
        assert_eq!(encoded(&bytes), format!("FPucA9l-{}", "A".repeat(35)));
    }

    #[test]
    fn one_spelling_each() {
        let mut text = encoded(&[0; 32]);
        text.replace_range(42.., "B");
        assert_eq!(decode::<32>(&text), Err(DecodeError::TrailingBits));
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(bytes: [u8; 32]) {
            prop_assert_eq!(*decode::<32>(&encoded(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn what_decodes_is_what_encodes(text in "[A-Za-z0-9_-]{43}") {
            if let Ok(bytes) = decode::<32>(&text) {
                prop_assert_eq!(encoded(&bytes), text);
            }
        }
    }
}
