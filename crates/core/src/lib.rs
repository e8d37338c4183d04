//! The transport of Anabranch as a state machine: it is handed the time, datagrams and frames, and
//! answers with datagrams to send, events, and the moment at which it wants to be called again. It
//! owns no clock, socket, thread or source of chance, so the simulator, the emulator and real
//! sockets drive the very same code.
//!
//! Start at [`Session`], of which there are two: [`MediaSession`] carries frames of media,
//! [`StreamSession`] a reliable stream of bytes. Beneath them, [`control`] decides how fast each
//! path may send, and [`scheduler`] which packet takes which path. [`recovery`] tracks arrivals and
//! losses, and [`media`] defines frames.

mod config;
pub mod control;
mod counters;
pub mod fec;
mod forecast;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(any(debug_assertions, feature = "invariants"))]
pub mod invariants;
mod liveness;
pub mod media;
pub mod options;
mod pacer;
mod path;
mod path_view;
mod questions;
pub mod recovery;
pub mod scheduler;
mod send_reason;
mod session;
mod session_view;
mod standby;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use config::{
    Config, ConfigError, Endpoint, MediaConfig, MtuDiscovery, PaddingPolicy, Reinjection,
    RetransmissionCopies, SourceLimits, StreamConfig,
};
pub use counters::{PathCounters, SessionCounters};
pub use forecast::{Forecast, Priority};
pub use media::{ClockOffset, Frame, FrameId, FramePart, ReceivedFrame};
pub use path::PathOptions;
pub use path_view::{PathId, PathRtt, PathSet, PathState, PathView, Risk};
pub use send_reason::{ReasonCount, ReasonCounts, SendReason};
pub use session::{
    Content, DatagramMeta, Event, Media, MediaSession, Session, Stream, StreamSession, Timer,
    Transmit,
};
pub use session_view::SessionView;
pub use stream::WriteStreamError;
pub use wire::{PADDING_BYTE, REPLACED_NOTICE};
