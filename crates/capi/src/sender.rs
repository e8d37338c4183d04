//! Functions of senders.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::time::Duration;

use anabranch_embed::{Error, ErrorCode, Importance, Sender};

use crate::events::{self, ab_on_event};
use crate::guard::{self, required};
use crate::{AB_FRAME_DISPOSABLE, AB_FRAME_KEY, AB_OK, AB_PTS_NOW, foreign, texts};

/// A sender.
#[derive(Debug)]
pub struct ab_sender(pub(crate) Sender);

pub(crate) fn millis(millis: u32) -> Duration {
    Duration::from_millis(u64::from(millis))
}

/// Hands a new object to the application.
pub(crate) fn hand_over<T>(
    out: Option<&mut MaybeUninit<*mut T>>,
    make: impl FnOnce() -> Result<T, Error>,
) -> c_int {
    guard::code(|| {
        let out = required(out, "out")?;
        let place = out.write(ptr::null_mut());
        *place = Box::into_raw(Box::new(make()?));
        Ok(AB_OK)
    })
}

/// Makes a sender. `config` is TOML with the keys of `anabranch send --config`, or a link of
/// `anabranch recv --pair`, or an address `srtla://HOST:PORT?streamid=...`. No thread runs and no
/// socket is opened before `ab_sender_start`. The sender is at `out`, and null after an error. It
/// must be freed by `ab_sender_free`.
///
/// # Safety
/// `config` is null or a text that ends with a zero byte. `out` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_sender_new(
    config: *const c_char,
    out: Option<&mut MaybeUninit<*mut ab_sender>>,
) -> c_int {
    hand_over(out, || {
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let config = unsafe { foreign::text(config, "config") }?;
        Sender::new(config).map(ab_sender)
    })
}

/// Adds a path by an interface or a local address, before the start or while the sender runs. `via`
/// is as a value of `--via`: `wlan0`, `192.0.2.7` or `wwan0,metered,max=3Mbit/s`. Returns the
/// path's number, or an error.
///
/// # Safety
/// `via` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_sender_add_path(
    sender: Option<&ab_sender>,
    via: *const c_char,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let via = unsafe { foreign::text(via, "via") }?;
        Ok(sender.0.add_path(via, None)? as c_int)
    })
}

/// Adds a path by a UDP socket that the application has made and bound to a network, as by
/// Android's `Network.bindSocket`. `via` begins with any name for it: `wwan0,metered`. The library
/// makes a descriptor of its own for the socket, and sets its options; the application closes its
/// descriptor when it likes, and neither reads nor writes it. Returns the path's number, or an
/// error.
///
/// # Safety
/// `via` is null or a text that ends with a zero byte. `socket` is an open descriptor during the
/// call.
#[cfg(unix)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_sender_add_socket(
    sender: Option<&ab_sender>,
    via: *const c_char,
    socket: c_int,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let via = unsafe { foreign::text(via, "via") }?;
        let socket = foreign::udp_socket(socket)?;
        Ok(sender.0.add_path(via, Some(socket))? as c_int)
    })
}

/// Removes a path. Its packets in flight are sent again by others, and the library closes its
/// descriptor of the path's socket. The next path that is added gets the number.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_remove_path(sender: Option<&ab_sender>, path: u32) -> c_int {
    guard::code(|| {
        required(sender, "sender")?.0.remove_path(path)?;
        Ok(AB_OK)
    })
}

/// Opens the sockets, starts the sender's thread and requests a session. Returns at once; the event
/// `connected` reports the session. A sender that could not start cannot be started again, unless
/// it lacked a path.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_start(sender: Option<&ab_sender>) -> c_int {
    guard::code(|| {
        required(sender, "sender")?.0.start()?;
        Ok(AB_OK)
    })
}

/// Waits until the session is up, for `limit_ms` at most. The events until then are dropped.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_wait_connected(sender: Option<&ab_sender>, limit_ms: u32) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        sender.0.wait_connected(millis(limit_ms))?;
        Ok(AB_OK)
    })
}

/// Takes a frame in: an encoder's output for one picture, or any bytes that are useless in part,
/// up to 8 MiB. `pts_us` is its time in microseconds by any clock of the application that runs
/// evenly, or `AB_PTS_NOW`. `flags` are `AB_FRAME_KEY`, `AB_FRAME_DISPOSABLE` or 0. The bytes are
/// copied. Never waits.
///
/// # Safety
/// `bytes` is null or points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_sender_send_frame(
    sender: Option<&ab_sender>,
    bytes: *const u8,
    count: usize,
    pts_us: i64,
    flags: u32,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        // SAFETY: the caller vouches for the bytes, which are used during this call alone.
        let bytes = unsafe { foreign::bytes(bytes, count) }?;
        let pts = (pts_us != AB_PTS_NOW).then_some(pts_us);
        sender.0.send_frame(bytes, pts, importance(flags)?)?;
        Ok(AB_OK)
    })
}

fn importance(flags: u32) -> Result<Importance, Error> {
    match flags {
        0 => Ok(Importance::Reference),
        AB_FRAME_KEY => Ok(Importance::Key),
        AB_FRAME_DISPOSABLE => Ok(Importance::Disposable),
        _ => Err(Error::new(
            ErrorCode::Argument,
            "flags are unknown or contradict each other",
        )),
    }
}

/// Takes the next bytes of a live MPEG-TS in, in pieces of any size up to 64 MiB, and sends each
/// picture once it is whole. Returns 0, or the error of the first picture that was refused; the
/// others of these bytes are sent if they can be. The bytes are copied. Never waits.
///
/// # Safety
/// `bytes` is null or points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_sender_send_ts(
    sender: Option<&ab_sender>,
    bytes: *const u8,
    count: usize,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        // SAFETY: the caller vouches for the bytes, which are used during this call alone.
        let bytes = unsafe { foreign::bytes(bytes, count) }?;
        sender.0.send_ts(bytes)?;
        Ok(AB_OK)
    })
}

/// Returns the bitrate requested of the encoder, in bit/s; 0 before the session. Cheap enough for
/// every frame. The set-up's `encoder-range` must be given.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_target_bps(sender: Option<&ab_sender>) -> u64 {
    guard::value(0, || sender.map_or(0, |sender| sender.0.target_bps()))
}

/// Returns the state of the session and its paths as JSON, which is valid until the calling
/// thread's next call that returns a text. Null if `sender` is null.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_stats_json(sender: Option<&ab_sender>) -> *const c_char {
    guard::value(ptr::null(), || {
        sender.map_or(ptr::null(), |sender| {
            texts::lend(&sender.0.statistics().to_json())
        })
    })
}

/// Waits for the next event for `limit_ms` at most, and puts it at `json`. It is valid until the
/// calling thread's next call that returns a text. Returns 1 with an event, 0 without one (`json`
/// is null then), or an error: `AB_ERROR_ENDED` after the last event.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_next_event(
    sender: Option<&ab_sender>,
    limit_ms: u32,
    json: Option<&mut MaybeUninit<*const c_char>>,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        events::hand_over(json, || next_event(sender, limit_ms))
    })
}

/// Returns the next event as JSON.
fn next_event(sender: &ab_sender, limit_ms: u32) -> Result<Option<String>, Error> {
    let event = sender.0.next_event(millis(limit_ms))?;
    Ok(event.map(|event| event.to_json()))
}

/// Calls `on_event` with `context` for each event, on the calling thread, until there was none for
/// `limit_ms`. Returns the number of events, or an error if none came.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_dispatch(
    sender: Option<&ab_sender>,
    limit_ms: u32,
    on_event: ab_on_event,
    context: *mut c_void,
) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        events::dispatch(on_event, context, || next_event(sender, limit_ms))
    })
}

/// Ends the session once every frame has arrived or been given up, and waits for that, for
/// `limit_ms` at most. The session waits for three seconds at most. The sender must be freed
/// afterwards, too.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_close(sender: Option<&ab_sender>, limit_ms: u32) -> c_int {
    guard::code(|| {
        let sender = required(sender, "sender")?;
        sender.0.close(millis(limit_ms))?;
        Ok(AB_OK)
    })
}

/// Frees a sender, whose session ends at once. Its thread has ended when this returns. No other
/// thread may use the sender during this call and after it. Null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ab_sender_free(sender: Option<Box<ab_sender>>) {
    guard::value((), || drop(sender));
}
