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
        let is_its = |place: &&StreamName| self.0.get(*place).is_some_and(|(its, _)| *its == key);
        let own = all
            .iter()
            .find(is_its)
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

    #[test]
    fn each_present_sender_has_its_own_stream() {
        let keys: [PublicKey; 3] = core::array::from_fn(|_| SecretKey::generate().public_key());
        let name: StreamName = "crew".parse().unwrap();
        let mut streams = StreamsInUse::default();
        let enter = |streams: &mut StreamsInUse, at: usize| {
            let place = streams.enter(keys[at], &name, 2);
            place.map(|place| place.as_str().to_owned())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(enter(&mut streams, 0), some("crew"));
        assert_eq!(enter(&mut streams, 1), some("crew-2"));
        // The key's next session replaces its own.
        assert_eq!(enter(&mut streams, 1), some("crew-2"));
        streams.leave(&name.in_place(2));
        streams.leave(&name);
        assert_eq!(enter(&mut streams, 2), some("crew"));
        assert_eq!(enter(&mut streams, 1), some("crew-2"));
    }

    #[test]
    fn sessions_that_nobody_writes_do_not_pile_up() {
        let key = SecretKey::generate().public_key();
        let name: StreamName = "crew".parse().unwrap();
        let mut streams = StreamsInUse::default();
        let entered = (0..20).filter(|_| streams.enter(key, &name, 1).is_some());
        assert_eq!(entered.count(), MAX_WAITING + 1);
        streams.leave(&name);
        assert_eq!(streams.enter(key, &name, 1), Some(name));
    }
}
