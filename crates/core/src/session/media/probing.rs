//! Amount of padding that a session with an adaptive source sends to probe for bandwidth.
//!
//! Controllers ask for padding in each of their probes, whatever they learn by it. While a network
//! is new or changes, they get it, up to a share of the last minute's bytes. Once it is steady,
//! padding has to be earned by media, and is not sent for an encoder that does not use the target
//! that it has.

use anabranch_units::{DataRate, Duration, Instant};

use super::padding_budget::PaddingBudget;
use super::standby::Standby;
use crate::config::{PaddingPolicy, SourceLimits};
use crate::path::Path;
use crate::path_view::{PathId, PathState};

/// Padding in proportion to media on a steady network: 2.4 % of all bytes. Chosen below the 3 %
/// that a user accepts; a probe of `live-bbr` then comes every 28 round trips instead of 8.
const EARNED_SHARE: f64 = 0.025;
/// Time for which a network counts as new after its last change: a dozen probes at 100 ms.
const LEARNING_PERIOD: Duration = Duration::from_secs(10);
/// Factor by which the rate of all paths must change to count as a change of the network. Steady
/// estimates vary by less than 1.1.
const CHANGE: f64 = 1.15;
/// Least share of the target that an encoder uses if it follows: rate control and room for sound
/// make it fall short by up to a quarter.
const USED_SHARE: f64 = 0.7;
/// Span over which the media's rate is measured; the larger of the last two counts.
const SPAN: Duration = Duration::from_secs(1);

/// Circumstances by which padding is wanted or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need<'a> {
    pub(super) policy: PaddingPolicy,
    pub(super) source: SourceLimits,
    /// The encoder's target.
    pub(super) target: DataRate,
    pub(super) paths: &'a [Path],
    pub(super) standby: &'a Standby,
}

/// The account of padding.
#[derive(Debug)]
pub(super) struct Probing {
    learns_until: Instant,
    is_learning: bool,
    /// Rate of all paths at the last change.
    reference: DataRate,
    /// Bytes of padding that may be sent; negative: that were sent in advance.
    credit: f64,
    budget: PaddingBudget,
    span_began_at: Instant,
    span_bytes: u64,
    media_rate_before: DataRate,
    media_rate: DataRate,
}

impl Probing {
    pub(super) fn new(now: Instant, max_bytes_per_minute: Option<u64>) -> Self {
        Probing {
            learns_until: now + LEARNING_PERIOD,
            is_learning: true,
            reference: DataRate::ZERO,
            credit: 0.0,
            budget: PaddingBudget::new(now, max_bytes_per_minute),
            span_began_at: now,
            span_bytes: 0,
            media_rate_before: DataRate::ZERO,
            media_rate: DataRate::ZERO,
        }
    }

    /// Counts a frame of the source.
    pub(super) fn on_frame(&mut self, now: Instant, bytes: usize) {
        let elapsed = now.saturating_since(self.span_began_at);
        if elapsed >= SPAN {
            self.media_rate_before = self.media_rate;
            self.media_rate = DataRate::from_bytes_per(self.span_bytes, elapsed);
            (self.span_began_at, self.span_bytes) = (now, 0);
        }
        self.span_bytes += bytes as u64;
    }

    /// Returns the rate of the source over the last span that is over.
    pub(super) fn media_rate(&self) -> DataRate {
        self.media_rate
    }

    /// Records the rate of all paths.
    pub(super) fn on_rate(&mut self, now: Instant, rate: DataRate) {
        let [rate_bits, reference] =
            [rate, self.reference].map(|rate| rate.bits_per_second() as f64);
        if rate_bits > reference * CHANGE || rate_bits * CHANGE < reference {
            self.reference = rate;
            self.on_change(now);
        }
    }

    /// The network has changed.
    pub(super) fn on_change(&mut self, now: Instant) {
        self.learns_until = now + LEARNING_PERIOD;
        self.is_learning = true;
        self.credit = 0.0;
    }

    /// Counts a packet that leaves.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u32, is_padding: bool) {
        self.budget.on_sent(now, bytes, is_padding);
        self.is_learning = now < self.learns_until;
        if self.is_learning {
            return;
        }
        if is_padding {
            self.credit -= f64::from(bytes);
        } else if self.credit < 0.0 {
            // Credit does not add up: more probes later would be of no use.
            self.credit += f64::from(bytes) * EARNED_SHARE;
        }
    }

    /// Returns when padding is due on a path; `None` while none is wanted.
    pub(super) fn padding_due_at(&self, need: &Need<'_>, id: PathId) -> Option<Instant> {
        let (path, policy) = (&need.paths[id.index()], need.policy);
        // Volume costs money there: only a user who is greedy on purpose pays for padding.
        if need.standby.has_metered()
            && path.is_metered()
            && (policy != PaddingPolicy::Always || need.standby.is_standby(need.paths, id))
        {
            return None;
        }
        let is_useful = policy == PaddingPolicy::Always
            || self.may_probe(need, path) && self.is_more_bandwidth_useful(need);
        path.padding_due_at(policy, is_useful)
    }

    /// Whether a path's probe may cost padding. Users with a cap pay for padding, so a capped path
    /// is probed only if no other carries the stream.
    fn may_probe(&self, need: &Need<'_>, path: &Path) -> bool {
        if need.policy != PaddingPolicy::Earned {
            return true;
        }
        let is_spared = path.is_capped()
            && need.paths.iter().any(|other| {
                let is_gone = matches!(other.state(), PathState::Out | PathState::Removed);
                other.id != path.id && !other.is_capped() && !is_gone
            });
        !is_spared && (path.is_padded && self.budget.may_continue() || self.may_begin())
    }

    /// Returns whether more bandwidth than the estimate would be of use.
    fn is_more_bandwidth_useful(&self, need: &Need<'_>) -> bool {
        match need.source {
            SourceLimits::Adaptive { max, .. } if need.target < max => {
                need.policy != PaddingPolicy::Earned
                    || self.is_target_used(need.target)
                    || need.standby.is_unmetered_bandwidth_wanted()
            }
            _ => need.standby.is_unmetered_bandwidth_wanted(),
        }
    }

    /// Whether a probe may begin. One that has begun may go on: half of it would show nothing.
    fn may_begin(&self) -> bool {
        (self.is_learning || self.credit >= 0.0) && self.budget.may_begin()
    }

    /// Whether the encoder uses the target, so that it would use a higher one.
    fn is_target_used(&self, target: DataRate) -> bool {
        let media_rate = self.media_rate.max(self.media_rate_before);
        self.is_learning || media_rate >= target.mul_f64(USED_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: DataRate = DataRate::from_megabits_per_second(2);

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn a_network_that_changes_is_learnt_and_a_steady_one_costs_little() {
        let mut probing = Probing::new(at(0), None);
        probing.on_rate(at(0), RATE);
        probing.on_sent(at(9), 1_000_000, false);
        probing.on_sent(at(9), 100_000, true);
        assert!(probing.may_begin(), "it is new");
        let mut padding = 0;
        for second in 10..70 {
            for _ in 0..100 {
                probing.on_sent(at(second), 1_250, false);
                // Four packets are a probe.
                for _ in 0..4 * u64::from(probing.may_begin()) {
                    probing.on_sent(at(second), 1_250, true);
                    padding += 1_250;
                }
            }
            probing.on_rate(at(second), RATE.mul_f64(1.0 + 0.1 * (second % 2) as f64));
        }
        let share = padding as f64 / (60.0 * 125_000.0 + padding as f64);
        assert!((0.02..0.03).contains(&share), "{share}");
        probing.on_sent(at(70), 50_000, true);
        assert!(!probing.may_begin());
        probing.on_rate(at(71), RATE.mul_f64(0.5));
        assert!(probing.may_begin(), "it has changed");
    }

    #[test]
    fn an_encoder_that_uses_less_than_its_target_is_not_probed_for() {
        let mut probing = Probing::new(at(0), None);
        for number in 0..20 * 25 {
            let now = Instant::from_millis(number * 40);
            probing.on_frame(now, 5_000);
            probing.on_sent(now, 5_000, false);
        }
        // 1 Mbit/s.
        assert!(probing.is_target_used(RATE.mul_f64(0.6)));
        assert!(!probing.is_target_used(RATE));
        probing.on_change(at(20));
        assert!(probing.is_target_used(RATE), "the network is new");
    }
}
