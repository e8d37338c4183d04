//! The reader's side of a connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch_core::ReceivedFrame;
use anabranch_net::WorkerWaker;

use super::Shared;
use super::live::Opened;
use crate::error::{Error, ErrorCode};
use crate::statistics::Statistics;

/// One sender's session.
#[derive(Debug)]
pub(crate) struct SrtSession {
    opened: Opened,
    shared: Shared,
    waker: WorkerWaker,
}

impl SrtSession {
    pub(super) fn new(opened: Opened, shared: Shared, waker: WorkerWaker) -> Self {
        SrtSession {
            opened,
            shared,
            waker,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.opened.number
    }

    pub(crate) fn peer(&self) -> &str {
        &self.opened.name
    }

    pub(crate) fn next_frame(&self, limit: Duration) -> Result<Option<ReceivedFrame>, Error> {
        match self.opened.frames.recv_timeout(limit) {
            Ok(frame) => Ok(Some(self.taken(frame))),
            Err(flume::RecvTimeoutError::Timeout) => Ok(None),
            Err(flume::RecvTimeoutError::Disconnected) => Err(self.over()),
        }
    }

    pub(crate) async fn next_frame_async(&self) -> Result<ReceivedFrame, Error> {
        let received = self.opened.frames.recv_async().await;
        received
            .map(|frame| self.taken(frame))
            .map_err(|_| self.over())
    }

    fn taken(&self, frame: ReceivedFrame) -> ReceivedFrame {
        let waiting = &self.opened.common.waiting_bytes;
        waiting.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
        frame
    }

    fn over(&self) -> Error {
        let over = self.opened.common.over.get();
        let reason = over.map_or("closed", |over| over.reason.as_str());
        Error::new(ErrorCode::Ended, format!("the session is over: {reason}"))
    }

    pub(crate) fn statistics(&self) -> Statistics {
        if let Some(present) = self.shared.statistics(self.opened.id) {
            return present;
        }
        let over = self.opened.common.over.get();
        over.map_or_else(Statistics::default, |over| over.statistics.clone())
    }

    pub(crate) fn close(&self) {
        self.shared.close_session(self.opened.id);
        self.waker.wake();
    }
}
