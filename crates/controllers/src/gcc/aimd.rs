//! The delay-based rate `A_r`: it increases while the path is not overused, and decreases to a
//! share of the received rate (draft §5.5; WebRTC).

use anabranch_units::{Duration, Instant};

use super::overuse::Usage;

/// `eta`: growth in a second.
const GROWTH_PER_SECOND: f64 = 1.08;
/// Least increase at once, bit/s.
const MIN_INCREASE: f64 = 1_000.0;
/// Additive increase in a second, at least, bit/s (WebRTC).
const MIN_ADDITIVE_PER_SECOND: f64 = 4_000.0;
/// Bound of the rate: this multiple of the received rate …
const MAX_OVER_RECEIVED: f64 = 1.5;
/// … plus this margin, in bit/s (WebRTC).
const RECEIVED_MARGIN: f64 = 10_000.0;
/// Response time of the detector, added to the round-trip time.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);
const FRAMES_PER_SECOND: f64 = 30.0;
/// An expected packet, bits.
const PACKET_BITS: f64 = 9_600.0;
/// Weight of a new maximum in the average, and distance from it, in deviations, within which rates
/// are near it.
const CAPACITY_WEIGHT: f64 = 0.05;
const NEAR_DEVIATIONS: f64 = 3.0;
/// Bounds of the mean's variance, normalised by the mean, kbit/s (WebRTC).
const MIN_CAPACITY_VARIANCE: f64 = 0.4;
const MAX_CAPACITY_VARIANCE: f64 = 2.5;
/// Bounds of the round-trip time after which a further decrease may follow.
const MIN_DECREASE_INTERVAL: Duration = Duration::from_millis(10);
const MAX_DECREASE_INTERVAL: Duration = Duration::from_millis(200);
/// Share of the rate below which the received rate allows a decrease at once.
const FAR_BELOW: f64 = 0.5;

/// The state of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AimdState {
    Hold,
    Increase,
    Decrease,
}

/// Differences between the draft and WebRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Draft,
    WebRtc,
}

/// Mean and variance of the received rates when the path was overused.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkCapacity {
    mean_kilobits: Option<f64>,
    /// Normalised by the mean.
    variance: f64,
}

impl LinkCapacity {
    const UNKNOWN: LinkCapacity = LinkCapacity {
        mean_kilobits: None,
        variance: MIN_CAPACITY_VARIANCE,
    };

    fn on_overuse(&mut self, received: f64) {
        let sample = received / 1e3;
        let mean = match self.mean_kilobits {
            None => sample,
            Some(mean) => mean + CAPACITY_WEIGHT * (sample - mean),
        };
        self.mean_kilobits = Some(mean);
        let error = mean - sample;
        let variance = (1.0 - CAPACITY_WEIGHT) * self.variance
            + CAPACITY_WEIGHT * error * error / mean.max(1.0);
        self.variance = variance.clamp(MIN_CAPACITY_VARIANCE, MAX_CAPACITY_VARIANCE);
    }

    /// Returns the range of rates near the capacity, bit/s.
    fn near(&self) -> Option<(f64, f64)> {
        self.mean_kilobits.map(|mean| {
            let reach = NEAR_DEVIATIONS * (self.variance * mean).sqrt();
            ((mean - reach) * 1e3, (mean + reach) * 1e3)
        })
    }
}

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
pub(super) struct Aimd {
    rules: Rules,
    /// Share of the received rate that remains after a decrease.
    backoff: f64,
    min_rate: f64,
    max_rate: f64,
    /// `A_r`, bit/s.
    pub(super) rate: f64,
    pub(super) state: AimdState,
    capacity: LinkCapacity,
    changed_at: Option<Instant>,
}

impl Aimd {
    pub(super) fn new(
        rules: Rules,
        backoff: f64,
        initial_rate: f64,
        min_rate: f64,
        max_rate: f64,
    ) -> Self {
        Aimd {
            rules,
            backoff,
            min_rate,
            max_rate,
            rate: initial_rate.clamp(min_rate, max_rate),
            state: match rules {
                Rules::Draft => AimdState::Increase,
                Rules::WebRtc => AimdState::Hold,
            },
            capacity: LinkCapacity::UNKNOWN,
            changed_at: None,
        }
    }

    /// Sets the rate that a probe has found.
    pub(super) fn set_rate(&mut self, now: Instant, rate: f64) {
        self.rate = rate.clamp(self.min_rate, self.max_rate);
        self.changed_at = Some(now);
    }

    /// Updates the rate after a report. `received` is the received rate, if known.
    pub(super) fn update(
        &mut self,
        now: Instant,
        usage: Usage,
        received: Option<f64>,
        rtt: Duration,
    ) {
        self.change_state(now, usage);
        match (self.state, received) {
            (AimdState::Hold, _) => {}
            (AimdState::Increase, Some(received)) => self.increase(now, received, rtt),
            // Without a received rate the rate stays.
            (AimdState::Increase, None) => self.changed_at = Some(now),
            (AimdState::Decrease, Some(received)) => self.decrease(now, received, rtt),
            (AimdState::Decrease, None) => self.halve(now, rtt),
        }
    }

    fn change_state(&mut self, now: Instant, usage: Usage) {
        self.state = match (usage, self.state) {
            (Usage::Overuse, _) => AimdState::Decrease,
            (Usage::Underuse, _) => AimdState::Hold,
            (Usage::Normal, AimdState::Hold) => {
                self.changed_at = Some(now);
                AimdState::Increase
            }
            (Usage::Normal, AimdState::Increase) => AimdState::Increase,
            (Usage::Normal, AimdState::Decrease) => AimdState::Hold,
        };
    }

    fn increase(&mut self, now: Instant, received: f64, rtt: Duration) {
        if self
            .capacity
            .near()
            .is_some_and(|(_, high)| received > high)
        {
            self.capacity = LinkCapacity::UNKNOWN;
        }
        let elapsed = now.saturating_since(self.changed_at.replace(now).unwrap_or(now));
        let limit = match self.rules {
            Rules::Draft => MAX_OVER_RECEIVED * received,
            Rules::WebRtc => MAX_OVER_RECEIVED * received + RECEIVED_MARGIN,
        };
        if self.rate >= limit {
            return;
        }
        let increase = if self.capacity.mean_kilobits.is_some() {
            self.additive(elapsed, rtt)
        } else {
            let growth = libm::pow(GROWTH_PER_SECOND, elapsed.as_secs_f64().min(1.0));
            (self.rate * (growth - 1.0)).max(MIN_INCREASE)
        };
        self.rate = (self.rate + increase)
            .min(limit)
            .clamp(self.min_rate, self.max_rate);
    }

    fn additive(&self, elapsed: Duration, rtt: Duration) -> f64 {
        let response_seconds = (rtt + RESPONSE_MARGIN).as_secs_f64();
        let frame_bits = self.rate / FRAMES_PER_SECOND;
        let packet_bits = frame_bits / libm::ceil(frame_bits / PACKET_BITS).max(1.0);
        let elapsed_seconds = elapsed.as_secs_f64();
        match self.rules {
            Rules::Draft => {
                let share = 0.5 * (elapsed_seconds / response_seconds).min(1.0);
                (share * packet_bits).max(MIN_INCREASE)
            }
            // Twice the response time, as with the adaptive threshold.
            Rules::WebRtc => {
                let per_second = packet_bits / (2.0 * response_seconds);
                elapsed_seconds.min(1.0) * per_second.max(MIN_ADDITIVE_PER_SECOND)
            }
        }
    }

    /// Whether a decrease may follow the last one.
    fn may_decrease(&self, now: Instant, received: f64, rtt: Duration) -> bool {
        let interval = rtt.clamp(MIN_DECREASE_INTERVAL, MAX_DECREASE_INTERVAL);
        self.changed_at.is_none_or(|at| at + interval <= now) || received < FAR_BELOW * self.rate
    }

    fn decrease(&mut self, now: Instant, received: f64, rtt: Duration) {
        if !self.may_decrease(now, received, rtt) {
            return;
        }
        let mut decreased = self.backoff * received;
        if decreased > self.rate
            && let Some(mean) = self.capacity.mean_kilobits
        {
            decreased = self.backoff * mean * 1e3;
        }
        if self.capacity.near().is_some_and(|(low, _)| received < low) {
            self.capacity = LinkCapacity::UNKNOWN;
        }
        self.capacity.on_overuse(received);
        self.rate = decreased.min(self.rate).max(self.min_rate);
        self.changed_at = Some(now);
        if self.rules == Rules::WebRtc {
            self.state = AimdState::Hold;
        }
    }

    /// Halves the rate if the path is overused before a received rate is known (WebRTC).
    fn halve(&mut self, now: Instant, rtt: Duration) {
        if self.may_decrease(now, f64::INFINITY, rtt) {
            self.rate = (self.rate / 2.0).max(self.min_rate);
            self.changed_at = Some(now);
        }
    }

    /// Scales the rate by this factor after silence.
    pub(super) fn scale(&mut self, now: Instant, factor: f64) {
        self.rate = (self.rate * factor).max(self.min_rate);
        self.changed_at = Some(now);
    }

    /// Forgets the capacity, which may have changed.
    pub(super) fn forget_capacity(&mut self) {
        self.capacity = LinkCapacity::UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn aimd(rules: Rules) -> Aimd {
        Aimd::new(rules, 0.85, 1e6, 5e4, 1e9)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}, {expected}");
    }

    #[test]
    fn draft_5_5_states() {
        use AimdState::{Decrease, Hold, Increase};
        let mut aimd = aimd(Rules::Draft);
        assert_eq!(aimd.state, Increase);
        for (before, usage, after) in [
            (Hold, Usage::Overuse, Decrease),
            (Hold, Usage::Normal, Increase),
            (Hold, Usage::Underuse, Hold),
            (Increase, Usage::Overuse, Decrease),
            (Increase, Usage::Normal, Increase),
            (Increase, Usage::Underuse, Hold),
            (Decrease, Usage::Overuse, Decrease),
            (Decrease, Usage::Normal, Hold),
            (Decrease, Usage::Underuse, Hold),
        ] {
            aimd.state = before;
            aimd.change_state(at(0), usage);
            assert_eq!(aimd.state, after);
        }
        assert_eq!(self::aimd(Rules::WebRtc).state, Hold);
    }

    #[test]
    fn draft_5_5_multiplicative_increase_is_eight_percent_in_a_second() {
        let mut aimd = aimd(Rules::WebRtc);
        aimd.update(at(0), Usage::Normal, Some(1e6), RTT);
        let start = aimd.rate;
        aimd.update(at(500), Usage::Normal, Some(1e6), RTT);
        near(aimd.rate, start * libm::pow(1.08, 0.5));
        let half = aimd.rate;
        aimd.update(at(9_000), Usage::Normal, Some(1e6), RTT);
        near(aimd.rate, half * 1.08);
    }

    #[test]
    fn draft_5_5_rate_is_at_most_1_5_times_the_received() {
        for (rules, limit) in [(Rules::Draft, 0.75e6), (Rules::WebRtc, 0.76e6)] {
            let mut aimd = aimd(rules);
            aimd.rate = 0.74e6;
            for second in 0..9 {
                aimd.update(at(1_000 * second), Usage::Normal, Some(0.5e6), RTT);
            }
            near(aimd.rate, limit);
            // The bound holds increases only.
            aimd.rate = 2e6;
            aimd.update(at(10_000), Usage::Normal, Some(0.5e6), RTT);
            near(aimd.rate, 2e6);
        }
    }

    #[test]
    fn draft_5_5_decrease_is_a_share_of_the_received_rate() {
        let mut aimd = aimd(Rules::WebRtc);
        aimd.update(at(0), Usage::Overuse, Some(0.9e6), RTT);
        near(aimd.rate, 0.85 * 0.9e6);
        assert_eq!(aimd.state, AimdState::Hold);
        // Once a round-trip time.
        aimd.update(at(90), Usage::Overuse, Some(0.7e6), RTT);
        near(aimd.rate, 0.85 * 0.9e6);
        aimd.update(at(110), Usage::Overuse, Some(0.7e6), RTT);
        near(aimd.rate, 0.85 * 0.7e6);
        // Earlier if far less arrives; never upwards.
        aimd.update(at(120), Usage::Overuse, Some(0.2e6), RTT);
        near(aimd.rate, 0.85 * 0.2e6);
        aimd.update(at(400), Usage::Overuse, Some(5e6), RTT);
        assert!(aimd.rate <= 0.85 * 0.2e6);
    }

    #[test]
    fn draft_5_5_increase_near_the_capacity_is_additive() {
        let mut aimd = aimd(Rules::WebRtc);
        aimd.update(at(0), Usage::Overuse, Some(1e6), RTT);
        aimd.update(at(200), Usage::Normal, Some(0.9e6), RTT);
        let start = aimd.rate;
        aimd.update(at(700), Usage::Normal, Some(0.9e6), RTT);
        // A frame of 28.3 kbit is three packets; 2 × 200 ms a packet.
        near(aimd.rate, start + 0.5 * (start / 30.0 / 3.0) / 0.4);

        let mut aimd = self::aimd(Rules::Draft);
        aimd.update(at(0), Usage::Overuse, Some(1e6), RTT);
        aimd.update(at(100), Usage::Normal, Some(0.9e6), RTT);
        aimd.update(at(200), Usage::Normal, Some(0.9e6), RTT);
        let start = aimd.rate;
        aimd.update(at(300), Usage::Normal, Some(0.9e6), RTT);
        near(aimd.rate, start + 0.5 * 0.5 * (start / 30.0 / 3.0));
    }

    #[test]
    fn draft_5_5_more_than_the_capacity_forgets_it() {
        let mut aimd = aimd(Rules::WebRtc);
        aimd.update(at(0), Usage::Overuse, Some(1e6), RTT);
        // 3 √(0.4 · 1000) = 60 kbit/s.
        aimd.update(at(200), Usage::Normal, Some(1.05e6), RTT);
        assert!(aimd.capacity.mean_kilobits.is_some());
        aimd.update(at(300), Usage::Normal, Some(1.07e6), RTT);
        assert!(aimd.capacity.mean_kilobits.is_none());
    }

    #[test]
    fn capacity_is_a_slow_mean_with_a_bounded_variance() {
        let mut capacity = LinkCapacity::UNKNOWN;
        capacity.on_overuse(1e6);
        capacity.on_overuse(1.1e6);
        near(capacity.mean_kilobits.unwrap(), 1_005.0);
        near(
            capacity.variance,
            (0.95 * 0.4 + 0.05 * 95.0 * 95.0 / 1_005.0_f64).clamp(0.4, 2.5),
        );
        capacity.on_overuse(9e6);
        near(capacity.variance, 2.5);
    }

    #[test]
    fn overuse_before_anything_is_known_halves() {
        let mut aimd = aimd(Rules::WebRtc);
        aimd.update(at(0), Usage::Overuse, None, RTT);
        near(aimd.rate, 0.5e6);
    }
}
