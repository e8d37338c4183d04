//! The two ways of a sender's frames: a session of our protocol, and SRTLA.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anabranch_core::{Frame, PathId};
use anabranch_net::{ClientPath, Ended, Event as NetEvent, Events, Snapshot, StartError};
use anabranch_units::DataRate;

use crate::error::{Error, ErrorCode};
use crate::srtla::{Happening, SrtlaSender};

/// A started sender.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// Our protocol.
    Own(anabranch_net::Sender, Events),
    /// SRT over the links of SRTLA.
    Srtla(SrtlaSender),
}

impl Carrier {
    /// Takes a frame in. Returns its number; 0 for SRTLA.
    pub(crate) fn send(&self, frame: &Frame) -> Result<u64, Error> {
        match self {
            Carrier::Own(sender, _) => Ok(sender.send_frame(frame)?.0),
            Carrier::Srtla(sender) => sender.send(&frame.bytes).map(|()| 0),
        }
    }

    pub(crate) fn target(&self) -> DataRate {
        match self {
            Carrier::Own(sender, _) => sender.target_bitrate(),
            Carrier::Srtla(sender) => sender.target(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        match self {
            Carrier::Own(sender, _) => sender.snapshot(),
            Carrier::Srtla(sender) => sender.snapshot(),
        }
    }

    /// Adds a path with the next number.
    pub(crate) fn add_path(&self, path: ClientPath) -> Result<(), Error> {
        match self {
            Carrier::Own(sender, _) => Ok(sender.add_path(path)?),
            Carrier::Srtla(sender) => sender.add_path(path),
        }
    }

    /// Gives a path the number of a removed one. Returns whether there is this number.
    pub(crate) fn replace_path(&self, id: PathId, path: ClientPath) -> Result<bool, Error> {
        match self {
            Carrier::Own(sender, _) => match sender.replace_path(id, path) {
                Ok(_) => Ok(true),
                // It was removed before the session had it.
                Err(StartError::NoSuchPath { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            },
            Carrier::Srtla(sender) => {
                sender.replace_path(id, path);
                Ok(true)
            }
        }
    }

    pub(crate) fn remove_path(&self, id: PathId) {
        match self {
            Carrier::Own(sender, _) => sender.switch_path(id, false),
            Carrier::Srtla(sender) => sender.remove_path(id),
        }
    }

    /// Waits for an event, and blocks the thread.
    pub(crate) fn recv_timeout(&self, limit: Duration) -> Result<Happening, RecvTimeoutError> {
        match self {
            Carrier::Own(_, events) => events.recv_timeout(limit).map(Happening::of),
            Carrier::Srtla(sender) => sender.recv_timeout(limit),
        }
    }

    /// Waits for an event in a task; `None` after the last one.
    pub(crate) async fn recv_async(&self) -> Option<Happening> {
        match self {
            Carrier::Own(_, events) => events.recv_async().await.ok().map(Happening::of),
            Carrier::Srtla(sender) => sender.recv_async().await,
        }
    }

    /// Returns the error of a session that is over.
    pub(crate) fn over(&self) -> Error {
        match self {
            Carrier::Own(sender, _) => Error::ended(sender.ended().as_ref()),
            Carrier::Srtla(_) => Error::new(ErrorCode::Ended, "the session is over"),
        }
    }

    /// Begins to end the session.
    pub(crate) fn close(&self) {
        match self {
            Carrier::Own(sender, _) => sender.close(),
            Carrier::Srtla(sender) => sender.close(),
        }
    }

    /// Waits for the end in a task.
    pub(crate) async fn wait_ended(&self) -> Result<(), Error> {
        match self {
            Carrier::Own(sender, _) => match sender.wait_ended().await {
                Ended::Closed => Ok(()),
                other => Err(Error::ended(Some(&other))),
            },
            Carrier::Srtla(sender) => {
                sender.wait_ended().await;
                Ok(())
            }
        }
    }
}

impl Happening {
    fn of(event: NetEvent) -> Happening {
        Happening::Net(event)
    }
}
