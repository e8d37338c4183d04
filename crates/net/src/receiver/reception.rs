//! One sender's session at a receiver.

use std::sync::{Arc, OnceLock};

use anabranch_core::media::SendFrameError;
use anabranch_core::{Frame, FrameId, ReceivedFrame};
use anabranch_secure::PublicKey;
use anabranch_units::{DataRate, Duration};

use crate::event::Event;
use crate::event_queue::{Events, SessionOver};
use crate::runtime::Handle;
use crate::server::ServerRole;
use crate::snapshot::Snapshot;

/// Description of a session that begins.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) peer: PublicKey,
    pub(super) number: u64,
    pub(super) index: u32,
    pub(super) latency: Option<Duration>,
    pub(super) takes_requests: bool,
    pub(super) events: Events,
    pub(super) last: Arc<OnceLock<Snapshot>>,
}

/// One sender's session.
#[derive(Debug)]
pub struct Reception {
    peer: PublicKey,
    number: u64,
    index: u32,
    latency: Option<Duration>,
    takes_requests: bool,
    events: Events,
    last: Arc<OnceLock<Snapshot>>,
    handle: Handle<ServerRole>,
}

impl Reception {
    pub(super) fn new(begun: Begun, handle: Handle<ServerRole>) -> Self {
        let Begun {
            peer,
            number,
            index,
            latency,
            takes_requests,
            events,
            last,
        } = begun;
        Reception {
            peer,
            number,
            index,
            latency,
            takes_requests,
            events,
            last,
            handle,
        }
    }

    /// Returns the sender's public key.
    pub fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Returns the number of the session in the order in which sessions began, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the delay that media may take beyond the fastest path's delay, if both ends agreed
    /// on one.
    pub fn latency(&self) -> Option<Duration> {
        self.latency
    }

    /// Returns whether the sender takes requests of this end for changes. Its program decides on
    /// them.
    pub fn takes_requests(&self) -> bool {
        self.takes_requests
    }

    /// Returns the events: [`Connected`](crate::Event::Connected) first, and
    /// [`Ended`](crate::Event::Ended) last.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Waits for the next frame in order, and blocks the thread. Skips all other events; use
    /// [`events`](Self::events) to see them.
    ///
    /// # Errors
    /// [`SessionOver`] with the reason of the end.
    pub fn recv_frame(&self) -> Result<ReceivedFrame, SessionOver> {
        loop {
            if let Some(frame) = frame_of(self.events.recv()?)? {
                return Ok(frame);
            }
        }
    }

    /// Does the same as [`recv_frame`](Self::recv_frame) in a task, under any asynchronous runtime.
    /// Dropping the future loses no frame.
    ///
    /// # Errors
    /// [`SessionOver`] with the reason of the end.
    pub async fn recv_frame_async(&self) -> Result<ReceivedFrame, SessionOver> {
        loop {
            if let Some(frame) = frame_of(self.events.recv_async().await?)? {
                return Ok(frame);
            }
        }
    }

    /// Returns the session's present or last state.
    pub fn snapshot(&self) -> Snapshot {
        let seen = self
            .handle
            .with_role(|role, now| role.snapshot_of(self.index, now));
        // It ends under the same lock.
        seen.or_else(|| self.last.get().cloned())
            .unwrap_or_default()
    }

    /// Returns the path to the sender: sessions carry frames both ways.
    pub fn return_path(&self) -> ReturnPath {
        ReturnPath {
            index: self.index,
            handle: self.handle.clone(),
        }
    }

    /// Ends the session, and notifies its sender that this receiver leaves.
    pub fn close(&self) {
        self.handle
            .change(|role, now| role.close_session(self.index, now));
    }
}

/// Returns the event's frame, if it has one.
fn frame_of(event: Event) -> Result<Option<ReceivedFrame>, SessionOver> {
    match event {
        Event::FrameReceived(frame) => Ok(Some(frame)),
        Event::Ended(ended) => Err(SessionOver { ended: Some(ended) }),
        _ => Ok(None),
    }
}

/// The path from a receiver to one of its senders, during its session.
#[derive(Clone, Debug)]
pub struct ReturnPath {
    index: u32,
    handle: Handle<ServerRole>,
}

impl ReturnPath {
    /// Takes a frame in for the sender, which gets it as
    /// [`FrameReceived`](crate::Event::FrameReceived).
    ///
    /// # Errors
    /// [`SendFrameError`], as [`Closed`](SendFrameError::Closed) when the session is over; the
    /// frame is not sent.
    pub fn send_frame(&self, frame: &Frame) -> Result<FrameId, SendFrameError> {
        let sent = self
            .handle
            .change(|role, now| role.send_frame(self.index, now, frame));
        sent.unwrap_or(Err(SendFrameError::Closed))
    }

    /// Changes the latency of the session at this end, for media both ways. Returns whether there
    /// is the session.
    pub fn set_latency(&self, latency: impl Into<Duration>) -> bool {
        let latency = latency.into();
        self.handle
            .change(|role, _| role.set_latency_of(self.index, latency))
    }

    /// Ends the session, and notifies its sender that this receiver leaves.
    pub fn close(&self) {
        self.handle
            .change(|role, now| role.close_session(self.index, now));
    }

    /// Returns the bitrate requested of this sender's encoder; `None` when the session is over.
    pub fn target_bitrate(&self) -> Option<DataRate> {
        self.handle
            .with_role(|role, _| role.target_bitrate_of(self.index))
    }
}
