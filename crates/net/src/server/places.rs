//! Groups of peers that share places, with a limit on their simultaneous sessions.

use anabranch_secure::PublicKey;
use anabranch_units::Instant;

use super::sessions::{Owner, Sessions};

/// A group of peers with a limit on their sessions at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The peers that share them.
    pub peers: Vec<PublicKey>,
    /// Maximum number of their sessions of the same kind.
    pub max_sessions: usize,
}

/// Returns whether another session of `owner` displaces none: there is room for all, and for those
/// with whom it shares places.
pub(super) fn has_room(
    sessions: &Sessions,
    all: &[Places],
    max_sessions: usize,
    owner: Owner,
) -> bool {
    let same = || sessions.iter().map(|(_, held)| held.owner());
    let same = || same().filter(|other| other.1 == owner.1);
    let place = all.iter().find(|places| places.peers.contains(&owner.0));
    same().count() < max_sessions
        && place.is_none_or(|places| {
            same()
                .filter(|other| places.peers.contains(&other.0))
                .count()
                < places.max_sessions
        })
}

/// Returns the session whose place `owner` would take, and the time at which it was last heard. It
/// is one of those that share places with it, if these are taken, else of all with the same kind.
pub(super) fn longest_silent(
    sessions: &Sessions,
    all: &[Places],
    owner: Owner,
) -> Option<(u32, Instant)> {
    let place = all
        .iter()
        .find(|places| places.peers.contains(&owner.0))
        .filter(|places| !has_room(sessions, &[(*places).clone()], usize::MAX, owner));
    let same = sessions.iter().filter(|(_, held)| {
        let other = held.owner();
        other.1 == owner.1 && place.is_none_or(|places| places.peers.contains(&other.0))
    });
    let heard = same.map(|(index, held)| (index, held.session.heard_at()));
    heard.min_by_key(|(_, heard_at)| *heard_at)
}
