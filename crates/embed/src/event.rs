//! Events of a session, as applications of any language read them.

use anabranch_core::PathState;
use anabranch_core::media::DropReason;
use anabranch_net::Event as NetEvent;
use serde::Serialize;

use crate::statistics::state_name;

/// An event of a session. Its JSON has the field `event` with the name, as `path-state`, and the
/// fields of this type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The session has begun: frames are taken.
    Connected {
        /// Public key of the other end; empty for SRTLA.
        peer: String,
    },
    /// The receiver is silent. Another session is requested, and frames are taken still.
    Reconnecting {
        /// Time since its last datagram, in seconds.
        silent_for_s: f64,
    },
    /// Another session has replaced the silent one: the encoder must produce a key frame.
    Reconnected {
        /// Time for which the receiver was silent, in seconds.
        silent_for_s: f64,
    },
    /// The receiver has announced that it leaves, as at a restart.
    ReceiverLeft,
    /// A path has another state.
    PathState {
        /// Number of the path.
        path: usize,
        /// Its name.
        name: String,
        /// State: active, suspect, out or removed.
        state: &'static str,
    },
    /// A path has no local side now: its interface or address is absent, or it was removed.
    PathAbsent {
        /// Number of the path.
        path: usize,
        /// Its name.
        name: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// A path that was absent has a local side again.
    PathPresent {
        /// Number of the path.
        path: usize,
        /// Its name.
        name: String,
    },
    /// A path uses another carrier: `UDP` or `TCP`.
    PathCarrier {
        /// Number of the path.
        path: usize,
        /// Its name.
        name: String,
        /// Name of the carrier.
        carrier: String,
    },
    /// A frame was given up. If others are predicted from it, the encoder must produce a key frame.
    FrameDropped {
        /// Number of the frame in its session.
        frame: u64,
        /// `late` at the sender; `incomplete` or `missing` at the receiver.
        reason: &'static str,
    },
    /// Another bitrate is requested of the encoder.
    Target {
        /// The bitrate in bit/s.
        target_bps: u64,
    },
    /// The receiver refuses the session for now.
    Refused {
        /// Cause in words.
        reason: String,
    },
    /// A name of the receiver cannot be resolved now.
    NameUnresolved {
        /// The name.
        host: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// A name of the receiver has other addresses.
    NameResolved {
        /// The name.
        host: String,
        /// Its addresses.
        addresses: Vec<String>,
    },
    /// UDP is not answered, so TCP is tried, too.
    TriesTcp {
        /// Address of the receiver.
        remote: String,
    },
    /// TCP is answered, but UDP is not.
    UdpBlocked {
        /// Address of the receiver.
        remote: String,
    },
    /// At a receiver: a sender's session has begun.
    SessionBegan,
    /// At a receiver: a sender's session is over.
    SessionEnded {
        /// Cause in words.
        reason: String,
    },
    /// At a receiver: a sender requested a session and got none.
    SenderRefused {
        /// Cause in words.
        reason: String,
        /// Address or host of the sender; empty if it is not known.
        from: String,
    },
    /// The session is over. No event follows.
    Ended {
        /// Cause in words.
        reason: String,
    },
}

impl Event {
    /// Returns the event as JSON on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event has texts and numbers alone")
    }

    /// Converts an event of the network; `None` for frames, which have calls of their own.
    pub(crate) fn of(event: &NetEvent, name_of: impl Fn(usize) -> String) -> Option<Event> {
        Some(match event {
            NetEvent::Connected { peer, .. } => Event::Connected {
                peer: peer.to_string(),
            },
            NetEvent::Reconnecting { silent_for } => Event::Reconnecting {
                silent_for_s: silent_for.as_secs_f64(),
            },
            NetEvent::Reconnected { silent_for } => Event::Reconnected {
                silent_for_s: silent_for.as_secs_f64(),
            },
            NetEvent::ReceiverLeft => Event::ReceiverLeft,
            NetEvent::PathState { path, state } => path_state(path.index(), *state, name_of),
            NetEvent::PathAbsent { path, reason } => Event::PathAbsent {
                path: path.index(),
                name: name_of(path.index()),
                reason: reason.clone(),
            },
            NetEvent::PathPresent { path } => Event::PathPresent {
                path: path.index(),
                name: name_of(path.index()),
            },
            NetEvent::PathCarrier { path, carrier } => Event::PathCarrier {
                path: path.index(),
                name: name_of(path.index()),
                carrier: carrier.to_string(),
            },
            NetEvent::FrameDropped { id, reason } => Event::FrameDropped {
                frame: id.0,
                reason: drop_reason(*reason),
            },
            NetEvent::TargetBitrate(rate) => Event::Target {
                target_bps: rate.bits_per_second(),
            },
            NetEvent::Refused(refused) => Event::Refused {
                reason: refused.to_string(),
            },
            NetEvent::NameUnresolved { name, reason } => Event::NameUnresolved {
                host: name.clone(),
                reason: reason.clone(),
            },
            NetEvent::NameResolved { name, addresses } => Event::NameResolved {
                host: name.clone(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
            },
            NetEvent::TriesTcp { remote } => Event::TriesTcp {
                remote: remote.to_string(),
            },
            NetEvent::UdpBlocked { remote } => Event::UdpBlocked {
                remote: remote.to_string(),
            },
            NetEvent::Ended(ended) => Event::Ended {
                reason: ended.to_string(),
            },
            _ => return None,
        })
    }
}

/// Returns the word for the reason of a drop.
pub(crate) fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Incomplete => "incomplete",
        DropReason::Missing => "missing",
        _ => "late",
    }
}

fn path_state(path: usize, state: PathState, name_of: impl Fn(usize) -> String) -> Event {
    Event::PathState {
        path,
        name: name_of(path),
        state: state_name(state),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathId;

    use super::*;

    #[test]
    fn json_names_the_event_and_its_fields() {
        let event = NetEvent::PathState {
            path: PathId(1),
            state: PathState::Out,
        };
        let event = Event::of(&event, |index| format!("wlan{index}")).expect("it is shown");
        let expected = r#"{"event":"path-state","path":1,"name":"wlan1","state":"out"}"#;
        assert_eq!(event.to_json(), expected);
        assert_eq!(
            Event::ReceiverLeft.to_json(),
            r#"{"event":"receiver-left"}"#
        );
    }
}
