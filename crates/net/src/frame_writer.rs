//! A frame that is sent while its bytes come.

use anabranch_core::{Frame, FrameId};
use anabranch_units::{Importance, Instant};
use bytes::Bytes;

use crate::sender::{SendError, Sender};

/// A frame that is sent while its bytes come, from [`Sender::begin`]. Bytes leave in full packets;
/// a rest waits for more for a few milliseconds.
///
/// Until it is finished, the sender refuses other frames. A frame that is dropped is given up, and
/// so is one of which a write failed: the receiver never gets a part of a frame for a whole one.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    sender: &'a Sender,
    importance: Importance,
    captured_at: Instant,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing has been written.
    New,
    Begun(FrameId),
    Failed(SendError),
    Finished,
}

impl Sender {
    /// Begins a frame that is captured now, and whose bytes are sent as they come: a receiver with
    /// [`HandOut::PartsInOrder`](anabranch_core::HandOut::PartsInOrder) gets them before the
    /// frame's end is known.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sender: anabranch_net::Sender = todo!();
    /// let mut picture = sender.begin(anabranch_units::Importance::Key);
    /// for slice in [[1; 2_000], [2; 2_000]] {
    ///     picture.write(&slice)?;
    /// }
    /// picture.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(&self, importance: Importance) -> FrameWriter<'_> {
        self.begin_captured(importance, self.clock().now())
    }

    /// Begins a frame that was captured at this time by [`clock`](Self::clock).
    pub fn begin_captured(&self, importance: Importance, captured_at: Instant) -> FrameWriter<'_> {
        FrameWriter::new(self, importance, captured_at)
    }
}

impl<'a> FrameWriter<'a> {
    pub(crate) fn new(sender: &'a Sender, importance: Importance, captured_at: Instant) -> Self {
        FrameWriter {
            sender,
            importance,
            captured_at,
            state: State::New,
        }
    }

    /// Appends bytes to the frame. Never waits.
    ///
    /// # Errors
    /// [`SendError`]; the frame is given up, and every further call returns the error.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = match &self.state {
            State::New => self.begin(bytes),
            State::Begun(_) => self.sender.append(bytes),
            State::Failed(error) => return Err(error.clone()),
            State::Finished => Ok(()),
        };
        if let Err(error) = &written {
            self.abandon();
            self.state = State::Failed(error.clone());
        }
        written
    }

    fn begin(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        let bytes = Bytes::copy_from_slice(bytes);
        let frame = Frame::new(bytes, self.importance, self.captured_at);
        self.state = State::Begun(self.sender.begin_frame(&frame)?);
        Ok(())
    }

    /// Ends the frame. Returns its number.
    ///
    /// # Errors
    /// [`SendError`]: a write failed, or nothing was written.
    pub fn finish(mut self) -> Result<FrameId, SendError> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Begun(id) => self.sender.finish_frame().map(|()| id),
            State::Failed(error) => Err(error),
            State::New | State::Finished => {
                Err(anabranch_core::media::SendFrameError::Empty.into())
            }
        }
    }

    fn abandon(&self) {
        if let State::Begun(_) = self.state {
            self.sender.abandon_frame();
        }
    }
}

impl Drop for FrameWriter<'_> {
    fn drop(&mut self) {
        self.abandon();
    }
}
