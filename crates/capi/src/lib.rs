//! The C interface of Anabranch, `libanabranch`: `include/anabranch.h` and `docs/c-interface.md`
//! describe it.
//!
//! | file | idea |
//! |---|---|
//! | `sender.rs`, `receiver.rs`, `keys.rs` | the functions, over the façade `anabranch-embed` |
//! | `foreign.rs` | pointers of the application: the only ones that are followed here |
//! | `events.rs` | events as texts |
//! | `guard.rs` | errors and panics become codes |
//! | `texts.rs` | texts that the library lends |
//!
//! Objects are parameters of type `Option<&T>` or `Option<Box<T>>`, which are C's pointers that may
//! be null. So the compiler checks their use here, and the header states the application's part.

#![allow(
    unsafe_code,
    reason = "C has pointers and symbols; every block states why it may"
)]
#![allow(
    non_camel_case_types,
    reason = "the types have their names of C, for the header"
)]

mod events;
mod foreign;
pub mod fuzzing;
mod guard;
mod keys;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod texts;

use core::ffi::{c_char, c_int};

pub use events::ab_on_event;
pub use keys::{ab_generate_key, ab_public_key};
pub use receiver::*;
pub use sender::*;

/// Success.
pub const AB_OK: c_int = 0;
/// The set-up has a mistake, which the error's text names.
pub const AB_ERROR_CONFIG: c_int = -1;
/// An argument is wrong: for example, a pointer is null.
pub const AB_ERROR_ARGUMENT: c_int = -2;
/// The object is in another state: for example, it was started before.
pub const AB_ERROR_STATE: c_int = -3;
/// A path cannot be added or is unknown.
pub const AB_ERROR_PATH: c_int = -4;
/// The operating system refused something.
pub const AB_ERROR_SYSTEM: c_int = -5;
/// There is no session yet.
pub const AB_ERROR_NOT_CONNECTED: c_int = -6;
/// Too many bytes wait. The frame was not taken; the encoder must produce a key frame next.
pub const AB_ERROR_BACKLOGGED: c_int = -7;
/// The session is over.
pub const AB_ERROR_ENDED: c_int = -8;
/// The time limit is over.
pub const AB_ERROR_TIMED_OUT: c_int = -9;
/// A mistake of the library: it has caught a panic. The object must only be freed.
pub const AB_ERROR_PANIC: c_int = -10;

/// Flag of a frame: decoding can start here. Such frames are never given up for their age.
pub const AB_FRAME_KEY: u32 = 1;
/// Flag of a frame: no other frame needs it.
pub const AB_FRAME_DISPOSABLE: u32 = 2;

/// In place of a time: the frame is captured now.
pub const AB_PTS_NOW: i64 = i64::MIN;

/// Version of the interface: 65,536 times its generation, plus the number of additions to it. A
/// program works with every library of the same generation and no fewer additions.
pub const AB_ABI: u32 = (1 << 16) + 1;

/// Returns `AB_ABI` of the library that runs.
#[unsafe(no_mangle)]
pub extern "C" fn ab_abi() -> u32 {
    AB_ABI
}

/// Returns the text of the last error of the calling thread; empty if it had none. The text is
/// valid until this thread's next call of the library. It is for people, and repeats no secrets.
#[unsafe(no_mangle)]
pub extern "C" fn ab_last_error() -> *const c_char {
    texts::last_error()
}
