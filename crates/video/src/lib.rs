//! Video for Anabranch: sources of frames, their separation, and the experience of a viewer.
//!
//! - [`source`]: frame-size models, for the simulator.
//! - [`frame_trace`]: sizes, times and types of a file's frames, for the same.
//! - [`camera`], [`encoder`], [`decoder`]: a real picture through a real H.264 codec whose bitrate
//!   changes while it runs. The frame number is burnt in ([`burnt_in`]), so that the receiver can
//!   compare decoded pictures with sent ones. Behind the feature `codec`, on by default.
//! - [`input`], [`mpeg_ts`], [`annex_b`], [`picture_types`]: stored and streamed video, split at
//!   access units.
//! - [`arrival_times`]: arrival times of a live unit's packets, for the receiver's output.
//! - [`null_packets`]: stuffing, which is left out on the way.
//! - [`fidelity`]: the difference between a picture and its source; [`alignment`]: the source's
//!   picture for each received one.
//! - [`player`]: which frames can be displayed, a jitter buffer, presentation times, and freezes by
//!   the W3C.
//!
//! The crate uses no clock, socket or thread.

pub mod adaptive_player;
pub mod alignment;
pub mod annex_b;
pub mod arrival_times;
pub mod burnt_in;
pub mod camera;
#[cfg(feature = "codec")]
pub mod decoder;
mod digits;
#[cfg(feature = "codec")]
pub mod encoder;
pub mod fidelity;
pub mod frame_trace;
pub mod input;
pub mod mpeg_ts;
mod nal;
pub mod null_packets;
#[cfg(feature = "codec")]
mod openh264_options;
pub mod parameters;
pub mod picture;
pub mod picture_types;
pub mod player;
pub mod source;
pub mod stored_player;
pub mod target_filter;
mod varint;
