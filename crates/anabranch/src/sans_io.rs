//! The transport as a state machine, for event loops of one's own.
//!
//! [`MediaSession`] carries frames, [`StreamSession`] a reliable stream of bytes. A driver repeats:
//!
//! 1. `handle_datagram` for each datagram that has arrived, `handle_timeout` when the timer is due.
//! 2. `poll_transmit` until `None`: send each datagram on its path.
//! 3. `poll_event` until `None`.
//! 4. `poll_timeout`: wait until then, or for a datagram.
//!
//! Time is handed in, so that the same code runs over sockets and in simulators. Nothing is
//! encrypted here: drivers seal datagrams by [`secure`](crate::secure), and add their bytes to
//! [`Config::overhead_bytes`].
//!
//! This sender and this receiver are joined by a network that takes 20 ms:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use anabranch::sans_io::{Config, DatagramMeta, Event, MediaSession};
//! use anabranch::units::{Duration, Ecn, Instant, Seed};
//! use anabranch::{Frame, Importance, PathId, PathOptions, controller, scheduler};
//!
//! let config = Config::new(controller::default_controller(), scheduler::default_scheduler());
//! let mut now = Instant::ZERO;
//! let mut sender = MediaSession::new(config.clone(), Seed(1), now)?;
//! let mut receiver = MediaSession::new(config, Seed(2), now)?;
//! for end in [&mut sender, &mut receiver] {
//!     end.add_path(now, PathOptions::default()).expect("there is room for a path");
//! }
//! // Arrival times and datagrams, from sender to receiver and back.
//! let mut network = [VecDeque::new(), VecDeque::new()];
//! sender.send_frame(now, &Frame::new(vec![7; 5_000], Importance::Key, now))?;
//!
//! let frame = 'run: loop {
//!     for (from, end) in [&mut sender, &mut receiver].into_iter().enumerate() {
//!         // 1. Arrivals and timers.
//!         while network[1 - from].front().is_some_and(|(at, _)| *at <= now) {
//!             let (received_at, datagram): (Instant, Vec<u8>) =
//!                 network[1 - from].pop_front().expect("there is one");
//!             let meta = DatagramMeta { path: PathId(0), received_at, ecn: Ecn::NotEct };
//!             end.handle_datagram(now, meta, &datagram);
//!         }
//!         end.handle_timeout(now);
//!         // 2. Datagrams.
//!         let mut datagram = Vec::new();
//!         while end.poll_transmit(now, &mut datagram).is_some() {
//!             let arrives_at = now + Duration::from_millis(20);
//!             network[from].push_back((arrives_at, std::mem::take(&mut datagram)));
//!         }
//!         // 3. Events.
//!         while let Some(event) = end.poll_event() {
//!             if let Event::FrameReceived(frame) = event {
//!                 break 'run frame;
//!             }
//!         }
//!     }
//!     // 4. The next timer or arrival.
//!     let timers = [sender.poll_timeout(), receiver.poll_timeout()];
//!     let timers = timers.into_iter().flatten().map(|(at, _)| at);
//!     let arrivals = network.iter().filter_map(|queue| Some(queue.front()?.0));
//!     now = timers.chain(arrivals).min().expect("a frame is on its way").max(now);
//! };
//! assert_eq!(frame.bytes, [7; 5_000]);
//! assert!(now >= Instant::from_millis(20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use anabranch_core::recovery::LossDetection;
pub use anabranch_core::{
    Config, ConfigError, Content, DatagramMeta, Event, Laboratory, Media, MediaConfig,
    MediaSession, MtuDiscovery, PaddingPolicy, PathCounters, ReasonCount, ReasonCounts,
    Reinjection, SendReason, Session, SessionCounters, SourceLimits, Stream, StreamConfig,
    StreamSession, Timer, Transmit, WriteStreamError,
};
