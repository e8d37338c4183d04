//! Lines about senders that requested a session and got none, at most one for each every 30 s.

use std::collections::BTreeMap;

use anabranch_net::RefusedSender;
use anabranch_secure::{PublicKey, Refusal, VERSION};
use anabranch_units::{Duration, Instant};

/// Interval between two lines about the same sender, which asks every two seconds.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Times at which lines were printed: one for each allowed sender, one for all strangers together,
/// one for all programs of another version.
#[derive(Debug, Default)]
pub(crate) struct RefusalLines(BTreeMap<Subject, Instant>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Peer(PublicKey),
    Strangers,
    OtherVersions,
}

impl RefusalLines {
    /// Returns the line about a sender that was turned away, unless one was printed recently.
    /// `no_place` explains why an allowed sender has no place.
    pub(crate) fn line(
        &mut self,
        now: Instant,
        refused_sender: &RefusedSender,
        no_place: impl FnOnce(&PublicKey) -> String,
    ) -> Option<String> {
        let subject = match refused_sender {
            RefusedSender::Refused { peer, .. } => Subject::Peer(*peer),
            RefusedSender::NotAllowed { .. } | RefusedSender::WrongCode { .. } => {
                Subject::Strangers
            }
            RefusedSender::OtherVersion { .. } => Subject::OtherVersions,
            _ => return None,
        };
        let reported_at = self.0.get(&subject);
        if reported_at.is_some_and(|at| now.saturating_since(*at) < LINE_INTERVAL) {
            return None;
        }
        self.0.insert(subject, now);
        Some(match refused_sender {
            RefusedSender::Refused {
                peer,
                reason: Refusal::NoPlace,
            } => format!("{peer} is not let in: {}", no_place(peer)),
            RefusedSender::Refused {
                peer,
                reason: Refusal::NotCarried,
            } => format!(
                "{peer} is not let in: it asks for another kind of session (`send` goes with \
                 `recv`, `proxy` with `serve`)"
            ),
            RefusedSender::NotAllowed { peer, from } => {
                format!("{peer} at {from} is not let in: no `--allow` has its key")
            }
            RefusedSender::WrongCode { peer, from } => format!(
                "{peer} at {from} is not let in: the code of its link is wrong, used or expired"
            ),
            RefusedSender::OtherVersion { version, from } => format!(
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

    fn key() -> PublicKey {
        SecretKey::generate().public_key()
    }

    /// Returns the line for a sender that is refused after some seconds.
    fn line(lines: &mut RefusalLines, seconds: u64, refused: &RefusedSender) -> Option<String> {
        lines.line(Instant::from_secs(seconds), refused, |_| {
            "another sender has the output".to_owned()
        })
    }

    #[test]
    fn each_reason_has_a_line_and_floods_have_no_more() {
        let mut lines = RefusalLines::default();
        let (peer, from) = (key(), "192.0.2.1:7000".parse().unwrap());
        let reason = Refusal::NoPlace;
        let without_place = RefusedSender::Refused { peer, reason };
        let printed = line(&mut lines, 1, &without_place).unwrap();
        assert!(printed.starts_with(&peer.to_string()), "{printed}");
        assert!(
            printed.ends_with("another sender has the output"),
            "{printed}"
        );
        assert_eq!(line(&mut lines, 30, &without_place), None);
        let reason = Refusal::NotCarried;
        let not_carried = RefusedSender::Refused { peer, reason };
        let printed = line(&mut lines, 31, &not_carried).unwrap();
        assert!(printed.contains("another kind of session"), "{printed}");
        let not_allowed = RefusedSender::NotAllowed { peer, from };
        let printed = line(&mut lines, 31, &not_allowed).unwrap();
        assert!(printed.contains("192.0.2.1:7000") && printed.contains("--allow"));
        let stranger = RefusedSender::NotAllowed { peer: key(), from };
        assert_eq!(
            line(&mut lines, 32, &stranger),
            None,
            "one line for all strangers"
        );
        let version = 9;
        let other_version = RefusedSender::OtherVersion { version, from };
        let printed = line(&mut lines, 32, &other_version).unwrap();
        assert!(printed.contains("version 9"), "{printed}");
    }
}
