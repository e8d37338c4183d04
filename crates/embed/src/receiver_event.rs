//! Events of a receiver and its sessions, as applications of any language read them.

use anabranch_net::{RefusedSender, WatchedEvent, WatchedSession};
use anabranch_secure::Refusal;
use serde::Serialize;

use crate::event::{Event, drop_reason};
use crate::statistics::state_name;

/// An event of a receiver. Its JSON has the fields of its [`Event`], and `session` and `peer`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReceiverEvent {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// Number of the session, in the order in which sessions began, from 0. None if a sender got no
    /// session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The sender: its public key. For SRT and SRTLA its stream ID, or its host if it gave no ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

impl ReceiverEvent {
    /// Returns the event as JSON on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event has texts and numbers alone")
    }

    /// Converts an event of the network; `None` for kinds that are not known here.
    pub(crate) fn of(event: WatchedEvent) -> Option<ReceiverEvent> {
        Some(match event {
            WatchedEvent::Began(session) => of_session(session, Event::SessionBegan),
            WatchedEvent::PathState {
                session,
                path,
                name,
                state,
            } => {
                let event = Event::PathState {
                    path: path.index(),
                    name,
                    state: state_name(state),
                };
                of_session(session, event)
            }
            WatchedEvent::FrameDropped {
                session,
                id,
                reason,
            } => {
                let event = Event::FrameDropped {
                    frame: id.0,
                    reason: drop_reason(reason),
                };
                of_session(session, event)
            }
            WatchedEvent::Ended { session, ended } => {
                let reason = ended.to_string();
                of_session(session, Event::SessionEnded { reason })
            }
            WatchedEvent::Refused(sender) => return refused(sender),
            _ => return None,
        })
    }
}

fn of_session(session: WatchedSession, event: Event) -> ReceiverEvent {
    ReceiverEvent {
        event,
        session: Some(session.number),
        peer: Some(session.peer.to_string()),
    }
}

fn refused(sender: RefusedSender) -> Option<ReceiverEvent> {
    let (peer, reason, from) = match sender {
        RefusedSender::Refused { peer, reason } => (Some(peer), refusal(reason), None),
        RefusedSender::NotAllowed { peer, from } => {
            (Some(peer), "its key is not allowed".to_owned(), Some(from))
        }
        RefusedSender::WrongCode { peer, from } => {
            let reason = "the code of its link is wrong, used or expired";
            (Some(peer), reason.to_owned(), Some(from))
        }
        RefusedSender::OtherVersion { version, from } => {
            let reason = format!("it speaks version {version} of the protocol");
            (None, reason, Some(from))
        }
        _ => return None,
    };
    Some(ReceiverEvent {
        event: Event::SenderRefused {
            reason,
            from: from.map_or_else(String::new, |from| from.to_string()),
        },
        session: None,
        peer: peer.map(|peer| peer.to_string()),
    })
}

fn refusal(reason: Refusal) -> String {
    let words = match reason {
        Refusal::NoPlace => "sessions of other senders occupy all places",
        _ => "it asks for another kind of session",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_fields_of_the_event_first() {
        let shown = ReceiverEvent {
            event: Event::SessionEnded {
                reason: "closed".to_owned(),
            },
            session: Some(3),
            peer: Some("van".to_owned()),
        };
        let expected = r#"{"event":"session-ended","reason":"closed","session":3,"peer":"van"}"#;
        assert_eq!(shown.to_json(), expected);
        let refused = ReceiverEvent {
            event: Event::SenderRefused {
                reason: "wrong passphrase".to_owned(),
                from: "192.0.2.1".to_owned(),
            },
            session: None,
            peer: None,
        };
        let expected =
            r#"{"event":"sender-refused","reason":"wrong passphrase","from":"192.0.2.1"}"#;
        assert_eq!(refused.to_json(), expected);
    }
}
