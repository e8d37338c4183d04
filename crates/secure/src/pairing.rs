//! Codes by which an initiator that is not allowed yet registers its key.

use core::fmt;
use core::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::text;

/// Length of a code: 128 bits, which nobody guesses.
pub(crate) const CODE_BYTES: usize = 16;

/// A code that a responder gives out once, to one person. It is wiped when dropped,
/// never shown by `Debug`, and compared in constant time.
///
/// ```
/// use anabranch_secure::{Initiator, PairingCode, ParameterBlock, Responder, SecretKey};
///
/// let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
/// let studio_name = studio.public_key();
/// // The studio knows no camera, and shows a code.
/// let mut responder = Responder::new(studio, []);
/// let code = PairingCode::generate();
/// responder.add_code(code.clone());
///
/// let typed: PairingCode = code.to_text().parse()?;
/// let parameters = ParameterBlock::default();
/// let initiator = Initiator::pairing(&camera, &studio_name, 1, parameters, &typed);
/// let request = responder.read_initiation(initiator.message())?;
/// assert_eq!(request.code(), Some(&code));
/// responder.allow(request.peer());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PairingCode(Zeroizing<[u8; CODE_BYTES]>);

/// Reason for which a text is no code. It repeats nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a code has 22 letters, digits, \"-\" and \"_\": was it copied whole?")]
pub struct ParseCodeError;

impl PairingCode {
    /// A new code, from the operating system's random generator.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn generate() -> Self {
        let mut code = PairingCode(Zeroizing::default());
        let filled = SystemRandom::new().fill(&mut *code.0);
        filled.expect("the operating system's random generator failed");
        code
    }

    /// Returns its 22 characters of base64url, wiped when dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Room for all at once: a string that grows would leave pieces of the code behind.
        let mut out = Zeroizing::new(String::with_capacity(text::characters(CODE_BYTES)));
        text::encode(&*self.0, &mut out);
        out
    }

    pub(crate) fn bytes(&self) -> &[u8; CODE_BYTES] {
        &self.0
    }

    /// Compares in constant time.
    pub(crate) fn is(&self, claimed: &[u8]) -> bool {
        self.0.ct_eq(claimed).into()
    }
}

impl PartialEq for PairingCode {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.bytes())
    }
}

impl Eq for PairingCode {}

impl FromStr for PairingCode {
    type Err = ParseCodeError;

    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        text::decode(text)
            .map(PairingCode)
            .map_err(|_| ParseCodeError)
    }
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingCode(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_one_spelling_and_is_never_shown() {
        let code = PairingCode::generate();
        let text = code.to_text();
        assert_eq!(text.len(), 22);
        let read: PairingCode = text.parse().unwrap();
        assert!(read.is(code.bytes()) && !read.is(PairingCode::generate().bytes()));
        assert!(!read.is(&code.bytes()[..15]));
        assert!(!format!("{code:?}").contains(&text[..4]));
        for wrong in [
            "",
            &text[1..],
            "!!!!!!!!!!!!!!!!!!!!!!",
            "AAAAAAAAAAAAAAAAAAAAAB",
        ] {
            assert!(wrong.parse::<PairingCode>().is_err(), "{wrong}");
        }
    }
}
