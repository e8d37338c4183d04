//! Words for paths and sessions, in messages and statistics.

use anabranch_core::PathState;
use anabranch_net::PathSnapshot;
use anabranch_net::SessionKind;
use anabranch_secure::PublicKey;
use anabranch_terminal::clean::one_line;

/// Returns a name for people: this end's, otherwise the peer's, otherwise the peer's address.
pub fn path_name(names: &[String], index: usize, path: &PathSnapshot) -> String {
    let of_peer = path.link.as_ref().map(|link| one_line(&link.name));
    match (names.get(index), of_peer, path.peer) {
        (Some(name), ..) => name.clone(),
        (None, Some(name), _) if !name.is_empty() => name.into_owned(),
        (None, _, Some(peer)) => format!("from {peer}"),
        (None, _, None) => index.to_string(),
    }
}

/// Returns the user's word for a path's state.
pub fn state_name(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::Suspect => "suspect",
        PathState::Out => "out",
        PathState::Removed => "removed",
    }
}

/// Returns the user's word for a session's kind.
pub fn cargo_name(session_kind: SessionKind) -> &'static str {
    match session_kind {
        SessionKind::Frames => "video",
        SessionKind::Streams => "connections",
        SessionKind::Datagrams => "datagrams",
    }
}

/// Returns the name of a peer's session, which is unique in the program.
pub fn session_name(session_kind: SessionKind, peer: &PublicKey) -> String {
    format!("{} of {peer}", cargo_name(session_kind))
}
