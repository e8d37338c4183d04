//! Functions that JavaScript calls.
//!
//! The page writes a request to the address that [`anabranch_reserve`] returns, calls
//! [`anabranch_call`], and reads the answer from [`anabranch_text`]. No function here reads or
//! writes through an address: all bytes are in vectors of this module, and the page reaches them by
//! the linear memory that it owns. The attribute that keeps a function's name counts as unsafe,
//! since two functions of one name would be undefined behaviour. The prefix keeps these unique.
#![allow(unsafe_code, reason = "exported names; there is no unsafe block")]

use std::cell::RefCell;

use crate::Playground;

/// Largest request: a scenario and its traces are far smaller.
const MAX_REQUEST_BYTES: usize = 64 << 20;

#[derive(Default)]
struct State {
    playground: Playground,
    /// A request, then its answer; or the message of a panic.
    text: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
    static PANIC: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of `length` bytes and returns its address; 0: it is too long.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_reserve(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.text.clear();
        if length > MAX_REQUEST_BYTES {
            return std::ptr::null_mut();
        }
        state.text.resize(length, 0);
        state.text.as_mut_ptr()
    })
}

/// Answers the request, and returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_call() -> usize {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.to_string().into_bytes();
        PANIC.with_borrow_mut(|text| *text = message);
    }));
    STATE.with_borrow_mut(|state| {
        let request = String::from_utf8_lossy(&state.text).into_owned();
        state.text = state.playground.call(&request).into_bytes();
        state.text.len()
    })
}

/// Returns the address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_text() -> *const u8 {
    STATE.with_borrow(|state| state.text.as_ptr())
}

/// Returns the address of the message of the panic that ended a call.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_panic() -> *const u8 {
    PANIC.with_borrow(|text| text.as_ptr())
}

/// Returns the length of that message.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_panic_length() -> usize {
    PANIC.with_borrow(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_requests_get_no_room_and_empty_ones_get_an_error() {
        assert!(anabranch_reserve(usize::MAX).is_null());
        assert!(!anabranch_reserve(4).is_null());
        assert!(anabranch_call() > 0);
        let text = STATE.with_borrow(|state| state.text.clone());
        let text = String::from_utf8(text).expect("JSON");
        assert!(text.starts_with("{\"error\":"), "{text}");
    }
}
