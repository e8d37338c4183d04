//! Rules for callers, and places that are free.

use std::collections::BTreeMap;

use anabranch_srt::{ConnectionId, Rejection, Request, Settings, stream_names};
use anabranch_units::{Duration, Instant};

use super::live::Live;

/// Silence of a sender after which another one may take its place. Senders without media still send
/// a keepalive each second.
const SILENCE: Duration = Duration::from_secs(2);

/// Rules for callers.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The stream ID that callers must give; `None`: any.
    pub(crate) stream_id: Option<String>,
    pub(crate) settings: Settings,
    /// Maximum number of sessions at a time.
    pub(crate) max_sessions: usize,
}

impl Admission {
    /// Decides about a caller.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub(super) fn decide(
        &self,
        now: Instant,
        lives: &BTreeMap<ConnectionId, Live>,
        request: &Request,
    ) -> Result<Settings, Rejection> {
        if !self.expects(request.stream_id.as_deref()) {
            return Err(Rejection::NotFound);
        }
        let stream = self.stream_of(request);
        let mut count = 0;
        for live in lives.values().filter(|live| !gives_way(live, now)) {
            if live.is_of(stream) {
                return Err(Rejection::Conflict);
            }
            count += 1;
        }
        if count < self.max_sessions {
            Ok(self.settings.clone())
        } else {
            Err(Rejection::Resource)
        }
    }

    /// Returns the stream that a caller means: the expected one, or that of its ID.
    pub(super) fn stream_of<'a>(&'a self, request: &'a Request) -> Option<&'a str> {
        let expected = self.stream_id.as_deref();
        expected.or(request.stream_id.as_deref())
    }

    fn expects(&self, stream_id: Option<&str>) -> bool {
        self.stream_id.as_ref().is_none_or(|expected| {
            let names = stream_id.map(stream_names).unwrap_or_default();
            names.contains(expected)
        })
    }

    /// Returns the silent session that a new one of this stream replaces: its own, or the longest
    /// silent one if there are too many.
    pub(super) fn displaced(
        &self,
        now: Instant,
        lives: &BTreeMap<ConnectionId, Live>,
        stream: Option<&str>,
    ) -> Option<ConnectionId> {
        let all = lives.iter();
        let present: Vec<_> = all.filter(|(_, live)| !live.is_leaving()).collect();
        let own = present.iter().find(|(_, live)| live.is_of(stream));
        if own.is_some() || present.len() < self.max_sessions {
            return own.map(|(id, _)| **id);
        }
        let silent = present.iter().filter(|(_, live)| gives_way(live, now));
        let oldest = silent.min_by_key(|(_, live)| live.heard_at());
        oldest.map(|(id, _)| **id)
    }
}

/// Returns whether another session may take this one's place.
fn gives_way(live: &Live, now: Instant) -> bool {
    live.is_leaving() || now.saturating_since(live.heard_at()) >= SILENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stream_id: Option<&str>) -> Request {
        Request {
            caller: ([192, 0, 2, 1], 9).into(),
            stream_id: stream_id.map(str::to_owned),
            is_encrypted: false,
        }
    }

    fn admission(stream_id: Option<&str>, max_sessions: usize) -> Admission {
        Admission {
            stream_id: stream_id.map(str::to_owned),
            settings: Settings::default(),
            max_sessions,
        }
    }

    fn with(stream_id: Option<&str>, heard_at: Instant) -> BTreeMap<ConnectionId, Live> {
        let id = ConnectionId::default();
        let caller = request(stream_id).caller;
        let names = (stream_id.map(str::to_owned), "a name".to_owned());
        let (mut live, _) = Live::open(heard_at, (id, 0), names, caller);
        live.see(heard_at, false);
        BTreeMap::from([(id, live)])
    }

    #[test]
    fn only_the_expected_stream_is_let_in() {
        let rules = admission(Some("van"), 1);
        let nobody = BTreeMap::new();
        for (id, is_let_in) in [
            (Some("van"), true),
            (Some("#!::r=van,m=publish"), true),
            (Some("roof"), false),
            (None, false),
        ] {
            let decided = rules.decide(Instant::ZERO, &nobody, &request(id));
            assert_eq!(decided.is_ok(), is_let_in, "{id:?}");
        }
    }

    #[test]
    fn a_silent_session_gives_its_place_to_another() {
        let (began, later) = (Instant::from_secs(10), Instant::from_secs(12));
        let lives = with(Some("van"), began);
        let rules = admission(None, 2);
        let again = request(Some("van"));
        assert_eq!(
            rules.decide(began, &lives, &again),
            Err(Rejection::Conflict)
        );
        assert!(rules.decide(later, &lives, &again).is_ok());
        assert!(rules.displaced(later, &lives, Some("van")).is_some());
        let other = request(Some("roof"));
        assert!(rules.decide(began, &lives, &other).is_ok());
        assert_eq!(rules.displaced(began, &lives, Some("roof")), None);
        let single = admission(None, 1);
        assert_eq!(
            single.decide(began, &lives, &other),
            Err(Rejection::Resource)
        );
        assert!(single.decide(later, &lives, &other).is_ok());
        assert!(single.displaced(later, &lives, Some("roof")).is_some());
    }
}
