//! Limit of padding: a share of all bytes sent in the minute up to it.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Largest ratio of padding to other bytes over a minute: a tenth of all bytes is padding.
const SHARE: f64 = 1.0 / 9.0;
/// Share of the allowance that must be left for a probe to begin: half a probe shows nothing.
const LEFT_TO_BEGIN: f64 = 0.2;
/// Length of an entry.
const STEP: Duration = Duration::from_secs(1);
/// Number of entries, one of which has just begun: together they cover a minute at any time. In a
/// session's first minute, the bytes so far stand for the whole of it.
const STEPS: usize = 61;

/// Account of the bytes sent in the last minute, in steps of a second.
#[derive(Debug)]
pub(super) struct PaddingBudget {
    /// The user's limit.
    max_bytes: Option<u64>,
    steps: VecDeque<Step>,
    step_began_at: Instant,
    /// Sums of the steps.
    last_minute: Step,
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    other_bytes: u64,
    padding_bytes: u64,
}

impl PaddingBudget {
    /// Returns the account of a session without traffic. `max_bytes`: most padding a minute.
    pub(super) fn new(now: Instant, max_bytes: Option<u64>) -> Self {
        PaddingBudget {
            max_bytes,
            steps: VecDeque::from([Step::default()]),
            step_began_at: now,
            last_minute: Step::default(),
        }
    }

    /// Counts a packet that leaves.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u32, is_padding: bool) {
        self.advance(now);
        if let Some(newest) = self.steps.back_mut() {
            newest.add(bytes, is_padding);
        }
        self.last_minute.add(bytes, is_padding);
    }

    /// Returns whether a probe may begin.
    pub(super) fn may_begin(&self) -> bool {
        let kept = self.allowed_bytes() as f64 * (1.0 - LEFT_TO_BEGIN);
        (self.last_minute.padding_bytes as f64) < kept
    }

    /// Returns whether a probe may continue.
    pub(super) fn may_continue(&self) -> bool {
        self.last_minute.padding_bytes < self.allowed_bytes()
    }

    fn allowed_bytes(&self) -> u64 {
        let in_a_minute = self.last_minute.other_bytes * STEPS as u64 / self.steps.len() as u64;
        let allowed = (in_a_minute as f64 * SHARE) as u64;
        self.max_bytes.map_or(allowed, |most| allowed.min(most))
    }

    /// Begins the steps up to `now`, and drops those that are older than a minute.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.step_began_at);
        if elapsed < STEP {
            return;
        }
        let count = elapsed.as_millis() / STEP.as_millis();
        self.step_began_at += STEP * count;
        for _ in 0..count.min(STEPS as u64) {
            if self.steps.len() == STEPS
                && let Some(oldest) = self.steps.pop_front()
            {
                self.last_minute.other_bytes -= oldest.other_bytes;
                self.last_minute.padding_bytes -= oldest.padding_bytes;
            }
            self.steps.push_back(Step::default());
        }
        // After a pause the session is as new.
        while self.steps.len() > 1 && self.steps[0].is_empty() {
            self.steps.pop_front();
        }
    }
}

impl Step {
    fn add(&mut self, bytes: u32, is_padding: bool) {
        if is_padding {
            self.padding_bytes += u64::from(bytes);
        } else {
            self.other_bytes += u64::from(bytes);
        }
    }

    fn is_empty(&self) -> bool {
        self.other_bytes + self.padding_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    const PACKET: u32 = 1_400;

    /// Sends for five minutes at random rates, all padding that may leave in between. Returns the
    /// packets: milliseconds, whether it is padding.
    fn greedy(seed: u64, max_bytes: Option<u64>) -> Vec<(u64, bool)> {
        let mut rng = Seed(seed).rng();
        let mut budget = PaddingBudget::new(Instant::ZERO, max_bytes);
        let (mut sent, mut every) = (Vec::new(), 1);
        for millis in 0..300_000 {
            let now = Instant::from_millis(millis);
            if millis % 7_000 == 0 {
                every = 1 + rng.below(37);
            }
            if millis % every == 0 {
                budget.on_sent(now, PACKET, false);
                sent.push((millis, false));
            }
            if budget.may_continue() {
                budget.on_sent(now, PACKET, true);
                sent.push((millis, true));
            }
        }
        sent
    }

    /// Returns the bytes of padding and of all packets in the minute that ends with `last`.
    fn minute(sent: &[(u64, bool)], last: usize) -> (u64, u64) {
        let from = sent[last].0.saturating_sub(59_999);
        let packets = sent[..=last].iter().rev().take_while(|(at, _)| *at >= from);
        let padding = packets.clone().filter(|(_, is_padding)| *is_padding);
        let bytes = u64::from(PACKET);
        (
            padding.count() as u64 * bytes,
            packets.count() as u64 * bytes,
        )
    }

    #[test]
    fn no_minute_that_ends_with_padding_has_more_than_its_share() {
        for seed in 0..4 {
            let sent = greedy(seed, None);
            // The first minutes are granted by their rate at the time.
            let first = sent.partition_point(|(at, _)| *at < 121_000);
            let ends = (first..sent.len()).filter(|at| sent[*at].1);
            for last in ends.step_by(997) {
                let (padding, all) = minute(&sent, last);
                // The account's minute is up to a second longer, with a second's bytes more.
                let second = 2_000 * u64::from(PACKET);
                let allowed = (all + second) / 10 + u64::from(PACKET);
                assert!(padding <= allowed, "seed {seed}: {padding} of {all} B");
            }
        }
    }

    #[test]
    fn the_users_limit_holds_where_it_is_lower() {
        let sent = greedy(1, Some(50_000));
        for last in (0..sent.len()).step_by(997) {
            assert!(minute(&sent, last).0 <= 50_000 + u64::from(PACKET));
        }
        assert!(!PaddingBudget::new(Instant::ZERO, Some(0)).may_begin());
    }

    #[test]
    fn a_probe_begins_with_a_fifth_of_the_allowance_left() {
        let mut budget = PaddingBudget::new(Instant::ZERO, Some(100_000));
        assert!(!budget.may_begin(), "nothing has been sent");
        budget.on_sent(Instant::ZERO, 1_000_000, false);
        budget.on_sent(Instant::ZERO, 79_000, true);
        assert!(budget.may_begin());
        budget.on_sent(Instant::ZERO, 2_000, true);
        assert!(!budget.may_begin() && budget.may_continue());
        budget.on_sent(Instant::ZERO, 19_000, true);
        assert!(!budget.may_continue());
        // It is of the past a minute later, and after any pause.
        budget.on_sent(Instant::from_secs(61), 1_000_000, false);
        assert!(budget.may_begin());
        budget.on_sent(Instant::from_secs(86_400), 1_000, false);
        assert_eq!(budget.steps.len(), 1);
    }
}
