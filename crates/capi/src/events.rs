//! Events as texts: for functions that return them, and for those that call the application.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::ffi::CString;

use anabranch_embed::Error;

use crate::guard::required;
use crate::texts;

/// A function of the application that gets an event as JSON, as
/// `{"event":"path-state","path":0,"name":"wlan0","state":"out"}`. The text is valid during the
/// call. The function runs on the thread that has called the library, and may call the library,
/// except for freeing the object. It must return, and not throw. A result other than 0 ends the
/// calls.
pub type ab_on_event = Option<extern "C" fn(context: *mut c_void, json: *const c_char) -> c_int>;

/// Puts the next event at `json`. Returns 1 with an event, and 0 without one.
pub(crate) fn hand_over(
    json: Option<&mut MaybeUninit<*const c_char>>,
    next: impl FnOnce() -> Result<Option<String>, Error>,
) -> Result<c_int, Error> {
    let json = required(json, "json")?.write(ptr::null());
    match next()? {
        Some(event) => {
            *json = texts::lend(&event);
            Ok(1)
        }
        None => Ok(0),
    }
}

/// Calls the application for each event until there is none. Returns their number.
pub(crate) fn dispatch(
    on_event: ab_on_event,
    context: *mut c_void,
    next: impl Fn() -> Result<Option<String>, Error>,
) -> Result<c_int, Error> {
    let on_event = required(on_event, "on_event")?;
    let mut count = 0;
    loop {
        let event = match next() {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(count),
            Err(_) if count > 0 => return Ok(count),
            Err(error) => return Err(error),
        };
        count += 1;
        let json = CString::new(event).unwrap_or_default();
        if on_event(context, CStr::as_ptr(&json)) != 0 {
            return Ok(count);
        }
    }
}
