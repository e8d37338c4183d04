//! Keys.

use core::ffi::c_char;
use core::ptr;

use anabranch_embed::{generate_key, public_key};

use crate::guard;
use crate::{foreign, texts};

/// Makes a secret key, for an application that keeps it where its system keeps secrets. Returns its
/// text, which is valid until the calling thread's next call that returns a text; null if the
/// system has no randomness.
#[unsafe(no_mangle)]
pub extern "C" fn ab_generate_key() -> *const c_char {
    guard::value(ptr::null(), || texts::lend(&generate_key()))
}

/// Returns the public key of a secret one, which the other end must know. The text is valid until
/// the calling thread's next call that returns a text. Null if `secret` is no secret key:
/// `ab_last_error` has the reason.
///
/// # Safety
/// `secret` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_public_key(secret: *const c_char) -> *const c_char {
    let mut shown = ptr::null();
    guard::code(|| {
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let secret = unsafe { foreign::text(secret, "secret") }?;
        shown = texts::lend(&public_key(secret)?);
        Ok(0)
    });
    shown
}
