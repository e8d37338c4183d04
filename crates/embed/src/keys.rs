//! Keys as texts.

use anabranch_net::read_or_create_key;
use anabranch_secure::SecretKey;

use crate::error::{Error, ErrorCode};

/// Beginning of a secret key's text.
const SECRET: &str = "absec_";

/// Makes a secret key, for an application that keeps it where its system keeps secrets.
pub fn generate_key() -> String {
    SecretKey::generate().to_text().to_string()
}

/// Returns the public key of a secret one. The other end must know it.
///
/// # Errors
/// The text is no secret key.
pub fn public_key(secret: &str) -> Result<String, Error> {
    let key = SecretKey::from_text(secret).map_err(|error| Error::of(ErrorCode::Argument, &error));
    Ok(key?.public_key().to_string())
}

/// Reads the value of `key`: a secret key, or the name of its file, which is made if there is none.
pub(crate) fn read(text: &str) -> Result<SecretKey, Error> {
    if text.trim_start().starts_with(SECRET) {
        SecretKey::from_text(text).map_err(|error| Error::of(ErrorCode::Config, &error))
    } else {
        read_or_create_key(text).map_err(|error| Error::of(ErrorCode::System, &error))
    }
}
