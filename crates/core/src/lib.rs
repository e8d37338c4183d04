//! The transport of Anabranch as a state machine: it is handed the time, datagrams and frames, and
//! answers with datagrams to send, events, and the moment at which it wants to be called again. It
//! owns no clock, socket, thread or source of chance, so the simulator, the emulator and real
//! sockets drive the very same code.
//!
//! Start at [`Session`], of which there are two: [`MediaSession`] carries frames of media,
//! [`StreamSession`] a reliable stream of bytes. Beneath them, [`control`] decides how fast each
//! path may send, and [`scheduler`] which packet takes which path. [`recovery`] tracks arrivals and
//! losses, and [`media`] defines frames.
//!
//! ```
//! use anabranch_core::{Config, Event, Frame, MediaSession, DatagramMeta, PathOptions};
//! use anabranch_units::{Ecn, Importance, Instant, Seed};
//!
//! let config = Config::new(
//!     anabranch_controllers::default_controller(),
//!     anabranch_schedulers::default_scheduler(),
//! );
//! let mut now = Instant::ZERO;
//! let mut sender = MediaSession::new(config.clone(), Seed(1), now)?;
//! let mut receiver = MediaSession::new(config, Seed(2), now)?;
//! let path = sender.add_path(now, PathOptions::default()).expect("there is room");
//! receiver.add_path(now, PathOptions::default());
//!
//! // A frame that fits a datagram, over a network without delay.
//! sender.send_frame(now, &Frame::new(b"a picture".as_slice(), Importance::Key, now))?;
//! let mut datagram = Vec::new();
//! while sender.poll_transmit(now, &mut datagram).is_some() {
//!     let meta = DatagramMeta { path, received_at: now, ecn: Ecn::NotEct };
//!     receiver.handle_datagram(now, meta, &datagram);
//!     datagram.clear();
//! }
//! let events = std::iter::from_fn(|| receiver.poll_event());
//! let frames = events.filter(|event| matches!(event, Event::FrameReceived(_)));
//! assert_eq!(frames.count(), 1);
//! // The receiver's report is due soon.
//! let (report_at, _timer) = receiver.poll_timeout().expect("a report");
//! now = report_at;
//! receiver.handle_timeout(now);
//! assert!(receiver.poll_transmit(now, &mut datagram).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
pub mod control;
mod copies;
mod counters;
mod factory;
pub mod fec;
mod forecast;
mod fragment;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(any(debug_assertions, feature = "invariants"))]
pub mod invariants;
mod liveness;
pub mod media;
mod pacer;
mod path;
mod path_view;
mod questions;
pub mod recovery;
pub mod reinjection;
pub mod scheduler;
mod send_reason;
mod sender_rules;
mod session;
mod session_view;
mod standby;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use config::{
    Config, ConfigError, HandOut, Laboratory, MediaConfig, PaddingPolicy, SourceLimits,
    StreamConfig,
};
pub use counters::{PathCounters, SessionCounters};
pub use factory::Factory;
pub use forecast::{Forecast, Priority};
pub use media::{ClockOffset, Frame, FrameId, FramePart, ReceivedFrame};
pub use path::PathOptions;
pub use path_view::{PathId, PathRtt, PathSet, PathState, PathView, Risk};
pub use recovery::MtuDiscovery;
pub use reinjection::Reinjection;
pub use send_reason::{ReasonCount, ReasonCounts, SendReason};
pub use sender_rules::{SenderRule, SenderRules};
pub use session::{
    Content, DatagramMeta, Event, Media, MediaSession, Session, Stream, StreamSession, Timer,
    Transmit,
};
pub use session_view::SessionView;
pub use stream::WriteStreamError;
pub use wire::{PADDING_BYTE, REPLACED_NOTICE};
