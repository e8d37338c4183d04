//! Reasons for which bytes were sent, in words that need no explanation.

use anabranch_observe::status::Stream;

/// Words and the reasons that they cover, by their names in reports.
const GROUPS: [(&str, &[&str]); 9] = [
    ("new", &["new"]),
    (
        "again after a loss",
        &[
            "lost",
            "not-recovered",
            "retransmission-timeout",
            "tail-loss-probe",
        ],
    ),
    (
        "again by another path",
        &["path-suspect", "path-out", "path-removed"],
    ),
    (
        "again to be in time",
        &[
            "path-congested",
            "last-try",
            "last-try-same-path",
            "last-call",
            "reinjection",
        ],
    ),
    ("twice by plan", &["duplicate"]),
    ("repairs", &["repair"]),
    (
        "tests of the paths",
        &["path-challenge", "idle-probe", "mtu-probe"],
    ),
    ("padding", &["padding"]),
    ("reports", &["control"]),
];

/// Returns a line such as "sent bytes: new 97.1 %, reports 2.9 %", the greatest share first.
pub(crate) fn why_sent(stream: &Stream) -> String {
    let groups = GROUPS.iter().map(|(words, reasons)| {
        let shares = reasons.iter().filter_map(|of| stream.sent_shares.get(*of));
        (*words, shares.sum::<f64>())
    });
    let mut groups: Vec<(&str, f64)> = groups.filter(|(_, share)| *share > 0.0).collect();
    if groups.is_empty() {
        return "sent bytes: none".to_owned();
    }
    groups.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let groups = groups.iter();
    let groups = groups.map(|(words, share)| format!("{words} {:.1} %", share * 100.0));
    format!("sent bytes: {}", groups.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use anabranch_core::SendReason;

    use super::*;

    #[test]
    fn every_reason_has_its_words() {
        let known: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, of)| of.iter().copied())
            .collect();
        assert_eq!(known.len(), SendReason::ALL.len());
        for reason in SendReason::ALL {
            assert!(known.contains(&reason.name()), "{reason}");
        }
    }

    #[test]
    fn shares_of_one_meaning_are_summed_and_the_greatest_comes_first() {
        let shares = [("control", 0.1), ("path-out", 0.1), ("path-suspect", 0.2)];
        let shares = [("new", 0.6)].into_iter().chain(shares);
        let stream = Stream {
            sent_shares: shares.map(|(of, share)| (of.to_owned(), share)).collect(),
            ..Stream::default()
        };
        let expected = "sent bytes: new 60.0 %, again by another path 30.0 %, reports 10.0 %";
        assert_eq!(why_sent(&stream), expected);
        assert_eq!(why_sent(&Stream::default()), "sent bytes: none");
    }
}
