//! Texts that the library lends to the application: one error and one other text a thread.

use core::cell::RefCell;
use core::ffi::c_char;
use std::ffi::CString;

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Returns a text of C; a zero byte inside ends it.
fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// Keeps an error's text until the thread's next one.
pub(crate) fn set_error(text: &str) {
    ERROR.set(c_string(text));
}

/// Returns the last error's text.
pub(crate) fn last_error() -> *const c_char {
    ERROR.with_borrow(|text| text.as_ptr())
}

/// Keeps a text until the thread's next one, and returns it.
pub(crate) fn lend(text: &str) -> *const c_char {
    TEXT.set(c_string(text));
    TEXT.with_borrow(|text| text.as_ptr())
}
