//! Video for Anabranch: where frames come from, how they are told apart, and what a viewer sees.
//!
//! - [`source`]: frame-size models, for the simulator.
//! - [`frame_trace`]: sizes, times and types of a file's frames, for the same.
//! - [`camera`], [`encoder`], [`decoder`]: a real picture through a real H.264 codec whose bitrate
//!   changes while it runs. The frame number is burnt in ([`burnt_in`]), so that the receiver can
//!   check that what it decodes is what was sent. Behind the feature `codec`, on by default.
//! - [`input`], [`mpeg_ts`], [`annex_b`], [`picture_types`]: stored and streamed video, split at
//!   access units.
//! - [`arrival_times`]: times at which a live unit's packets came, for the receiver's output.
//! - [`null_packets`]: stuffing, which does not travel.
//! - [`fidelity`]: how much a picture differs from its source; [`alignment`]: which of the source's
//!   pictures that is.
//! - [`player`]: which frames can be displayed, a jitter buffer, presentation times, and freezes by
//!   the W3C.
//!
//! Nothing here knows a clock, a socket or a thread.

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
pub mod picture;
pub mod picture_types;
pub mod player;
pub mod source;
pub mod stored_player;
