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

    #[test]
    fn each_reason_has_a_line_and_floods_have_no_more() {
        let mut lines = RefusalLines::default();
        let mut line = |seconds, refused_sender: &RefusedSender| {
            lines.line(Instant::from_secs(seconds), refused_sender, |_| {
                "another sender has the output".to_owned()
            })
        };
        let key = || SecretKey::generate().public_key();
        let (peer, from) = (key(), "192.0.2.1:7000".parse().unwrap());
        let refused = |reason| RefusedSender::Refused { peer, reason };
        let printed = line(1, &refused(Refusal::NoPlace)).unwrap();
        assert!(printed.starts_with(&peer.to_string()), "{printed}");
        assert!(
            printed.ends_with("another sender has the output"),
            "{printed}"
        );
        assert_eq!(line(30, &refused(Refusal::NoPlace)), None);
        let printed = line(31, &refused(Refusal::NotCarried)).unwrap();
        assert!(printed.contains("another kind of session"), "{printed}");
        let printed = line(31, &RefusedSender::NotAllowed { peer, from }).unwrap();
        assert!(printed.contains("192.0.2.1:7000") && printed.contains("--allow"));
        let stranger = RefusedSender::NotAllowed { peer: key(), from };
        assert_eq!(line(32, &stranger), None, "one line for all strangers");
        let version = 9;
        let printed = line(32, &RefusedSender::OtherVersion { version, from }).unwrap();
        assert!(printed.contains("version 9"), "{printed}");
    }
}
