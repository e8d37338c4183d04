//! The application's verbs of a stream.

use core::ops::Range;

use anabranch_units::Instant;
use bytes::Bytes;

use super::mtu::segment_bytes;
use super::{Stream, StreamSession};
use crate::config::Config;
use crate::stream::{Head, ReceiveStream, SendStream, WriteStreamError};

impl StreamSession {
    /// Maximum length of a message's head in [`write_behind`](Self::write_behind).
    pub const MAX_HEAD_BYTES: usize = Head::MAX_BYTES;

    /// Copies as many bytes for sending as there is room for. Returns their number. If not all fit,
    /// [`StreamWritable`](crate::Event::StreamWritable) says when to try again.
    ///
    /// ```
    /// use anabranch_core::{Config, PathOptions, StreamSession};
    /// use anabranch_units::{Instant, Seed};
    ///
    /// let controller = anabranch_controllers::by_name("cubic").expect("it is registered");
    /// let scheduler = anabranch_schedulers::default_stream_scheduler();
    /// let mut config = Config::new(controller, scheduler);
    /// config.stream.send_buffer_bytes = 64 << 10;
    /// let now = Instant::ZERO;
    /// let mut session = StreamSession::new(config, Seed(1), now)?;
    /// session.add_path(now, PathOptions::default());
    /// // The buffer takes part of the bytes; the rest has to wait.
    /// let taken = session.write(now, &[7; 100_000])?;
    /// assert!((64 << 10..100_000).contains(&taken), "{taken}");
    /// assert_eq!(session.write(now, &[7; 1])?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WriteStreamError`]; nothing was taken.
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, WriteStreamError> {
        if self.config.stream.carries_messages {
            return self.write_bytes(now, Bytes::copy_from_slice(bytes));
        }
        self.write_with(now, |send| send.write(bytes))
    }

    /// Writes like [`StreamSession::write`], but copies nothing: the bytes are shared until the
    /// peer has acknowledged them. A [message](crate::StreamConfig::carries_messages) is taken
    /// whole or not at all.
    ///
    /// # Errors
    /// [`WriteStreamError`]; nothing was taken.
    pub fn write_bytes(&mut self, now: Instant, bytes: Bytes) -> Result<usize, WriteStreamError> {
        if self.config.stream.carries_messages {
            check_message(&self.config, bytes.len())?;
        }
        self.write_with(now, |send| send.write_shared(bytes))
    }

    /// Writes like [`StreamSession::write_bytes`], with a head of up to
    /// [`MAX_HEAD_BYTES`](Self::MAX_HEAD_BYTES) in front, which is copied. Both together are taken
    /// whole or not at all, and are one [message](crate::StreamConfig::carries_messages).
    ///
    /// # Errors
    /// [`WriteStreamError`]; nothing was taken.
    pub fn write_behind(
        &mut self,
        now: Instant,
        head: &[u8],
        bytes: Bytes,
    ) -> Result<usize, WriteStreamError> {
        let too_long = WriteStreamError::NoMessage {
            bytes: head.len(),
            max: StreamSession::MAX_HEAD_BYTES,
        };
        let head = Head::of(head).ok_or(too_long)?;
        if self.config.stream.carries_messages {
            check_message(&self.config, head.len() + bytes.len())?;
        }
        self.write_with(now, |send| send.write_behind(head, bytes))
    }

    fn write_with(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut SendStream) -> usize,
    ) -> Result<usize, WriteStreamError> {
        let max_bytes = self.max_message_bytes();
        let stream = self.open_stream()?;
        let is_idle = stream.send.next(max_bytes).is_none();
        let taken = write(&mut stream.send);
        if is_idle && taken > 0 {
            self.content.request_scheduling();
            self.paths
                .iter_mut()
                .for_each(|path| path.leave_idleness(now));
        }
        let stream = &mut self.content;
        stream.watch_window(now, &self.sizes, &self.paths);
        Ok(taken)
    }

    /// Sets the number of bytes that the application will write once there is room. Schedulers use
    /// it: a slow path is worth taking if there is enough.
    pub fn expect_further(&mut self, bytes: u64) {
        let before = core::mem::replace(&mut self.content.further_bytes, bytes);
        if bytes > before {
            self.content.request_scheduling();
        }
    }

    /// Returns the maximum length of a [message](crate::StreamConfig::carries_messages) that leaves
    /// in one packet, by whichever path. A longer one, of at most
    /// [`Config::fragment_bytes`](crate::Config), may leave in two.
    pub fn max_message_bytes(&self) -> usize {
        segment_bytes(&self.sizes, &self.paths)
    }

    /// Ends the stream after all that has been written. The session stays open, for the bytes to
    /// arrive and for the peer's.
    ///
    /// # Errors
    /// [`WriteStreamError`].
    pub fn finish(&mut self) -> Result<(), WriteStreamError> {
        let stream = self.open_stream()?;
        stream.send.finish();
        stream.request_scheduling();
        Ok(())
    }

    /// Moves all bytes that have arrived in order to the end of `out`. Returns their number.
    pub fn read(&mut self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        while let Some(bytes) = self.read_bytes() {
            out.extend_from_slice(&bytes);
        }
        out.len() - before
    }

    /// Returns the next contiguous bytes that have arrived in order, without a copy, or [the next
    /// message](crate::StreamConfig::carries_messages). `None` if all have been read, or [none are
    /// kept](crate::Laboratory::keeps_bytes).
    pub fn read_bytes(&mut self) -> Option<Bytes> {
        self.consume(ReceiveStream::read)
    }

    /// Discards up to `at_most` bytes that have arrived in order. Returns their number.
    pub fn skip(&mut self, at_most: u64) -> u64 {
        self.consume(|receive| receive.skip(at_most)).unwrap_or(0)
    }

    fn consume<T>(&mut self, consume: impl FnOnce(&mut ReceiveStream) -> Option<T>) -> Option<T> {
        let stream = &mut self.content;
        stream.is_readable_reported = false;
        let consumed = consume(&mut stream.receive)?;
        // An acknowledgement that is due anyway also carries the window.
        let mut arrivals = self.paths.iter().map(|path| &path.arrivals);
        stream.is_window_due |= stream.receive.should_announce_window()
            && arrivals.all(|arrivals| arrivals.due_at().is_none());
        Some(consumed)
    }

    /// Returns the end of the peer's data that has arrived without gaps, and the byte range of its
    /// newest segment. Measurements use it to see how long bytes wait for missing ones before them.
    pub fn arrived(&self) -> (u64, Range<u64>) {
        let receive = &self.content.receive;
        (receive.expected(), receive.newest())
    }

    /// Returns whether the peer's stream has arrived to its end and been read to it.
    pub fn is_complete(&self) -> bool {
        let receive = &self.content.receive;
        receive.is_complete() && receive.readable_bytes() == 0
    }

    fn open_stream(&mut self) -> Result<&mut Stream, WriteStreamError> {
        if !self.closing.is_open() {
            return Err(WriteStreamError::Closed);
        }
        match &mut self.content {
            stream if stream.send.is_finished() => Err(WriteStreamError::Finished),
            stream => Ok(stream),
        }
    }
}

/// Checks the length of a message.
fn check_message(config: &Config, bytes: usize) -> Result<(), WriteStreamError> {
    let max = usize::from(config.fragment_bytes);
    if (1..=max).contains(&bytes) {
        Ok(())
    } else {
        Err(WriteStreamError::NoMessage { bytes, max })
    }
}
