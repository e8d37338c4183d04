//! Events of a session, and their listener.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use anabranch_embed::Event as Embedded;

use crate::error::AnabranchError;

/// Longest wait until the thread of a listener notices that its object has gone.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// An event of a session.
#[derive(Clone, Debug, PartialEq, uniffi::Enum)]
#[non_exhaustive]
pub enum Event {
    /// The session has begun: frames are taken.
    Connected {
        /// Public key of the other end.
        peer: String,
    },
    /// The receiver is silent; another session is requested.
    Reconnecting {
        /// Time since its last datagram, in seconds.
        silent_for_s: f64,
    },
    /// Another session has replaced the silent one: the encoder must produce a key frame.
    Reconnected {
        /// Time for which the receiver was silent, in seconds.
        silent_for_s: f64,
    },
    /// The receiver has announced that it leaves.
    ReceiverLeft,
    /// A path has another state.
    PathState {
        /// Number of the path.
        path: u32,
        /// Its name.
        name: String,
        /// State: active, suspect, out or removed.
        state: String,
    },
    /// A path has no local side now.
    PathAbsent {
        /// Number of the path.
        path: u32,
        /// Its name.
        name: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// A path that was absent has a local side again.
    PathPresent {
        /// Number of the path.
        path: u32,
        /// Its name.
        name: String,
    },
    /// A frame was given up. If others are predicted from it, the encoder must produce a key frame.
    FrameDropped {
        /// Number of the frame in its session.
        frame: u64,
        /// `late` at the sender; `incomplete` or `missing` at the receiver.
        reason: String,
    },
    /// Another bitrate is requested of the encoder.
    Target {
        /// The bitrate in bit/s.
        target_bps: u64,
    },
    /// Another event, as JSON with the name in the field `event`.
    Other {
        /// The JSON.
        json: String,
    },
    /// The session is over. No event follows.
    Ended {
        /// Cause in words.
        reason: String,
    },
}

fn number(path: usize) -> u32 {
    u32::try_from(path).unwrap_or(u32::MAX)
}

impl From<Embedded> for Event {
    fn from(event: Embedded) -> Self {
        match event {
            Embedded::Connected { peer } => Event::Connected { peer },
            Embedded::Reconnecting { silent_for_s } => Event::Reconnecting { silent_for_s },
            Embedded::Reconnected { silent_for_s } => Event::Reconnected { silent_for_s },
            Embedded::ReceiverLeft => Event::ReceiverLeft,
            Embedded::PathState { path, name, state } => Event::PathState {
                path: number(path),
                name,
                state: state.to_owned(),
            },
            Embedded::PathAbsent { path, name, reason } => Event::PathAbsent {
                path: number(path),
                name,
                reason,
            },
            Embedded::PathPresent { path, name } => Event::PathPresent {
                path: number(path),
                name,
            },
            Embedded::FrameDropped { frame, reason } => Event::FrameDropped {
                frame,
                reason: reason.to_owned(),
            },
            Embedded::Target { target_bps } => Event::Target { target_bps },
            Embedded::Ended { reason } => Event::Ended { reason },
            other => Event::Other {
                json: other.to_json(),
            },
        }
    }
}

/// An app's listener of events. It is called in a thread of its own, never in the main one.
#[uniffi::export(with_foreign)]
pub trait EventListener: Send + Sync {
    /// Takes an event. It may call methods of the sender.
    fn on_event(&self, event: Event);
}

/// Starts the thread that hands a sender's events to a listener until the session is over or the
/// sender has gone.
///
/// # Errors
/// The system has no room for a thread.
pub(crate) fn follow(
    sender: &Arc<anabranch_embed::Sender>,
    listener: Arc<dyn EventListener>,
) -> Result<(), AnabranchError> {
    let sender = Arc::downgrade(sender);
    let thread = thread::Builder::new().name("anabranch-events".to_owned());
    match thread.spawn(move || hand_over(&sender, &*listener)) {
        Ok(_) => Ok(()),
        Err(error) => Err(AnabranchError::System {
            text: format!("no thread for events: {error}"),
        }),
    }
}

fn hand_over(sender: &Weak<anabranch_embed::Sender>, listener: &dyn EventListener) {
    loop {
        let Some(alive) = sender.upgrade() else {
            return;
        };
        let event = alive.next_event(POLL_INTERVAL);
        drop(alive);
        match event {
            Ok(Some(event)) => listener.on_event(event.into()),
            Ok(None) => {}
            // The last event was taken.
            Err(_) => return,
        }
    }
}
