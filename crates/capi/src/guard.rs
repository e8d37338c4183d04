//! Results of the functions of C: errors and panics become codes and texts.

use core::any::Any;
use core::cell::Cell;
use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use std::panic::{self, catch_unwind};
use std::sync::Once;
use std::thread;

use anabranch_embed::{Error, ErrorCode};

use crate::{AB_ERROR_PANIC, texts};

/// Names of the threads of the library.
const THREADS: [&str; 5] = ["sender", "receiver", "resolver", "resolve", "srtla"];

static QUIET: Once = Once::new();

thread_local! {
    /// Whether this thread is inside of the library.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a function. Returns its number, or the code of its error.
pub(crate) fn code(body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match caught(body) {
        Ok(Ok(number)) => number,
        Ok(Err(error)) => {
            texts::set_error(&error.text);
            error.code as c_int
        }
        Err(text) => {
            texts::set_error(&text);
            AB_ERROR_PANIC
        }
    }
}

/// Runs the body of a function that has no error. Returns `otherwise` after a panic.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    caught(body).unwrap_or_else(|text| {
        texts::set_error(&text);
        otherwise
    })
}

/// Runs a body, and returns the message of its panic.
fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    QUIET.call_once(keep_quiet);
    let was_inside = IS_INSIDE.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    IS_INSIDE.set(was_inside);
    outcome.map_err(|payload| format!("a mistake of the library: {}", message(&*payload)))
}

/// Makes panics of the library print nothing: they become errors, and standard error is the
/// application's.
fn keep_quiet() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_own = thread::current()
            .name()
            .is_some_and(|name| THREADS.contains(&name));
        if !is_own && !IS_INSIDE.get() {
            before(info);
        }
    }));
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let made = payload.downcast_ref::<String>().map(String::as_str);
    let text = made.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it gave no reason")
}

/// Returns an object that the application has named.
pub(crate) fn required<T>(object: Option<T>, name: &str) -> Result<T, Error> {
    object.ok_or_else(|| Error::new(ErrorCode::Argument, format!("{name} is null")))
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        let got = code(|| panic!("number {}", 7));
        assert_eq!(got, AB_ERROR_PANIC);
        // SAFETY: the text is of this thread, which has called nothing since.
        let text = unsafe { CStr::from_ptr(texts::last_error()) };
        assert_eq!(text.to_str(), Ok("a mistake of the library: number 7"));
        assert_eq!(value(3, || panic!("again")), 3);
        assert_eq!(code(|| Ok(7)), 7);
    }
}
