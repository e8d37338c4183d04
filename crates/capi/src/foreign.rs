//! Pointers to texts and bytes of the application.

use core::ffi::{CStr, c_char};
use core::slice;

use anabranch_embed::{Error, ErrorCode};

fn wrong(name: &str, reason: &str) -> Error {
    Error::new(ErrorCode::Argument, format!("{name} {reason}"))
}

/// Returns a text of the application.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero, and that nobody changes or frees while
/// the returned text is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(wrong(name, "is null"));
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| wrong(name, "is not UTF-8"))
}

/// Returns bytes of the application; none if there are none, whatever the pointer is.
///
/// # Safety
/// `count` is 0 or too large for memory, or `bytes` is null, or it points to `count` bytes that
/// nobody changes or frees while the returned ones are used.
pub(crate) unsafe fn bytes<'a>(bytes: *const u8, count: usize) -> Result<&'a [u8], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(wrong("bytes", "is null"));
    }
    if count > isize::MAX as usize {
        return Err(wrong("count", "is more than memory has"));
    }
    // SAFETY: it is not null, the length fits memory, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(bytes, count) })
}

/// Returns a UDP socket with the library's own descriptor for a socket of the application.
#[cfg(unix)]
pub(crate) fn udp_socket(descriptor: core::ffi::c_int) -> Result<std::net::UdpSocket, Error> {
    use std::os::fd::BorrowedFd;

    if descriptor < 0 {
        return Err(wrong("socket", "is no descriptor"));
    }
    // SAFETY: it is not -1. It is the application's open descriptor during the call, as the header
    // demands; of another number, the system's call fails.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let cloned = borrowed.try_clone_to_owned().map(std::net::UdpSocket::from);
    let own = cloned.and_then(|socket| socket.local_addr().map(|_| socket));
    own.map_err(|error| wrong("socket", &format!("cannot be used: {error}")))
}
