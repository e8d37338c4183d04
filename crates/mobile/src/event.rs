//! Events of a session, and their listener.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use anabranch_embed::{Error, Event as Embedded, ReceiverEvent as EmbeddedReceiverEvent};

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
    /// At a receiver: a sender's session has begun.
    SessionBegan,
    /// At a receiver: a sender's session is over.
    SessionEnded {
        /// Cause in words.
        reason: String,
    },
    /// At a receiver: a sender requested a session and got none.
    SenderRefused {
        /// Cause in words.
        reason: String,
        /// Address or host of the sender; empty if it is not known.
        from: String,
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
            Embedded::SessionBegan => Event::SessionBegan,
            Embedded::SessionEnded { reason } => Event::SessionEnded { reason },
            Embedded::SenderRefused { reason, from } => Event::SenderRefused { reason, from },
            Embedded::Ended { reason } => Event::Ended { reason },
            other => Event::Other {
                json: other.to_json(),
            },
        }
    }
}

/// An event of a receiver or of one of its sessions.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct ReceiverEvent {
    /// The event.
    pub event: Event,
    /// Number of the session, as `Session.number` returns it; none if a sender got no session.
    pub session: Option<u64>,
    /// The sender's public key; of SRT its stream ID, or its host if it gave none.
    pub peer: Option<String>,
}

impl From<EmbeddedReceiverEvent> for ReceiverEvent {
    fn from(event: EmbeddedReceiverEvent) -> Self {
        ReceiverEvent {
            event: event.event.into(),
            session: event.session,
            peer: event.peer,
        }
    }
}

/// An app's listener of a receiver's events. It is called in a thread of its own, never in the main
/// one.
#[uniffi::export(with_foreign)]
pub trait ReceiverListener: Send + Sync {
    /// Takes an event. It may call methods of the receiver and of its sessions.
    fn on_event(&self, event: ReceiverEvent);
}

/// An app's listener of events. It is called in a thread of its own, never in the main one.
#[uniffi::export(with_foreign)]
pub trait EventListener: Send + Sync {
    /// Takes an event. It may call methods of the sender.
    fn on_event(&self, event: Event);
}

/// Method of a sender or receiver that waits for its next event.
pub(crate) type NextEvent<T, E> = fn(&T, Duration) -> Result<Option<E>, Error>;

/// Starts the thread that hands events to a listener until the last one, or until their sender or
/// receiver has gone.
///
/// # Errors
/// The system has no room for a thread.
pub(crate) fn follow<T: Send + Sync + 'static, E: 'static>(
    source: &Arc<T>,
    next: NextEvent<T, E>,
    listen: impl Fn(E) + Send + 'static,
) -> Result<(), AnabranchError> {
    let source = Arc::downgrade(source);
    let thread = thread::Builder::new().name("anabranch-events".to_owned());
    match thread.spawn(move || hand_over(&source, next, listen)) {
        Ok(_) => Ok(()),
        Err(error) => Err(AnabranchError::System {
            text: format!("no thread for events: {error}"),
        }),
    }
}

fn hand_over<T, E>(source: &Weak<T>, next: NextEvent<T, E>, listen: impl Fn(E)) {
    loop {
        let Some(alive) = source.upgrade() else {
            return;
        };
        let event = next(&alive, POLL_INTERVAL);
        drop(alive);
        match event {
            Ok(Some(event)) => listen(event),
            Ok(None) => {}
            // The last event was taken.
            Err(_) => return,
        }
    }
}
