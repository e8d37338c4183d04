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
    let limit = all.iter().find(|limit| limit.peers.contains(&owner.0));
    let (mut count, mut count_in_group) = (0, 0);
    for (_, held) in sessions.iter() {
        let (peer, kind) = held.owner();
        if kind == owner.1 {
            count += 1;
            let is_in_group = limit.is_some_and(|limit| limit.peers.contains(&peer));
            count_in_group += usize::from(is_in_group);
        }
    }
    count < max_sessions && limit.is_none_or(|limit| count_in_group < limit.max_sessions)
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
