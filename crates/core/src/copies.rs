//! The one rule about another copy of data that has left, a fragment of media or a segment of a
//! stream, and the account of such copies.
//!
//! Another copy is sent if three conditions hold. The copies in flight are too uncertain, no later
//! moment would do, and a path delivers it by the deadline. Data without a deadline has the time at
//! which its copies in flight are expected instead.
//!
//! Reasons to ask: a loss; a path that is out, suspect or congested; an overdue acknowledgement; a
//! tail; a new session; a full window of the peer; a viewer with little left to play. They decide
//! which copies count, and when those are expected.

use anabranch_units::{Duration, Instant};

/// Share of the data that copies of data not overdue may take (decision 199).
const COPY_SHARE: f64 = 0.05;
/// Bytes of such copies that media may save up, and that a new session has. More delay the next
/// frames (decision 199).
const MEDIA_BYTES: f64 = 20_000.0;
/// The same of a stream. A tail is copied when nothing else is to be sent: it may be all that a
/// path holds. With the bytes of media, 1 MB takes up to 1.6 times as long as over the better path
/// alone.
const STREAM_BYTES: f64 = 131_072.0;

/// Prospects of a fragment that has left, by the paths' forecasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    pub(crate) now: Instant,
    /// Probability that one of the copies in flight arrives in time.
    pub(crate) chance: f64,
    /// Time until the outcomes of the copies in flight are known.
    pub(crate) known_after: Duration,
    /// Time until another copy arrives that leaves now.
    pub(crate) arrives_after: Duration,
    /// Possible excess over this time.
    pub(crate) delay_margin: Duration,
    /// Time until the loss of another copy would be reported.
    pub(crate) loss_reported_after: Duration,
}

/// Answer of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The copies in flight suffice.
    Enough,
    /// No path delivers another copy in time.
    TooLate,
    /// A copy that leaves when the outcomes are known arrives in time.
    LaterWillDo,
    Send,
}

impl Outlook {
    /// The rule for data with a deadline. `enough` is the sufficient probability.
    pub(crate) fn judge(&self, due_at: Instant, is_useful_late: bool, enough: f64) -> Judgement {
        let arrives_at = self.now + self.arrives_after;
        if self.chance >= enough {
            Judgement::Enough
        } else if arrives_at > due_at && !is_useful_late {
            Judgement::TooLate
        } else if self.chance > 0.0 && arrives_at + self.known_after <= due_at {
            Judgement::LaterWillDo
        } else {
            Judgement::Send
        }
    }
}

/// The rule for data without a deadline, by a path that delivers it after `arrives_after`: however
/// probable its copies in flight are, another one may come earlier. `expected`: time until they
/// arrive; `None` if none counts.
pub(crate) fn is_worth_sending(expected: Option<Duration>, arrives_after: Duration) -> bool {
    expected.is_none_or(|expected| arrives_after < expected)
}

/// Account of copies of data that is not overdue: a share of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAllowance {
    bytes: f64,
    max_bytes: f64,
}

impl CopyAllowance {
    pub(crate) const MEDIA: CopyAllowance = CopyAllowance::of(MEDIA_BYTES);
    pub(crate) const STREAM: CopyAllowance = CopyAllowance::of(STREAM_BYTES);

    const fn of(max_bytes: f64) -> Self {
        CopyAllowance {
            bytes: max_bytes,
            max_bytes,
        }
    }

    /// Adds the share of `bytes` bytes of new data.
    pub(crate) fn earn(&mut self, bytes: u64) {
        let earned = bytes as f64 * COPY_SHARE;
        self.bytes = (self.bytes + earned).min(self.max_bytes);
    }

    /// Returns whether `bytes` bytes of copies are covered.
    pub(crate) fn covers(&self, bytes: u64) -> bool {
        self.bytes >= bytes as f64
    }

    /// Pays for a copy, which must be covered.
    pub(crate) fn pay(&mut self, bytes: u64) {
        debug_assert!(self.covers(bytes));
        self.bytes -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_secs(1);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn media(chance: f64, known: u64, arrives: u64) -> Judgement {
        let outlook = Outlook {
            now: NOW,
            chance,
            known_after: ms(known),
            arrives_after: ms(arrives),
            delay_margin: Duration::ZERO,
            loss_reported_after: Duration::ZERO,
        };
        outlook.judge(NOW + ms(100), false, 0.999)
    }

    #[test]
    fn with_a_deadline_the_last_moment_of_an_uncertain_fragment_is_now() {
        assert_eq!(media(0.999, 0, 0), Judgement::Enough);
        assert_eq!(media(0.9, 0, 101), Judgement::TooLate);
        assert_eq!(media(0.9, 60, 40), Judgement::LaterWillDo);
        assert_eq!(media(0.9, 61, 40), Judgement::Send);
        assert_eq!(media(0.0, 0, 40), Judgement::Send);
    }

    #[test]
    fn without_a_deadline_another_copy_must_be_earlier_than_those_in_flight() {
        assert!(is_worth_sending(Some(ms(50)), ms(49)));
        assert!(!is_worth_sending(Some(ms(50)), ms(50)));
        assert!(is_worth_sending(None, ms(9_999)), "none is in flight");
    }

    #[test]
    fn copies_take_a_twentieth_of_the_data_and_20_kb_at_once() {
        let mut allowance = CopyAllowance::MEDIA;
        allowance.earn(1_000_000);
        allowance.pay(20_000);
        allowance.earn(19_999);
        assert!(!allowance.covers(1_000));
        allowance.earn(2);
        assert!(allowance.covers(1_000));
    }
}
