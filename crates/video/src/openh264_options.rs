//! The two options of OpenH264's encoder that its Rust wrapper lacks: the bitrate and its upper
//! bound, both of which may change between frames.
#![allow(unsafe_code)]

use core::ptr::from_mut;

use openh264::encoder::Encoder;
use openh264_sys2::{
    ENCODER_OPTION, ENCODER_OPTION_BITRATE, ENCODER_OPTION_MAX_BITRATE, ENCODER_OPTION_TRACE_LEVEL,
    SBitrateInfo, SPATIAL_LAYER_0, WELS_LOG_QUIET,
};

/// OpenH264's return value for success (`cmResultSuccess`).
const SUCCESS: i32 = 0;

/// Sets the bitrate that the encoder aims at from the next frame on. The upper bound must not lie
/// below it.
///
/// # Errors
/// OpenH264's return code if it refuses: not yet initialized by a first frame, or above the bound.
pub(crate) fn set_bitrate(encoder: &mut Encoder, bits_per_second: i32) -> Result<(), i32> {
    set_option(encoder, ENCODER_OPTION_BITRATE, bits_per_second)
}

/// Sets the upper bound of [`set_bitrate`].
///
/// # Errors
/// OpenH264's return code if it refuses, as above.
pub(crate) fn set_max_bitrate(encoder: &mut Encoder, bits_per_second: i32) -> Result<(), i32> {
    set_option(encoder, ENCODER_OPTION_MAX_BITRATE, bits_per_second)
}

/// Silences OpenH264, which otherwise warns on standard error that frames are not skipped.
///
/// # Errors
/// OpenH264's return code if it refuses.
pub(crate) fn set_quiet(encoder: &mut Encoder) -> Result<(), i32> {
    let mut level = WELS_LOG_QUIET;
    // SAFETY: the wrapper sets the trace level itself later, to the same value, and keeps the
    // encoder alive as long as `encoder` is borrowed.
    let raw = unsafe { encoder.raw_api() };
    // SAFETY: this option, allowed before initialization, takes a pointer to an int, which OpenH264
    // reads during the call only; `level` outlives it.
    let code = unsafe { raw.set_option(ENCODER_OPTION_TRACE_LEVEL, from_mut(&mut level).cast()) };
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

fn set_option(
    encoder: &mut Encoder,
    option: ENCODER_OPTION,
    bits_per_second: i32,
) -> Result<(), i32> {
    let mut bitrate = SBitrateInfo {
        iLayer: SPATIAL_LAYER_0,
        iBitrate: bits_per_second,
    };
    // SAFETY: the wrapper keeps no copy of the bitrate that this could make stale, and it keeps the
    // encoder alive as long as `encoder` is borrowed.
    let raw = unsafe { encoder.raw_api() };
    // SAFETY: both options take a pointer to an SBitrateInfo, which OpenH264 reads during the call
    // only; `bitrate` outlives it. OpenH264 itself checks that it has been initialized and that
    // layer and value are valid.
    let code = unsafe { raw.set_option(option, from_mut(&mut bitrate).cast()) };
    if code == SUCCESS { Ok(()) } else { Err(code) }
}
