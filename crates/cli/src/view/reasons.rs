//! Reasons for which bytes were sent, in words that need no explanation.

use anabranch_observe::status::Stream;
use anabranch_observe::words::REASONS;

/// Returns a line such as "sent bytes: new 97.1 %, reports 2.9 %", the greatest share first.
pub(crate) fn why_sent(stream: &Stream) -> String {
    let mut groups: Vec<(&str, f64)> = REASONS
        .iter()
        .map(|(words, reasons)| {
            let shares = reasons.iter().filter_map(|of| stream.sent_shares.get(*of));
            (*words, shares.sum::<f64>())
        })
        .filter(|(_, share)| *share > 0.0)
        .collect();
    if groups.is_empty() {
        return "sent bytes: none".to_owned();
    }
    groups.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let groups = groups
        .iter()
        .map(|(words, share)| format!("{words} {:.1} %", share * 100.0));
    format!("sent bytes: {}", groups.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
