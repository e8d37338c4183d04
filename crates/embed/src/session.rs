//! One sender's session at a receiver.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anabranch_core::ReceivedFrame;
use anabranch_net::{Clock, Event as NetEvent, Reception};

use crate::error::Error;
use crate::ingest::SrtSession;
use crate::statistics::Statistics;

/// One sender's session at a receiver. Dropping it does not end the session.
#[derive(Debug)]
pub struct Session(Carried);

#[derive(Debug)]
enum Carried {
    /// By our protocol.
    Own { reception: Reception, clock: Clock },
    /// By SRT, over SRTLA or alone.
    Srt(SrtSession),
}

impl Session {
    pub(crate) fn of_own(reception: Reception, clock: Clock) -> Self {
        Session(Carried::Own { reception, clock })
    }

    pub(crate) fn of_srt(session: SrtSession) -> Self {
        Session(Carried::Srt(session))
    }

    /// Returns the number of the session in the order in which sessions began, from 0. Events of
    /// the receiver have it.
    pub fn number(&self) -> u64 {
        match &self.0 {
            Carried::Own { reception, .. } => reception.number(),
            Carried::Srt(session) => session.number(),
        }
    }

    /// Returns the sender's public key. For SRT and SRTLA it is the stream ID, or the sender's host
    /// if it gave none.
    pub fn peer(&self) -> String {
        match &self.0 {
            Carried::Own { reception, .. } => reception.peer().to_string(),
            Carried::Srt(session) => session.peer().to_owned(),
        }
    }

    /// Waits for the next frame in order for `limit` at most, and blocks the thread. Returns `None`
    /// if none came. A frame of SRT or SRTLA is a picture with its tables and sound, in MPEG-TS:
    /// all frames together are the sender's stream. Its time is that at which it was due, by this
    /// end's clock.
    ///
    /// # Errors
    /// [`ErrorCode::Ended`](crate::ErrorCode::Ended) with the reason.
    pub fn next_frame(&self, limit: Duration) -> Result<Option<ReceivedFrame>, Error> {
        let (reception, clock) = match &self.0 {
            Carried::Own { reception, clock } => (reception, clock),
            Carried::Srt(session) => return session.next_frame(limit),
        };
        let until = clock.now() + limit.into();
        loop {
            let rest = until.saturating_since(clock.now());
            match reception.events().recv_timeout(rest.to_std()) {
                Ok(NetEvent::FrameReceived(frame)) => return Ok(Some(frame)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::ended(reception.events().ended().as_ref()));
                }
            }
        }
    }

    /// Waits for the next frame in order in a task, under any asynchronous runtime. Dropping the
    /// future loses none.
    ///
    /// # Errors
    /// As of [`next_frame`](Self::next_frame).
    pub async fn next_frame_async(&self) -> Result<ReceivedFrame, Error> {
        match &self.0 {
            Carried::Own { reception, .. } => {
                let frame = reception.recv_frame_async().await;
                frame.map_err(|over| Error::ended(over.ended.as_ref()))
            }
            Carried::Srt(session) => session.next_frame_async().await,
        }
    }

    /// Returns the state of the session in numbers. For SRT and SRTLA, figures of frames are those
    /// of SRT's packets.
    pub fn statistics(&self) -> Statistics {
        match &self.0 {
            Carried::Own { reception, .. } => Statistics::of(&reception.snapshot(), |_| None),
            Carried::Srt(session) => session.statistics(),
        }
    }

    /// Ends the session, and notifies its sender that this receiver leaves.
    pub fn close(&self) {
        match &self.0 {
            Carried::Own { reception, .. } => reception.close(),
            Carried::Srt(session) => session.close(),
        }
    }
}
