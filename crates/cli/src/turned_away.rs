//! Lines about senders that requested a session and got none, at most one for each every 30 s.

use std::collections::BTreeMap;

use anabranch_net::TurnedAway;
use anabranch_secure::{PublicKey, Refusal, VERSION};
use anabranch_units::{Duration, Instant};

/// Interval between two lines about the same sender, which asks every two seconds.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Times at which lines were printed: one for each allowed sender, one for all strangers together,
/// one for all programs of another version.
#[derive(Debug, Default)]
pub(crate) struct TurnedAwayNews(BTreeMap<Subject, Instant>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Peer(PublicKey),
    Strangers,
    OtherVersions,
}

impl TurnedAwayNews {
    /// Returns the line about a sender that was turned away, unless one was printed recently.
    /// `no_place` explains why an allowed sender has no place.
    pub(crate) fn line(
        &mut self,
        now: Instant,
        turned_away: &TurnedAway,
        no_place: impl FnOnce(&PublicKey) -> String,
    ) -> Option<String> {
        let subject = match turned_away {
            TurnedAway::Refused { peer, .. } => Subject::Peer(*peer),
            TurnedAway::NotAllowed { .. } | TurnedAway::WrongCode { .. } => Subject::Strangers,
            TurnedAway::OtherVersion { .. } => Subject::OtherVersions,
            _ => return None,
        };
        let told_at = self.0.get(&subject);
        if told_at.is_some_and(|at| now.saturating_since(*at) < TOLD_EVERY) {
            return None;
        }
        self.0.insert(subject, now);
        Some(match turned_away {
            TurnedAway::Refused {
                peer,
                reason: Refusal::NoPlace,
            } => format!("{peer} is not let in: {}", no_place(peer)),
            TurnedAway::Refused {
                peer,
                reason: Refusal::NotCarried,
            } => format!(
                "{peer} is not let in: it asks for another kind of session (`send` goes with \
                 `recv`, `proxy` with `serve`)"
            ),
            TurnedAway::NotAllowed { peer, from } => {
                format!("{peer} at {from} is not let in: no `--allow` has its key")
            }
            TurnedAway::WrongCode { peer, from } => format!(
                "{peer} at {from} is not let in: the code of its link is wrong, used or expired"
            ),
            TurnedAway::OtherVersion { version, from } => format!(
                "a program at {from} speaks protocol version {version}, this one version \
                 {VERSION}: install the same release at both ends"
            ),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn each_reason_has_a_line_and_floods_have_no_more() {
        let mut news = TurnedAwayNews::default();
        let mut line = |seconds, turned_away: &TurnedAway| {
            let no_place = |_: &PublicKey| "another sender has the output".to_owned();
            news.line(Instant::from_secs(seconds), turned_away, no_place)
        };
        let key = || SecretKey::generate().public_key();
        let (peer, from) = (key(), "192.0.2.1:7000".parse().unwrap());
        let refused = |reason| TurnedAway::Refused { peer, reason };
        let told = line(1, &refused(Refusal::NoPlace)).unwrap();
        assert!(told.starts_with(&peer.to_string()), "{told}");
        assert!(told.ends_with("another sender has the output"), "{told}");
        assert_eq!(line(30, &refused(Refusal::NoPlace)), None);
        let told = line(31, &refused(Refusal::NotCarried)).unwrap();
        assert!(told.contains("another kind of session"), "{told}");
        let told = line(31, &TurnedAway::NotAllowed { peer, from }).unwrap();
        assert!(told.contains("192.0.2.1:7000") && told.contains("--allow"));
        let stranger = TurnedAway::NotAllowed { peer: key(), from };
        assert_eq!(line(32, &stranger), None, "one line for all strangers");
        let version = 9;
        let told = line(32, &TurnedAway::OtherVersion { version, from }).unwrap();
        assert!(told.contains("version 9"), "{told}");
    }
}
