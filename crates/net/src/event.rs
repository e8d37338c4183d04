//! What a session tells its owner.

use core::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::{self, SyncSender, TrySendError};

use anabranch_core::{FrameId, PathId, PathState, ReceivedFrame, media::DropReason};
use anabranch_secure::PublicKey;
use anabranch_units::{DataRate, Duration};

/// Events that wait for their reader; what comes beyond is dropped and counted.
const MAX_QUEUED_EVENTS: usize = 1_024;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done, and this is who is there.
    Connected {
        /// The peer's key, authenticated.
        peer: PublicKey,
    },
    /// A frame has arrived whole; frames come in the order of their numbers.
    FrameReceived(ReceivedFrame),
    /// A frame was given up.
    FrameDropped {
        /// Which.
        id: FrameId,
        /// Where and why.
        reason: DropReason,
    },
    /// The encoder is asked for another bitrate.
    TargetBitrate(DataRate),
    /// A path is trusted more or less than before.
    PathState {
        /// Which path.
        path: PathId,
        /// Its state now.
        state: PathState,
    },
    /// The session is over. A sender has no other; a receiver waits for the next.
    Ended(Ended),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// This end closed it, and the peer was told.
    Closed,
    /// The peer closed it.
    ClosedByPeer,
    /// Nobody answered the handshake.
    NoAnswer {
        /// Where to.
        remotes: Vec<SocketAddr>,
        /// For how long it was tried.
        waited: Duration,
        /// This end's public key, which the peer must allow.
        local_key: PublicKey,
    },
    /// Nothing came from the peer for this long.
    PeerSilent {
        /// For how long.
        waited: Duration,
    },
    /// Another session took its place at the receiver.
    Replaced,
    /// The session's key has sealed all that it may
    /// ([`MAX_SEALED_COUNT`](anabranch_secure::MAX_SEALED_COUNT)).
    KeyExhausted,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Closed => f.write_str("closed"),
            Ended::ClosedByPeer => f.write_str("closed by the peer"),
            Ended::NoAnswer {
                remotes,
                waited,
                local_key,
            } => {
                let seconds = waited.as_secs_f64();
                write!(f, "no answer from ")?;
                for (index, remote) in remotes.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{remote}")?;
                }
                write!(
                    f,
                    " after {seconds:.0} s: does the receiver run there, with the key that was \
                     named as its own, does it allow {local_key}, and does the way there let UDP \
                     through?"
                )
            }
            Ended::PeerSilent { waited } => {
                write!(
                    f,
                    "nothing came from the peer for {:.0} s",
                    waited.as_secs_f64()
                )
            }
            Ended::Replaced => f.write_str("replaced by a newer session"),
            Ended::KeyExhausted => f.write_str("the session's key is used up: start a new session"),
        }
    }
}

/// The runtime's end of the queue of events. It never waits for the reader.
#[derive(Debug)]
pub(crate) struct EventSender {
    queue: SyncSender<Event>,
    pub(crate) dropped_count: u64,
}

pub(crate) fn queue() -> (EventSender, mpsc::Receiver<Event>) {
    let (queue, events) = mpsc::sync_channel(MAX_QUEUED_EVENTS);
    (
        EventSender {
            queue,
            dropped_count: 0,
        },
        events,
    )
}

impl EventSender {
    pub(crate) fn tell(&mut self, event: Event) {
        match self.queue.try_send(event) {
            // An owner that went away wants to hear nothing.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => self.dropped_count += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_sleeps_bounds_the_queue() {
        let (mut sender, events) = queue();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.tell(Event::TargetBitrate(DataRate::ZERO));
        }
        assert_eq!(sender.dropped_count, 3);
        assert_eq!(events.try_iter().count(), MAX_QUEUED_EVENTS);
    }

    #[test]
    fn no_answer_says_what_to_look_at() {
        let local_key = anabranch_secure::SecretKey::generate().public_key();
        let ended = Ended::NoAnswer {
            remotes: vec!["192.0.2.1:7000".parse().unwrap()],
            waited: Duration::from_secs(10),
            local_key,
        };
        let text = ended.to_string();
        for part in ["192.0.2.1:7000", "10 s", &local_key.to_string(), "UDP"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
