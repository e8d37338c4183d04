//! The media session: frames in, fragments over the paths, frames out in order.
//!
//! A frame is cut into fragments, byte ranges that fit a packet. The sender keeps it until it is
//! acknowledged or worthless, and retransmits lost fragments while that is of use. The receiver
//! puts frames together and gives up those that do not complete in time. It waits for key frames.

mod peer_clock;
mod reassembly;
mod send_buffer;
mod source_rate;
mod symbol;
mod target;

use anabranch_units::{Duration, Importance, Instant};
use bytes::Bytes;

pub use crate::fragment::FrameId;
pub(crate) use crate::fragment::{FragmentHeader, FragmentId};
pub use peer_clock::ClockOffset;
pub(crate) use reassembly::{Outcome, Reassembly, Taken};
pub(crate) use send_buffer::{CopiesInFlight, Group, LastCall, SendBuffer, Unsent, Verdict};
#[cfg(any(debug_assertions, feature = "invariants"))]
pub(crate) use send_buffer::{CopyMap, Exceptions};
pub(crate) use source_rate::SourceRate;
pub(crate) use symbol::{SYMBOL_HEAD_BYTES, Symbol};
pub(crate) use target::{Bandwidth, Demand, most_drained_bytes, target_bitrate, target_total};

/// The largest frame, in bytes. A key frame of 4K video has about a megabyte.
pub const MAX_FRAME_BYTES: usize = 8 << 20;

/// A frame to be sent: an access unit, or what else is worthless in part.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its bytes, 1 to [`MAX_FRAME_BYTES`]. They are shared, not copied.
    pub bytes: Bytes,
    /// Effect of its loss. Key frames are never given up for age alone.
    pub importance: Importance,
    /// When the picture was taken, by the sender's clock: deadlines and frame delays count from
    /// here.
    pub captured_at: Instant,
    /// Time from its capture until it is worthless, if that is less than the session's
    /// [`deadline`](crate::MediaConfig::deadline).
    pub lifetime: Option<Duration>,
}

impl Frame {
    /// Returns a frame of these bytes, captured at this time by the sender's clock. Its lifetime is
    /// the session's deadline.
    pub fn new(bytes: impl Into<Bytes>, importance: Importance, captured_at: Instant) -> Self {
        Frame {
            bytes: bytes.into(),
            importance,
            captured_at,
            lifetime: None,
        }
    }
}

/// A frame that has arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Which frame.
    pub id: FrameId,
    /// Effect that its loss would have had.
    pub importance: Importance,
    /// When the picture was taken, by the sender's clock, to the microsecond.
    pub captured_at: Instant,
    /// Size of the frame in bytes.
    pub size_bytes: usize,
    /// They themselves; none if [`keeps_bytes`](crate::Laboratory::keeps_bytes) is not set.
    pub bytes: Vec<u8>,
    /// When its last fragment arrived, by the receiver's clock; it may have waited for earlier
    /// frames since.
    pub completed_at: Instant,
    /// The sender's clock as it is read now, when the frame is handed out.
    pub offset: ClockOffset,
    /// Number of its first bytes that were handed out before, as [`FramePart`]s.
    pub parted_bytes: usize,
}

/// Bytes of an incomplete frame, all frames before which are settled. They come in order; the rest
/// comes with [`ReceivedFrame`], or never if the frame is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// Number of the frame.
    pub id: FrameId,
    /// Importance of the frame.
    pub importance: Importance,
    /// Capture time of the frame, by the sender's clock, to the microsecond.
    pub captured_at: Instant,
    /// The sender's clock as it is read now.
    pub offset: ClockOffset,
    /// Position of the bytes in the frame.
    pub begin: usize,
    /// Bytes from there on.
    pub bytes: Vec<u8>,
}

/// Why a frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendFrameError {
    /// A frame must have bytes.
    #[error("the frame is empty")]
    Empty,
    /// The frame is larger than [`MAX_FRAME_BYTES`], or than 65,535 fragments.
    #[error("the frame has {bytes} bytes; the most is {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The most that this session can send.
        limit: usize,
    },
    /// Too many bytes wait already.
    #[error("{bytes} bytes wait to be sent: the source is faster than all paths together")]
    Backlogged {
        /// Bytes kept for sending and sending again.
        bytes: usize,
    },
    /// The frame before grows: it must be finished first.
    #[error("a frame is unfinished: finish it before the next one")]
    Unfinished,
    /// There is no frame to append to.
    #[error("no frame has been begun")]
    NotBegun,
    /// The session has been closed, by this end or the other.
    #[error("the session is closed")]
    Closed,
}

/// Why a frame was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// At the sender: its deadline passed, or would have, before it was sent whole.
    Late,
    /// At the receiver: it did not complete in time.
    Incomplete,
    /// At the receiver: nothing of it ever arrived.
    Missing,
}
