//! Entry point of the fuzz target.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr;

use crate::{
    AB_ERROR_PANIC, AB_ERROR_STATE, ab_receiver_dispatch, ab_receiver_free, ab_receiver_new,
    ab_receiver_next_event, ab_sender_add_path, ab_sender_add_socket, ab_sender_free,
    ab_sender_new, ab_sender_remove_path, ab_sender_send_frame, ab_sender_send_ts,
    ab_sender_stats_json,
};

/// A sender's set-up, to which inputs add keys.
const HEAD: &str = "to = '192.0.2.1:7000'\n\
    key = 'absec_1D1NNBddxPHM0c5-Vfpj-j0AfDegbHr4tf6ElKL_t-w'\n\
    peer = 'abpub_REVAWYCJUhx45MHjwlDnIA2Ni7qYI-spZi5zBOAwyXE'\n";

/// Addresses to which inputs add parameters.
const ADDRESSES: [&str; 2] = ["srtla://127.0.0.1:5000?", "srt://127.0.0.1:5000?"];

/// Calls the functions with an input as set-up, path and bytes. Nothing is started.
///
/// # Panics
/// A function has panicked, or its result is wrong.
pub fn calls(input: &[u8]) {
    // A set-up may name a file, which would be made.
    if input.windows(3).any(|part| part == b"key") || input.contains(&b'\\') {
        return;
    }
    let text = [input, b"\0"].concat();
    make_and_use(text.as_ptr().cast(), input);
    let whole = [HEAD.as_bytes(), &text].concat();
    make_and_use(whole.as_ptr().cast(), input);
    for address in ADDRESSES {
        let whole = [address.as_bytes(), &text].concat();
        make_and_use(whole.as_ptr().cast(), input);
    }
}

fn make_and_use(config: *const c_char, input: &[u8]) {
    let (mut sender, mut receiver) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `config` ends with a zero byte, `input` has its length, and the pointers are those
    // that the functions have written, each freed once.
    unsafe {
        let code = ab_sender_new(config, Some(&mut sender));
        let sender = sender.assume_init();
        assert_ne!(code, AB_ERROR_PANIC);
        assert_eq!(code < 0, sender.is_null());
        if let Some(made) = sender.as_ref() {
            use_sender(made, config, input);
            ab_sender_free(Some(Box::from_raw(sender)));
        }
        let code = ab_receiver_new(config, Some(&mut receiver));
        let receiver = receiver.assume_init();
        assert_ne!(code, AB_ERROR_PANIC);
        assert_eq!(code < 0, receiver.is_null());
        if !receiver.is_null() {
            use_receiver(&*receiver);
            ab_receiver_free(Some(Box::from_raw(receiver)));
        }
    }
}

fn use_receiver(receiver: &crate::ab_receiver) {
    let mut json = MaybeUninit::uninit();
    let code = ab_receiver_next_event(Some(receiver), 0, Some(&mut json));
    assert_eq!(code, AB_ERROR_STATE, "it is not started");
    // SAFETY: the function has written it.
    assert!(unsafe { json.assume_init() }.is_null());
    assert!(ab_receiver_dispatch(Some(receiver), 0, None, ptr::null_mut()) < 0);
}

fn use_sender(sender: &crate::ab_sender, text: *const c_char, input: &[u8]) {
    let number = input.first().copied().map_or(0, u32::from);
    // SAFETY: `text` ends with a zero byte, and `input` has its length.
    unsafe {
        assert_ne!(ab_sender_add_path(Some(sender), text), AB_ERROR_PANIC);
        let beginning = beginning(input);
        let added = ab_sender_add_path(Some(sender), beginning.as_ptr().cast());
        assert_ne!(added, AB_ERROR_PANIC);
        assert!(ab_sender_add_socket(Some(sender), text, -1) < 0);
        let bytes = (input.as_ptr(), input.len());
        let sent = ab_sender_send_frame(Some(sender), bytes.0, bytes.1, -1, number & 1);
        assert_eq!(sent, AB_ERROR_STATE);
        assert!(ab_sender_send_frame(Some(sender), ptr::null(), 7, 0, 0) < 0);
        assert!(ab_sender_send_frame(Some(sender), bytes.0, usize::MAX, 0, 0) < 0);
        assert!(ab_sender_send_ts(Some(sender), bytes.0, bytes.1) < 0);
    }
    assert_ne!(ab_sender_remove_path(Some(sender), number), AB_ERROR_PANIC);
    assert!(!ab_sender_stats_json(Some(sender)).is_null());
}

/// Returns the beginning of an input as a text of C.
fn beginning(input: &[u8]) -> [u8; 64] {
    let mut text = [0; 64];
    let length = input.len().min(text.len() - 1);
    text[..length].copy_from_slice(&input[..length]);
    text
}
