//! A frame of which bytes leave before its end is known.
//!
//! Full fragments are queued as their bytes come. The *tail*, bytes that fill no fragment, waits
//! for more bytes or for the frame's end, but no longer than [`LONGEST_WAIT`] while there is credit
//! for the headers of an additional packet.

use anabranch_units::{Duration, Instant};

use super::SendBuffer;
use super::cuts::Cut;
use crate::media::{Frame, FrameId, MAX_FRAME_BYTES, SendFrameError};
use crate::path_view::PathSet;
use crate::send_reason::SendReason;

/// Longest wait of a tail while there is credit. Datagrams of a source of 8 Mbit/s come 1.3 ms
/// apart, so its tails mostly become full fragments.
const LONGEST_WAIT: Duration = Duration::from_millis(3);
/// Inverse of the share of the media that headers of additional packets may take: half a percent.
/// In full packets, headers take 4 %.
const SHARE: u64 = 200;
/// Most credit, in additional packets: bursts of 25 pictures a second need less.
const MAX_CREDIT_PACKETS: u64 = 16;
/// Maximum number of fragments of a frame while it grows. If each is cut again, the numbers still
/// suffice.
const MAX_FRAGMENTS: usize = 16_000;

/// The frame that grows, and the credit for additional packets.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// The newest frame, while its end is still to come. It may have been given up.
    open: Option<FrameId>,
    /// Arrival of the tail's first byte.
    tail_since: Option<Instant>,
    /// Bytes of media that have not paid for an additional packet.
    unspent_bytes: u64,
}

impl SendBuffer {
    /// Takes the first bytes of a frame in, which grows from now on.
    pub(crate) fn begin(&mut self, now: Instant, frame: &Frame) -> Result<FrameId, SendFrameError> {
        let id = self.take_in(frame, false)?;
        self.growth.open = Some(id);
        self.on_grown(now, id, frame.bytes.len());
        Ok(id)
    }

    /// Returns whether a frame grows, or did until it was given up.
    pub(crate) fn is_open(&self) -> bool {
        self.growth.open.is_some()
    }

    /// Accepts the end of a frame that another session has begun, and that is not of use here.
    pub(crate) fn expect_end(&mut self) {
        self.growth.open.get_or_insert(FrameId(u64::MAX));
    }

    /// Appends bytes to the frame that grows. Returns the number of bytes taken: none if the frame
    /// has been given up.
    pub(crate) fn append(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, SendFrameError> {
        let id = self.growth.open.ok_or(SendFrameError::NotBegun)?;
        let buffered_bytes = self.buffered_bytes;
        let most = MAX_FRAGMENTS * usize::from(self.fragment_bytes_of(id));
        let Some(frame) = self.frame_mut(id).filter(|frame| !frame.is_given_up) else {
            return Ok(0);
        };
        let (length, limit) = (frame.bytes.len() + bytes.len(), MAX_FRAME_BYTES.min(most));
        if length > limit || frame.fragments.len() > MAX_FRAGMENTS {
            let bytes = length;
            return Err(SendFrameError::TooLarge { bytes, limit });
        }
        if buffered_bytes > super::MAX_BUFFERED_BYTES {
            let bytes = buffered_bytes;
            return Err(SendFrameError::Backlogged { bytes });
        }
        frame.bytes.extend(bytes);
        let importance = frame.importance;
        self.buffered_bytes += bytes.len();
        self.groups.on_more_bytes(importance, bytes.len() as u64);
        self.queue_cuts(id, Cut::Full);
        self.on_grown(now, id, bytes.len());
        Ok(bytes.len())
    }

    fn fragment_bytes_of(&self, id: FrameId) -> u16 {
        self.frame(id).map_or(0, |frame| frame.fragment_bytes)
    }

    fn on_grown(&mut self, now: Instant, id: FrameId, byte_count: usize) {
        let most = MAX_CREDIT_PACKETS * self.price_of_packet();
        self.growth.unspent_bytes = (self.growth.unspent_bytes + byte_count as u64).min(most);
        let tail_bytes = self.frame(id).map_or(0, |frame| frame.tail_bytes());
        self.growth.tail_since = match tail_bytes {
            0 => None,
            // The bytes before these have left.
            tail_bytes if tail_bytes <= byte_count => Some(now),
            _ => self.growth.tail_since.or(Some(now)),
        };
    }

    /// Returns the bytes of media that pay for the headers of an additional packet.
    fn price_of_packet(&self) -> u64 {
        u64::from(self.packet_overhead_bytes) * SHARE
    }

    fn pay_for_packet(&mut self) {
        let price = self.price_of_packet();
        self.growth.unspent_bytes = self.growth.unspent_bytes.saturating_sub(price);
    }

    /// Returns when the tail leaves, if it may.
    pub(crate) fn tail_due_at(&self) -> Option<Instant> {
        let is_paid = self.growth.unspent_bytes >= self.price_of_packet();
        let due_at = self.growth.tail_since? + LONGEST_WAIT;
        is_paid.then_some(due_at)
    }

    /// Queues the tail, which has waited long enough.
    pub(crate) fn release_tail(&mut self) {
        self.growth.tail_since = None;
        if let Some(id) = self.growth.open
            && self.queue_cuts(id, Cut::All) > 0
        {
            self.pay_for_packet();
        }
    }

    /// Returns the frame that grows, which the caller gives up.
    pub(crate) fn abandon(&mut self) -> Option<FrameId> {
        self.growth.tail_since = None;
        self.growth.open.take()
    }

    /// Ends the frame that grows, and queues its tail. Returns the frame unless it has been given
    /// up.
    pub(crate) fn finish(&mut self) -> Option<FrameId> {
        let id = self.growth.open.take()?;
        self.growth.tail_since = None;
        let frame = self.frame_mut(id).filter(|frame| !frame.is_given_up)?;
        frame.bytes.finish();
        if frame.tail_bytes() == 0 {
            // Its end takes a packet of its own.
            self.pay_for_packet();
        }
        self.queue_cuts(id, Cut::End);
        Some(id)
    }

    /// Cuts the bytes of the newest frame that are not cut, and queues the fragments. Returns their
    /// number.
    pub(super) fn queue_cuts(&mut self, id: FrameId, cut: Cut) -> u16 {
        let Some(frame) = self.frame_mut(id).filter(|frame| !frame.is_given_up) else {
            return 0;
        };
        let first = frame.fragments.len() as u16;
        let count = frame.cut(cut);
        if let Some(repairs) = &mut self.repairs {
            repairs.number(count);
        }
        for fragment in first..first + count {
            let view = self.view(id, fragment, SendReason::New, PathSet::EMPTY);
            self.waiting.extend(view);
        }
        count
    }
}
