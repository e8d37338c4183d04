//! Events that a session reports to its owner.

use core::fmt;
use std::net::SocketAddr;

use crate::session_parameters::SessionKind;
use anabranch_core::{FrameId, FramePart, PathId, PathState, ReceivedFrame, media::DropReason};
use anabranch_secure::{PublicKey, Refusal, VERSION};
use anabranch_units::{DataRate, Duration};

use crate::carrier::Carrier;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete, and the peer is known.
    Connected {
        /// The peer's key, authenticated.
        peer: PublicKey,
        /// Kind of the session.
        session_kind: SessionKind,
    },
    /// A frame has arrived completely; frames are in the order of their numbers.
    FrameReceived(ReceivedFrame),
    /// Bytes of the next frame in order, which is not whole yet; see
    /// [`HandOut::PartsInOrder`](anabranch_core::HandOut::PartsInOrder).
    FramePart(FramePart),
    /// A frame was given up.
    FrameDropped {
        /// Number of the frame.
        id: FrameId,
        /// Place and reason of the drop.
        reason: DropReason,
    },
    /// Another bitrate is requested of the encoder.
    TargetBitrate(DataRate),
    /// The trust in a path has changed.
    PathState {
        /// The path.
        path: PathId,
        /// The path's new state.
        state: PathState,
    },
    /// The receiver is silent: a sender requests a new session, and meanwhile continues to send by
    /// the old one.
    Reconnecting {
        /// Duration of the silence.
        silent_for: Duration,
    },
    /// The receiver has announced that it leaves, as at a restart. A sender requests a new session
    /// at once, and meanwhile gives up frames that become too old.
    ReceiverLeft,
    /// A sender has a new session, which replaces the silent one. Frames are numbered from zero
    /// again.
    Reconnected {
        /// Duration of the silence.
        silent_for: Duration,
    },
    /// A path has no local side now: its interface or address is absent. It is waited for.
    PathAbsent {
        /// The path.
        path: PathId,
        /// The missing interface or address.
        reason: String,
    },
    /// A path that was absent has a local side again.
    PathPresent {
        /// The path.
        path: PathId,
    },
    /// The receiver refuses a session, for a new reason. A sender asks again until
    /// [`ClientConfig::connect_timeout`](crate::ClientConfig::connect_timeout) or
    /// [`ClientConfig::give_up_after`](crate::ClientConfig::give_up_after) is over.
    Refused(Refused),
    /// A name of the receiver cannot be resolved now. The resolver is asked again while no receiver
    /// answers. Reported at once, then every five minutes.
    NameUnresolved {
        /// Host and port.
        name: String,
        /// The resolver's reason, in words.
        reason: String,
    },
    /// A name of the receiver has addresses after a failure, or others than before.
    NameResolved {
        /// Host and port.
        name: String,
        /// All addresses, in the resolver's order.
        addresses: Vec<SocketAddr>,
    },
    /// UDP is answered on no path: TCP is tried, too, at the given port of the receiver's host.
    /// Reported once.
    TriesTcp {
        /// The peer's address on the first path whose address is known.
        remote: SocketAddr,
    },
    /// TCP answers on some path and UDP on none: the session continues by TCP.
    UdpBlocked {
        /// The peer's address on the first path whose address is known.
        remote: SocketAddr,
    },
    /// A client's path uses another carrier from now on.
    PathCarrier {
        /// The path.
        path: PathId,
        /// The carrier.
        carrier: Carrier,
    },
    /// The session is over. A sender has no other; a receiver waits for the next.
    Ended(Ended),
}

impl Event {
    /// Returns whether it reports the begin or end of a session.
    pub(crate) fn is_milestone(&self) -> bool {
        matches!(
            self,
            Event::Connected { .. } | Event::Reconnected { .. } | Event::Ended(_)
        )
    }
}

/// Reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// This end closed it, and the peer was notified.
    Closed,
    /// The peer closed it. This does not end a sender, as receivers may be restarted.
    ClosedByPeer,
    /// The receiver left, and no other replaced it.
    ReceiverLeft {
        /// Duration of the silence.
        waited: Duration,
    },
    /// No answer to the handshake.
    NoAnswer {
        /// The called addresses.
        remotes: Vec<SocketAddr>,
        /// Duration of the attempt.
        waited: Duration,
        /// This end's public key, which the peer must allow.
        local_key: PublicKey,
    },
    /// The receiver refused every requested session.
    Refused {
        /// The last reason.
        refused: Refused,
        /// Time for which it was tried.
        waited: Duration,
    },
    /// The peer was silent for too long.
    PeerSilent {
        /// Duration of the silence.
        waited: Duration,
    },
    /// Another session replaced it at the receiver. At a sender: that of another program with the
    /// same key or stream.
    Replaced,
    /// The peer has acknowledged packets that were never sent to it.
    PeerLied,
    /// The session's key has sealed all that it may
    /// ([`MAX_SEALED_COUNT`](anabranch_secure::MAX_SEALED_COUNT)).
    KeyExhausted,
}

/// Reason for which a receiver refuses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The receiver's answer, authenticated.
    ByReceiver(Refusal),
    /// The receiver uses this version of the protocol, and cannot read this end's datagrams.
    /// Somebody on the path may have forged that.
    OtherVersion(u8),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::ByReceiver(Refusal::NoPlace) => f.write_str(
                "the receiver lets this sender in, but other senders have all places there",
            ),
            Refused::ByReceiver(Refusal::NotCarried) => f.write_str(
                "the receiver lets this end in, but does not carry this kind of session: `send` \
                 goes with `recv`, `proxy` with `serve`",
            ),
            Refused::OtherVersion(version) => write!(
                f,
                "the receiver speaks protocol version {version}, this program version {VERSION}: \
                 install the same release at both ends"
            ),
        }
    }
}

impl std::error::Error for Ended {}

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
                if remotes.is_empty() {
                    return write!(
                        f,
                        "no address of the receiver is known after {seconds:.0} s: does its name \
                         exist, and does a resolver answer?"
                    );
                }
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
            Ended::Refused { refused, waited } => {
                write!(f, "{refused} (tried for {:.0} s)", waited.as_secs_f64())
            }
            Ended::PeerSilent { waited } => {
                write!(
                    f,
                    "nothing came from the peer for {:.0} s",
                    waited.as_secs_f64()
                )
            }
            Ended::ReceiverLeft { waited } => {
                write!(
                    f,
                    "the receiver left {:.0} s ago and has not returned",
                    waited.as_secs_f64()
                )
            }
            Ended::Replaced => f.write_str("another sender has taken its place at the receiver"),
            Ended::PeerLied => f.write_str(
                "the peer contradicts itself, or has acknowledged packets that were never sent to \
                 it: it is not an honest program",
            ),
            Ended::KeyExhausted => f.write_str("the session's key is used up: start a new session"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_error_hints_at_causes() {
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

    #[test]
    fn a_refusal_gives_its_reason_and_blames_neither_key_nor_network() {
        let reasons = [
            (Refused::ByReceiver(Refusal::NoPlace), "places"),
            (Refused::ByReceiver(Refusal::NotCarried), "kind of session"),
            (Refused::OtherVersion(9), "version 9"),
        ];
        for (refused, part) in reasons {
            let waited = Duration::from_secs(10);
            let text = Ended::Refused { refused, waited }.to_string();
            assert!(text.contains(part) && text.contains("10 s"), "{text}");
            assert!(!text.contains("UDP") && !text.contains("allow "), "{text}");
        }
    }
}
