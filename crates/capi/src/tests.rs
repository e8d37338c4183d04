//! The functions as C calls them.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::ffi::CString;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use anabranch_embed::ErrorCode;

use super::*;

fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null(), "{}", error());
    // SAFETY: the library lends it, and this thread calls nothing before it is copied.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .expect("it is UTF-8")
        .to_owned()
}

fn error() -> String {
    text(ab_last_error())
}

fn c(text: &str) -> CString {
    CString::new(text).expect("no zero byte")
}

/// Makes an object by a function that puts it at a pointer.
fn made<T>(make: impl FnOnce(Option<&mut MaybeUninit<*mut T>>) -> c_int) -> Box<T> {
    let mut out = MaybeUninit::uninit();
    let code = make(Some(&mut out));
    assert!(code >= 0, "{code}: {}", error());
    // SAFETY: it has succeeded, so there is a new object that nobody else has.
    unsafe { Box::from_raw(out.assume_init()) }
}

fn sender(config: &str) -> Box<ab_sender> {
    let config = c(config);
    // SAFETY: it is a text.
    made(|out| unsafe { ab_sender_new(config.as_ptr(), out) })
}

fn receiver(config: &str) -> Box<ab_receiver> {
    let config = c(config);
    // SAFETY: it is a text.
    made(|out| unsafe { ab_receiver_new(config.as_ptr(), out) })
}

/// Counts events.
extern "C" fn count(context: *mut c_void, json: *const c_char) -> c_int {
    assert!(text(json).starts_with("{\"event\":\""));
    // SAFETY: the test gives a number of its own.
    unsafe { *context.cast::<c_int>() += 1 };
    0
}

#[test]
fn codes_are_those_of_the_facade() {
    for (code, of_facade) in [
        (AB_ERROR_CONFIG, ErrorCode::Config),
        (AB_ERROR_ARGUMENT, ErrorCode::Argument),
        (AB_ERROR_STATE, ErrorCode::State),
        (AB_ERROR_PATH, ErrorCode::Path),
        (AB_ERROR_SYSTEM, ErrorCode::System),
        (AB_ERROR_NOT_CONNECTED, ErrorCode::NotConnected),
        (AB_ERROR_BACKLOGGED, ErrorCode::Backlogged),
        (AB_ERROR_ENDED, ErrorCode::Ended),
        (AB_ERROR_TIMED_OUT, ErrorCode::TimedOut),
        (AB_ERROR_PANIC, ErrorCode::Panic),
    ] {
        assert_eq!(code, of_facade as c_int, "{of_facade:?}");
    }
    assert_eq!(ab_abi(), AB_ABI);
}

/// Returns the public key of a secret one.
fn public(secret: &str) -> String {
    let secret = c(secret);
    // SAFETY: it is a text.
    text(unsafe { ab_public_key(secret.as_ptr()) })
}

/// Sends ten frames, and removes the first path after six of them.
fn carry_ten_frames(sender: &ab_sender, session: &ab_session) {
    for number in 0..10_u8 {
        let bytes = [number; 5_000];
        // SAFETY: there are as many bytes.
        let sent = unsafe {
            ab_sender_send_frame(
                Some(sender),
                bytes.as_ptr(),
                5_000,
                AB_PTS_NOW,
                AB_FRAME_KEY,
            )
        };
        assert_eq!(sent, AB_OK, "{}", error());
        let mut frame = MaybeUninit::uninit();
        assert_eq!(
            ab_session_next_frame(Some(session), 10_000, Some(&mut frame)),
            1
        );
        // SAFETY: there is a frame, whose bytes are valid until the next call.
        let (frame, got) = unsafe {
            let frame = frame.assume_init();
            (frame, core::slice::from_raw_parts(frame.bytes, frame.count))
        };
        assert_eq!(
            (frame.number, frame.flags),
            (u64::from(number), AB_FRAME_KEY)
        );
        assert_eq!(got, bytes);
        if number == 5 {
            assert_eq!(ab_sender_remove_path(Some(sender), 0), AB_OK, "{}", error());
        }
    }
}

#[test]
fn frames_cross_by_sockets_of_the_application() {
    let (camera, studio) = (text(ab_generate_key()), text(ab_generate_key()));
    let receiver = receiver(&format!(
        "listen = '127.0.0.1:0'\nkey = '{studio}'\nallow = ['{}']",
        public(&camera)
    ));
    assert_eq!(ab_receiver_start(Some(&receiver)), AB_OK, "{}", error());
    let address = text(ab_receiver_local_address(Some(&receiver)));
    let sender = sender(&format!(
        "to = '{address}'\nkey = '{camera}'\npeer = '{}'\nvia = []\ntcp = 'off'",
        public(&studio)
    ));
    for number in 0..2 {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let name = c(&format!("socket{number}"));
        // SAFETY: the descriptor is open until the socket is dropped, after the call.
        let got = unsafe { ab_sender_add_socket(Some(&sender), name.as_ptr(), socket.as_raw_fd()) };
        assert_eq!(got, number, "{}", error());
    }
    assert_eq!(ab_sender_start(Some(&sender)), AB_OK, "{}", error());
    let session = made(|out| ab_receiver_accept(Some(&receiver), 10_000, out));
    assert_eq!(
        ab_sender_wait_connected(Some(&sender), 10_000),
        AB_OK,
        "{}",
        error()
    );
    assert_eq!(text(ab_session_peer(Some(&session))), public(&camera));
    assert_eq!(ab_session_number(Some(&session)), 0);
    let began = next_event(&receiver);
    let expected = format!(
        "{{\"event\":\"session-began\",\"session\":0,\"peer\":\"{}\"}}",
        public(&camera)
    );
    assert_eq!(began, expected);
    carry_ten_frames(&sender, &session);
    let json = text(ab_sender_stats_json(Some(&sender)));
    assert!(json.contains("\"name\":\"socket1\""), "{json}");
    assert!(text(ab_session_stats_json(Some(&session))).contains("frames_received\":10"));
    assert_eq!(ab_sender_close(Some(&sender), 10_000), AB_OK, "{}", error());
    let mut events: c_int = 0;
    let context = ptr::from_mut(&mut events).cast();
    let counted = ab_sender_dispatch(Some(&sender), 10_000, Some(count), context);
    assert_eq!(counted, events);
    assert!(events > 0);
    let mut json = MaybeUninit::uninit();
    let code = ab_sender_next_event(Some(&sender), 0, Some(&mut json));
    assert_eq!(code, AB_ERROR_ENDED, "{}", error());
    let mut frame = MaybeUninit::uninit();
    let code = ab_session_next_frame(Some(&session), 10_000, Some(&mut frame));
    assert_eq!(code, AB_ERROR_ENDED, "{}", error());
    assert_eq!(ab_receiver_close(Some(&receiver)), AB_OK, "{}", error());
    let mut events: c_int = 0;
    let context = ptr::from_mut(&mut events).cast();
    let counted = ab_receiver_dispatch(Some(&receiver), 10_000, Some(count), context);
    assert_eq!(counted, events);
    assert!(events > 0, "the end, at least");
    let code = ab_receiver_next_event(Some(&receiver), 0, Some(&mut json));
    assert_eq!(code, AB_ERROR_ENDED, "{}", error());
    ab_receiver_free(Some(receiver));
    ab_session_free(Some(session));
    ab_sender_free(Some(sender));
}

/// Waits for an event of a receiver.
fn next_event(receiver: &ab_receiver) -> String {
    let mut json = MaybeUninit::uninit();
    let code = ab_receiver_next_event(Some(receiver), 10_000, Some(&mut json));
    assert_eq!(code, 1, "{}", error());
    // SAFETY: the function has written it.
    text(unsafe { json.assume_init() })
}

/// Takes frames of a session until there are as many bytes.
fn received(session: &ab_session, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let mut place = MaybeUninit::uninit();
        let code = ab_session_next_frame(Some(session), 10_000, Some(&mut place));
        assert_eq!(code, 1, "{}", error());
        // SAFETY: there is a frame, whose bytes are valid until the next call.
        let got = unsafe {
            let frame = place.assume_init();
            core::slice::from_raw_parts(frame.bytes, frame.count)
        };
        bytes.extend_from_slice(got);
    }
    bytes
}

#[test]
fn transport_stream_crosses_by_srtla() {
    let parameters = "streamid=van&passphrase=correct-horse";
    let receiver = receiver(&format!("srtla://127.0.0.1:0?{parameters}"));
    assert_eq!(ab_receiver_start(Some(&receiver)), AB_OK, "{}", error());
    let address = text(ab_receiver_local_address(Some(&receiver)));
    let sender = sender(&format!("to = 'srtla://{address}?{parameters}'\nvia = []"));
    for number in 0..2 {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let name = c(&format!("socket{number}"));
        // SAFETY: the descriptor is open until the socket is dropped, after the call.
        let got = unsafe { ab_sender_add_socket(Some(&sender), name.as_ptr(), socket.as_raw_fd()) };
        assert_eq!(got, number, "{}", error());
    }
    assert_eq!(ab_sender_start(Some(&sender)), AB_OK, "{}", error());
    let session = made(|out| ab_receiver_accept(Some(&receiver), 10_000, out));
    assert_eq!(text(ab_session_peer(Some(&session))), "van");
    let code = ab_sender_wait_connected(Some(&sender), 10_000);
    assert_eq!(code, AB_OK, "{}", error());
    let mut stream = [0x47_u8; 188 * 700];
    for (number, packet) in stream.chunks_mut(188).enumerate() {
        packet[1..4].copy_from_slice(&[1, 0, 0x10]);
        packet[4..8].copy_from_slice(&(number as u32).to_be_bytes());
    }
    // SAFETY: there are as many bytes.
    let sent = unsafe { ab_sender_send_ts(Some(&sender), stream.as_ptr(), stream.len()) };
    assert_eq!(sent, AB_OK, "{}", error());
    assert_eq!(ab_sender_close(Some(&sender), 10_000), AB_OK, "{}", error());
    assert!(received(&session, stream.len()) == stream, "other bytes");
    assert!(next_event(&receiver).starts_with("{\"event\":\"session-began\""));
    ab_session_free(Some(session));
    ab_receiver_free(Some(receiver));
    ab_sender_free(Some(sender));
}

fn argument(code: c_int) {
    assert_eq!(code, AB_ERROR_ARGUMENT, "{}", error());
}

#[test]
fn null_pointers_and_wrong_numbers_are_errors() {
    // SAFETY: null is allowed everywhere.
    unsafe {
        argument(ab_sender_new(c("to = 1").as_ptr(), None));
        let mut out = MaybeUninit::uninit();
        argument(ab_sender_new(ptr::null(), Some(&mut out)));
        assert!(out.assume_init().is_null());
        argument(ab_sender_add_path(None, c("lo").as_ptr()));
        argument(ab_sender_add_socket(None, c("lo").as_ptr(), 0));
        argument(ab_sender_send_frame(None, ptr::null(), 0, 0, 0));
        argument(ab_sender_send_ts(None, ptr::null(), 0));
        argument(ab_receiver_new(
            ptr::null(),
            Some(&mut MaybeUninit::uninit()),
        ));
        assert!(ab_public_key(ptr::null()).is_null());
        assert!(ab_receiver_pairing_link(None, ptr::null(), 0).is_null());
    }
    argument(ab_sender_start(None));
    argument(ab_sender_remove_path(None, 0));
    argument(ab_sender_wait_connected(None, 0));
    argument(ab_sender_next_event(None, 0, None));
    argument(ab_sender_dispatch(None, 0, None, ptr::null_mut()));
    argument(ab_sender_close(None, 0));
    argument(ab_receiver_start(None));
    argument(ab_receiver_accept(None, 0, None));
    argument(ab_receiver_close(None));
    argument(ab_receiver_next_event(None, 0, None));
    argument(ab_receiver_dispatch(None, 0, None, ptr::null_mut()));
    assert_eq!(ab_session_number(None), 0);
    argument(ab_session_next_frame(None, 0, None));
    argument(ab_session_close(None));
    assert_eq!(ab_sender_target_bps(None), 0);
    assert!(ab_sender_stats_json(None).is_null());
    assert!(ab_session_stats_json(None).is_null());
    assert!(ab_session_peer(None).is_null());
    assert!(ab_receiver_local_address(None).is_null());
    ab_sender_free(None);
    ab_receiver_free(None);
    ab_session_free(None);
}

#[test]
fn sender_reports_wrong_arguments() {
    let peer = anabranch_embed::public_key(&anabranch_embed::generate_key()).expect("a key");
    let sender = sender(&format!(
        "to = '127.0.0.1:9'\nkey = '{}'\npeer = '{peer}'\nvia = '127.0.0.1'",
        anabranch_embed::generate_key()
    ));
    // SAFETY: the texts are texts, and the pointers are null or lead to a byte.
    unsafe {
        let early = ab_sender_send_frame(Some(&sender), [1].as_ptr(), 1, AB_PTS_NOW, 0);
        assert_eq!(early, AB_ERROR_STATE);
        assert_eq!(ab_sender_start(Some(&sender)), AB_OK, "{}", error());
        let send =
            |bytes, count, flags| ab_sender_send_frame(Some(&sender), bytes, count, 0, flags);
        let byte = [1].as_ptr();
        assert_eq!(send(byte, 1, 0), AB_ERROR_NOT_CONNECTED);
        assert_eq!(send(ptr::null(), 1, 0), AB_ERROR_ARGUMENT);
        assert_eq!(send(byte, usize::MAX, 0), AB_ERROR_ARGUMENT);
        assert_eq!(send(byte, 1, 3), AB_ERROR_ARGUMENT);
        let wrong = ab_sender_add_socket(Some(&sender), c("a").as_ptr(), -1);
        assert_eq!(wrong, AB_ERROR_ARGUMENT);
        let closed = ab_sender_add_socket(Some(&sender), c("a").as_ptr(), 1 << 20);
        assert_eq!(closed, AB_ERROR_ARGUMENT, "{}", error());
        let pattern = ab_sender_add_path(Some(&sender), c("wwan*").as_ptr());
        assert_eq!(pattern, AB_ERROR_PATH);
        assert!(error().contains("wwan*"));
        let not_utf8 = [0xff_u8 as c_char, 0];
        assert_eq!(
            ab_sender_add_path(Some(&sender), not_utf8.as_ptr()),
            AB_ERROR_ARGUMENT
        );
    }
    assert_eq!(ab_sender_start(Some(&sender)), AB_ERROR_STATE);
    assert_eq!(
        ab_sender_wait_connected(Some(&sender), 1),
        AB_ERROR_TIMED_OUT
    );
    ab_sender_free(Some(sender));
}
