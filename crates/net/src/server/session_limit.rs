//! Groups of peers with a limit on their simultaneous sessions.

use anabranch_secure::PublicKey;
use anabranch_units::Instant;

use super::sessions::{Owner, Sessions};

/// A group of peers with a limit on their sessions at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimit {
    /// The peers that share them.
    pub peers: Vec<PublicKey>,
    /// Maximum number of their sessions of the same kind.
    pub max_sessions: usize,
}

/// Returns whether another session of `owner` displaces none: there is room for all, and for those
/// in its group.
pub(super) fn has_room(
    sessions: &Sessions,
    all: &[SessionLimit],
    max_sessions: usize,
    owner: Owner,
) -> bool {
    let same = || sessions.iter().map(|(_, held)| held.owner());
    let same = || same().filter(|other| other.1 == owner.1);
    let limit = all.iter().find(|limit| limit.peers.contains(&owner.0));
    same().count() < max_sessions
        && limit.is_none_or(|limit| {
            same()
                .filter(|other| limit.peers.contains(&other.0))
                .count()
                < limit.max_sessions
        })
}

/// Returns the session whose place `owner` would take, and the time at which it was last heard. It
/// is one of those of its group, if its limit is reached, else of all with the same kind.
pub(super) fn longest_silent(
    sessions: &Sessions,
    all: &[SessionLimit],
    owner: Owner,
) -> Option<(u32, Instant)> {
    let limit = all
        .iter()
        .find(|limit| limit.peers.contains(&owner.0))
        .filter(|limit| !has_room(sessions, &[(*limit).clone()], usize::MAX, owner));
    let same = sessions.iter().filter(|(_, held)| {
        let other = held.owner();
        other.1 == owner.1 && limit.is_none_or(|limit| limit.peers.contains(&other.0))
    });
    let heard = same.map(|(index, held)| (index, held.session.heard_at()));
    heard.min_by_key(|(_, heard_at)| *heard_at)
}
