//! The stream session: bytes in, segments over paths, the same bytes out.
//!
//! One space of offsets spans the session: [`SendStream`] cuts it into segments, [`ReceiveStream`]
//! puts it together. A segment keeps its boundaries unless it is cut again for a path that does not
//! carry it. It may be retransmitted by any path. Each path has packet numbers, a round-trip time
//! and a [`RetransmissionTimer`] of its own. Whether a segment is lost is decided per path: from
//! per-packet feedback in [`crate::recovery`], or, for `tcp-cumulative`, by [`DuplicateAcks`].

mod duplicate_acks;
mod receive;
mod retransmission_timer;
mod send;
mod tail_loss_probe;

pub(crate) use duplicate_acks::{DuplicateAck, DuplicateAcks};
pub(crate) use receive::{ReceiveStream, Received};
pub(crate) use retransmission_timer::RetransmissionTimer;
pub(crate) use send::{Chunk, Copy, Head, SendStream, Waiting};
pub(crate) use tail_loss_probe::TailLossProbe;

/// Why bytes cannot be written to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteStreamError {
    /// The stream has been finished.
    #[error("the stream is finished")]
    Finished,
    /// It is no message: empty, or longer than [a segment](crate::Config::fragment_bytes).
    #[error("a message has 1 to {max} bytes, and this one {bytes}")]
    NoMessage {
        /// Length of the message.
        bytes: usize,
        /// Maximum length.
        max: usize,
    },
    /// The session has been closed, by this end or the other.
    #[error("the session is closed")]
    Closed,
}
