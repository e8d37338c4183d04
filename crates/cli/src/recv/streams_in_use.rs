//! Assignment of sessions to streams. A session gets its name's stream or, if several keys share a
//! name, the first that no other key has.

use std::collections::BTreeMap;

use anabranch_secure::PublicKey;

use crate::allowed::{Allowed, StreamName};

/// Maximum number of a stream's sessions that wait for earlier ones to be written, each with up to
/// 64 MiB of frames.
const MAX_WAITING: usize = 4;

/// Streams in use by senders.
#[derive(Debug, Default)]
pub(super) struct StreamsInUse(BTreeMap<StreamName, (PublicKey, usize)>);

impl StreamsInUse {
    /// Begins a session of `key`, whose name has `count` streams. Returns `None` if too many of its
    /// sessions are not written yet.
    pub(super) fn enter(
        &mut self,
        key: PublicKey,
        name: &StreamName,
        count: usize,
    ) -> Option<StreamName> {
        let all: Vec<StreamName> = (1..=count.max(1)).map(|at| name.in_place(at)).collect();
        let own = all
            .iter()
            .find(|place| self.0.get(*place).is_some_and(|(its, _)| *its == key))
            .or(all.iter().find(|place| !self.0.contains_key(*place)));
        // A stream whose session is over but not yet written is taken over.
        let place = own.unwrap_or(&all[0]).clone();
        let (its, open_count) = self.0.entry(place.clone()).or_insert((key, 0));
        if *open_count > MAX_WAITING {
            return None;
        }
        *its = key;
        *open_count += 1;
        Some(place)
    }

    /// Returns whether a stream has a session.
    pub(super) fn has(&self, place: &StreamName) -> bool {
        self.0.contains_key(place)
    }

    /// Ends a session of a stream, which is written completely.
    pub(super) fn leave(&mut self, place: &StreamName) {
        if let Some((_, open_count)) = self.0.get_mut(place) {
            *open_count -= 1;
            if *open_count == 0 {
                self.0.remove(place);
            }
        }
    }

    /// Gives senders the names of their streams.
    pub(super) fn rename(&self, all: &mut [Allowed]) {
        for (place, (key, _)) in &self.0 {
            let its = all.iter_mut().filter(|allowed| allowed.key == *key);
            its.for_each(|allowed| allowed.name = place.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    /// Begins a session of a sender of two. Returns its stream.
    fn enter(streams: &mut StreamsInUse, key: PublicKey) -> Option<String> {
        let place = streams.enter(key, &"crew".parse().unwrap(), 2)?;
        Some(place.as_str().to_owned())
    }

    #[test]
    fn each_present_sender_has_its_own_stream() {
        let keys: [PublicKey; 3] = core::array::from_fn(|_| SecretKey::generate().public_key());
        let name: StreamName = "crew".parse().unwrap();
        let mut streams = StreamsInUse::default();
        assert_eq!(enter(&mut streams, keys[0]).as_deref(), Some("crew"));
        assert_eq!(enter(&mut streams, keys[1]).as_deref(), Some("crew-2"));
        // The key's next session replaces its own.
        assert_eq!(enter(&mut streams, keys[1]).as_deref(), Some("crew-2"));
        streams.leave(&name.in_place(2));
        streams.leave(&name);
        assert_eq!(enter(&mut streams, keys[2]).as_deref(), Some("crew"));
        assert_eq!(enter(&mut streams, keys[1]).as_deref(), Some("crew-2"));
    }

    #[test]
    fn sessions_that_nobody_writes_do_not_pile_up() {
        let key = SecretKey::generate().public_key();
        let name: StreamName = "crew".parse().unwrap();
        let mut streams = StreamsInUse::default();
        let entered = (0..20).filter_map(|_| streams.enter(key, &name, 1));
        assert_eq!(entered.count(), MAX_WAITING + 1);
        streams.leave(&name);
        assert_eq!(streams.enter(key, &name, 1), Some(name));
    }
}
