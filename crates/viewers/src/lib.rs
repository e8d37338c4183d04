//! Viewers of received streams.
//!
//! - [`samples`]: the pictures and the sound inside of a stream's MPEG-TS;
//! - [`webrtc`]: browsers and players by WebRTC, sans-IO;
//! - [`fragments`]: fragmented MP4, for browsers that WebRTC does not reach;
//! - [`SamplePace`]: the durations of its samples;
//! - [`Hub`]: the thread of all viewers, and the queues to it. It holds up no stream.
//!
//! Nothing is decoded or encoded here.

#[cfg(feature = "webrtc")]
mod batch;
mod film;
pub mod fragments;
mod hub;
mod refusal;
mod sample_pace;
pub mod samples;
#[cfg_attr(
    not(feature = "webrtc"),
    allow(dead_code, reason = "no viewer needs a socket")
)]
mod sockets;
mod sound;
mod stage;
#[cfg(feature = "webrtc")]
pub mod webrtc;

pub use hub::{Feed, Film, Hub, Offered, StreamInfo, Way};
pub use refusal::{Refusal, check_film, check_webrtc};
pub use sample_pace::SamplePace;
pub use sound::Sound;
