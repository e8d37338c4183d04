//! Words for paths and sessions, in messages and statistics.

use anabranch_core::PathState;
use anabranch_net::PathSnapshot;
use anabranch_secure::{Cargo, PublicKey};
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

/// Returns the user's word for a session's cargo.
pub fn cargo_name(cargo: Cargo) -> &'static str {
    match cargo {
        Cargo::Frames => "video",
        Cargo::Streams => "connections",
        Cargo::Datagrams => "datagrams",
    }
}

/// Returns the name of a peer's session, which is unique in the program.
pub fn session_name(cargo: Cargo, peer: &PublicKey) -> String {
    format!("{} of {peer}", cargo_name(cargo))
}
