//! The stream session: bytes in, segments over a path, the same bytes out.
//!
//! One space of offsets spans the session: [`SendStream`] cuts it into segments whose boundaries
//! never change, [`ReceiveStream`] puts it together. Each path has packet numbers, a round-trip
//! time and a [`RetransmissionTimer`] of its own. Whether a segment is lost is decided per path:
//! from per-packet feedback in [`crate::recovery`], or, for `tcp-cumulative`, by [`DuplicateAcks`].

mod duplicate_acks;
mod receive;
mod retransmission_timer;
mod send;
mod tail_loss_probe;

use anabranch_units::{Duration, Instant};

use crate::config::StreamConfig;
use crate::recovery::SentPacket;

pub(crate) use duplicate_acks::{DuplicateAck, DuplicateAcks};
pub(crate) use receive::{ReceiveStream, Received};
pub(crate) use retransmission_timer::RetransmissionTimer;
pub(crate) use send::{Chunk, SendStream};
pub(crate) use tail_loss_probe::TailLossProbe;

/// Why bytes cannot be written to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteStreamError {
    /// The session carries media.
    #[error("the session carries no stream")]
    NoStream,
    /// The stream has been finished.
    #[error("the stream is finished")]
    Finished,
    /// The session has been closed, by this end or the other.
    #[error("the session is closed")]
    Closed,
}

/// Both directions of a stream session at one end.
#[derive(Debug)]
pub(crate) struct Stream {
    // For every call.
    /// By path.
    pub(crate) paths: Vec<StreamPath>,
    /// When to say that the peer's window keeps bytes back, and how long to wait after that.
    pub(crate) blocked_at: Option<Instant>,
    pub(crate) says_blocked: bool,
    /// Whether the peer wants its packets reported, not just the stream's offset.
    pub(crate) is_packet_feedback_wanted: bool,
    /// Whether the window shall be told out of turn.
    pub(crate) is_window_due: bool,
    /// Whether the application knows that there is something to read.
    pub(crate) is_readable_told: bool,
    pub(crate) is_finish_told: bool,
    // For segments that leave, and what is heard of them.
    pub(crate) send: SendStream,
    pub(crate) blocked_wait: Duration,
    /// What the segment that is being written is cut from.
    pub(crate) sending: Option<Chunk>,
    /// Packets that a cumulative acknowledgement settles.
    pub(crate) settled: Vec<SentPacket>,
    pub(crate) config: StreamConfig,
    // For segments that arrive.
    pub(crate) receive: ReceiveStream,
}

/// What a stream keeps of one path at its sending end.
#[derive(Debug)]
pub(crate) struct StreamPath {
    pub(crate) probe: TailLossProbe,
    /// Whether one retransmission may leave whatever the window says: the first of a recovery.
    pub(crate) is_urgent: bool,
    pub(crate) timer: RetransmissionTimer,
    /// The last packet that carried a segment not for the first time.
    pub(crate) newest_resent: Option<u64>,
    /// Of use for `tcp-cumulative` alone.
    pub(crate) duplicate_acks: DuplicateAcks,
}

impl Stream {
    /// A stream in segments of `segment_bytes`. What the sender keeps is limited to whole segments:
    /// a writer that always has more would otherwise have short ones sent where a limit ends.
    pub(crate) fn new(config: StreamConfig, segment_bytes: u16) -> Self {
        let whole = |limit: usize| limit.next_multiple_of(usize::from(segment_bytes.max(1)));
        Stream {
            config,
            send: SendStream::new(
                whole(config.send_buffer_bytes),
                whole(config.max_unsent_bytes),
            ),
            receive: ReceiveStream::new(&config),
            paths: Vec::new(),
            sending: None,
            blocked_at: None,
            blocked_wait: config.initial_retransmission_timeout,
            says_blocked: false,
            is_packet_feedback_wanted: false,
            is_window_due: false,
            is_readable_told: false,
            is_finish_told: false,
            settled: Vec::new(),
        }
    }

    pub(crate) fn add_path(&mut self) {
        // Most streams have one.
        self.paths.reserve_exact(1);
        self.paths.push(StreamPath {
            timer: RetransmissionTimer::new(&self.config),
            duplicate_acks: DuplicateAcks::default(),
            probe: TailLossProbe::default(),
            is_urgent: false,
            newest_resent: None,
        });
    }
}
