//! Functions of receivers and their sessions.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::sync::{Mutex, PoisonError};

use anabranch_embed::{Error, Importance, ReceivedFrame, Receiver, Session};

use crate::events::{self, ab_on_event};
use crate::guard::{self, required};
use crate::sender::{hand_over, millis};
use crate::{AB_FRAME_DISPOSABLE, AB_FRAME_KEY, AB_OK, foreign, texts};

/// A receiver.
#[derive(Debug)]
pub struct ab_receiver(Receiver);

/// One sender's session at a receiver.
#[derive(Debug)]
pub struct ab_session {
    session: Session,
    /// The frame that the application has.
    lent: Mutex<Option<ReceivedFrame>>,
}

/// A frame that has arrived whole.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ab_frame {
    /// Its bytes, which belong to the session.
    pub bytes: *const u8,
    /// Their number.
    pub count: usize,
    /// Number of the frame in its session. Numbers that are left out were given up.
    pub number: u64,
    /// Time of its capture by the sender's clock, in microseconds since the sender's start. Of SRT:
    /// time at which it was due, in microseconds since the receiver's start.
    pub captured_us: u64,
    /// `AB_FRAME_KEY`, `AB_FRAME_DISPOSABLE` or 0.
    pub flags: u32,
}

/// Makes a receiver. `config` is TOML with the keys `listen`, `listen-tcp`, `key`, `allow`,
/// `latency`, `timeout` and `reassembly-wait` of `anabranch recv --config`, and `max-sessions`; or
/// an address `srtla://ADDR:PORT?streamid=...&passphrase=...` or `srt://...` alone, or in `listen`
/// beside `max-sessions`. No thread runs and no socket is opened before `ab_receiver_start`. The
/// receiver is at `out`, and null after an error. It must be freed by `ab_receiver_free`.
///
/// # Safety
/// `config` is null or a text that ends with a zero byte. `out` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_receiver_new(
    config: *const c_char,
    out: Option<&mut MaybeUninit<*mut ab_receiver>>,
) -> c_int {
    hand_over(out, || {
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let config = unsafe { foreign::text(config, "config") }?;
        Receiver::new(config).map(ab_receiver)
    })
}

/// Opens the socket and starts the receiver's thread. A receiver that could not start cannot be
/// started again.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_start(receiver: Option<&ab_receiver>) -> c_int {
    guard::code(|| {
        required(receiver, "receiver")?.0.start()?;
        Ok(AB_OK)
    })
}

/// Returns the address at which it listens, whose port is never 0. The text is valid until the
/// calling thread's next call that returns a text. Null before the start.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_local_address(receiver: Option<&ab_receiver>) -> *const c_char {
    let mut shown = ptr::null();
    guard::code(|| {
        shown = texts::lend(&required(receiver, "receiver")?.0.local_address()?);
        Ok(AB_OK)
    });
    shown
}

/// Returns a link for one new sender, good once and for `lasts_ms`. `host` is this machine's host
/// and port for the sender. The text is valid until the calling thread's next call that returns a
/// text. Null after an error: SRT has no links.
///
/// # Safety
/// `host` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_receiver_pairing_link(
    receiver: Option<&ab_receiver>,
    host: *const c_char,
    lasts_ms: u32,
) -> *const c_char {
    let mut shown = ptr::null();
    guard::code(|| {
        let receiver = required(receiver, "receiver")?;
        // SAFETY: the caller vouches for the text, which is used during this call alone.
        let host = unsafe { foreign::text(host, "host") }?;
        shown = texts::lend(&receiver.0.pairing_link(host, millis(lasts_ms))?);
        Ok(AB_OK)
    });
    shown
}

/// Waits for the next session for `limit_ms` at most. Returns 1 with a session at `out`, which must
/// be freed by `ab_session_free`; 0 without one, or an error. `out` is null then.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_accept(
    receiver: Option<&ab_receiver>,
    limit_ms: u32,
    out: Option<&mut MaybeUninit<*mut ab_session>>,
) -> c_int {
    guard::code(|| {
        let out = required(out, "out")?.write(ptr::null_mut());
        let receiver = required(receiver, "receiver")?;
        let Some(session) = receiver.0.accept(millis(limit_ms))? else {
            return Ok(0);
        };
        let lent = Mutex::default();
        *out = Box::into_raw(Box::new(ab_session { session, lent }));
        Ok(1)
    })
}

/// Waits for the next event of the receiver or of one of its sessions for `limit_ms` at most, and
/// puts it at `json`, as
/// `{"event":"path-state","path":0,"name":"wlan0","state":"out","session":0,"peer":"abpub_..."}`.
/// It is valid until the calling thread's next call that returns a text. Returns 1 with an event, 0
/// without one (`json` is null then), or an error: `AB_ERROR_ENDED` after the last event.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_next_event(
    receiver: Option<&ab_receiver>,
    limit_ms: u32,
    json: Option<&mut MaybeUninit<*const c_char>>,
) -> c_int {
    guard::code(|| {
        let receiver = required(receiver, "receiver")?;
        events::hand_over(json, || next_event(receiver, limit_ms))
    })
}

/// Returns the next event as JSON.
fn next_event(receiver: &ab_receiver, limit_ms: u32) -> Result<Option<String>, Error> {
    let event = receiver.0.next_event(millis(limit_ms))?;
    Ok(event.map(|event| event.to_json()))
}

/// Calls `on_event` with `context` for each event of the receiver or of one of its sessions, on the
/// calling thread, until there was none for `limit_ms`. Returns the number of events, or an error
/// if none came.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_dispatch(
    receiver: Option<&ab_receiver>,
    limit_ms: u32,
    on_event: ab_on_event,
    context: *mut c_void,
) -> c_int {
    guard::code(|| {
        let receiver = required(receiver, "receiver")?;
        events::dispatch(on_event, context, || next_event(receiver, limit_ms))
    })
}

/// Notifies the senders that this receiver leaves, and stops listening.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_close(receiver: Option<&ab_receiver>) -> c_int {
    guard::code(|| {
        required(receiver, "receiver")?.0.close()?;
        Ok(AB_OK)
    })
}

/// Frees a receiver. Its thread has ended when this returns. Sessions are over then, but must be
/// freed, too. No other thread may use the receiver during this call and after it. Null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ab_receiver_free(receiver: Option<Box<ab_receiver>>) {
    guard::value((), || drop(receiver));
}

/// Returns the number of the session in the order in which sessions began, from 0, as the field
/// `session` of events; 0 if `session` is null.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_number(session: Option<&ab_session>) -> u64 {
    guard::value(0, || session.map_or(0, |session| session.session.number()))
}

/// Returns the sender's public key; of SRT its stream ID, or its host if it gave none. The text is
/// valid until the calling thread's next call that returns a text. Null if `session` is null.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_peer(session: Option<&ab_session>) -> *const c_char {
    guard::value(ptr::null(), || {
        session.map_or(ptr::null(), |session| texts::lend(&session.session.peer()))
    })
}

/// Waits for the next frame in order for `limit_ms` at most, and describes it at `frame`. Frames of
/// SRT are pictures in MPEG-TS, which together are the sender's stream. The bytes are valid until
/// the session's next call of this function, or until the session is freed. One thread at a time
/// may take frames of a session. Returns 1 with a frame, 0 without one, or an error:
/// `AB_ERROR_ENDED` after the last frame.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_next_frame(
    session: Option<&ab_session>,
    limit_ms: u32,
    frame: Option<&mut MaybeUninit<ab_frame>>,
) -> c_int {
    guard::code(|| {
        let session = required(session, "session")?;
        let frame = required(frame, "frame")?;
        let mut lent = session.lent.lock().unwrap_or_else(PoisonError::into_inner);
        *lent = session.session.next_frame(millis(limit_ms))?;
        let Some(received) = &*lent else {
            return Ok(0);
        };
        frame.write(ab_frame {
            bytes: received.bytes.as_ptr(),
            count: received.bytes.len(),
            number: received.id.0,
            captured_us: received.captured_at.as_nanos() / 1_000,
            flags: match received.importance {
                Importance::Key => AB_FRAME_KEY,
                Importance::Reference => 0,
                Importance::Disposable => AB_FRAME_DISPOSABLE,
            },
        });
        Ok(1)
    })
}

/// Returns the state of the session and its paths as JSON, which is valid until the calling
/// thread's next call that returns a text. Null if `session` is null.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_stats_json(session: Option<&ab_session>) -> *const c_char {
    guard::value(ptr::null(), || {
        session.map_or(ptr::null(), |session| {
            texts::lend(&session.session.statistics().to_json())
        })
    })
}

/// Ends the session, and notifies its sender that this receiver leaves.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_close(session: Option<&ab_session>) -> c_int {
    guard::code(|| {
        required(session, "session")?.session.close();
        Ok(AB_OK)
    })
}

/// Frees a session, which goes on if its receiver does: its frames are dropped. No other thread may
/// use the session during this call and after it. Null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ab_session_free(session: Option<Box<ab_session>>) {
    guard::value((), || drop(session));
}
