//! End of slow start before a loss: HyStart and HyStart++.

use anabranch_core::recovery::Feedback;
use anabranch_units::{Duration, Instant};

use crate::window::Round;

/// Least samples of a round whose least round-trip time is usable: `N_RTT_SAMPLE` of RFC 9406 §4.3,
/// and Linux's number for HyStart.
const MIN_SAMPLE_COUNT: u32 = 8;
/// `MIN_RTT_THRESH`, `MAX_RTT_THRESH` and `MIN_RTT_DIVISOR` (RFC 9406 §4.3; the same in Linux).
const MIN_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);
const THRESHOLD_DIVISOR: u64 = 8;
/// `CSS_GROWTH_DIVISOR` (RFC 9406 §4.3).
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// `CSS_ROUNDS` (RFC 9406 §4.3).
const CSS_ROUNDS: u32 = 5;
/// `L` without pacing, in segments per acknowledgement (RFC 9406 §4.3).
const MAX_GROWTH_PER_ACK: f64 = 8.0;
/// Linux: no exit from a smaller window, in segments.
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements closer than this belong to one train (Ha & Rhee; Linux's value).
const TRAIN_SPACING: Duration = Duration::from_millis(2);

/// Returns the growth of round-trip times that ends slow start, given the earlier ones.
fn threshold(rtt: Duration) -> Duration {
    (rtt / THRESHOLD_DIVISOR).clamp(MIN_THRESHOLD, MAX_THRESHOLD)
}

/// Reaction of slow start to a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Slow start grows the window by this number of the acknowledged segments.
    Grow(f64),
    /// Slow start ends.
    Exit,
}

#[derive(Debug)]
pub(super) enum HyStart {
    Off,
    Classic(Classic),
    PlusPlus(PlusPlus),
}

impl HyStart {
    pub(super) fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        acked_segments: f64,
        window_segments: f64,
        next_packet_number: u64,
    ) -> Verdict {
        match self {
            HyStart::Off => Verdict::Grow(acked_segments),
            HyStart::Classic(classic) => {
                if classic.is_full(now, feedback, next_packet_number)
                    && window_segments >= LOW_WINDOW
                {
                    Verdict::Exit
                } else {
                    Verdict::Grow(acked_segments)
                }
            }
            HyStart::PlusPlus(plus_plus) => {
                plus_plus.judge(feedback, acked_segments, next_packet_number)
            }
        }
    }

    /// Begins slow start again. HyStart++ is for the first one only (RFC 9406 §4.3).
    pub(super) fn restart(&mut self) {
        *self = match self {
            HyStart::Classic(_) => HyStart::Classic(Classic::default()),
            _ => HyStart::Off,
        };
    }

    /// Continues slow start after idleness: earlier rounds are no evidence on later ones.
    pub(super) fn forget_rounds(&mut self) {
        match self {
            HyStart::Off => {}
            HyStart::Classic(classic) => *classic = Classic::default(),
            HyStart::PlusPlus(plus_plus) => *plus_plus = PlusPlus::default(),
        }
    }

    pub(super) fn is_in_css(&self) -> bool {
        matches!(self, HyStart::PlusPlus(PlusPlus { css: Some(_), .. }))
    }
}

/// HyStart (Ha & Rhee 2011) with Linux's constants: slow start ends when a train of closely spaced
/// acknowledgements lasts half of the least round-trip time, or when the first eight round-trip
/// times of a round are all longer than the least one by an eighth.
#[derive(Debug, Default)]
pub(super) struct Classic {
    round: Round,
    round_began_at: Option<Instant>,
    last_ack_at: Instant,
}

impl Classic {
    fn is_full(&mut self, now: Instant, feedback: &Feedback<'_>, next_packet_number: u64) -> bool {
        let (Some(newest), Some(least)) = (feedback.acked.last(), feedback.rtt.min_rtt()) else {
            return false;
        };
        let is_over = self.round.is_ended_by(newest);
        let round_began_at = match self.round_began_at {
            Some(at) if !is_over => at,
            _ => {
                self.round = Round::before(next_packet_number);
                self.last_ack_at = now;
                now
            }
        };
        self.round_began_at = Some(round_began_at);
        let mut is_late = false;
        for acked in feedback.acked {
            if self.round.sample_count < MIN_SAMPLE_COUNT {
                self.round.on_acked(acked);
            }
            is_late |= self.round.sample_count >= MIN_SAMPLE_COUNT
                && self
                    .round
                    .min_rtt
                    .is_some_and(|rtt| rtt > least + threshold(least));
        }
        if now.saturating_since(self.last_ack_at) <= TRAIN_SPACING {
            self.last_ack_at = now;
        }
        let train = self.last_ack_at.saturating_since(round_began_at);
        is_late || train > least / 2
    }
}

/// HyStart++ (RFC 9406 §4.2): a round whose least round-trip time is longer than the last one's
/// leads to Conservative Slow Start, which either finds the time shorter again or, after five
/// rounds, ends slow start.
#[derive(Debug, Default)]
pub(super) struct PlusPlus {
    round: Round,
    /// `lastRoundMinRTT`.
    last_min_rtt: Option<Duration>,
    css: Option<ConservativeSlowStart>,
}

#[derive(Clone, Copy, Debug)]
struct ConservativeSlowStart {
    /// `cssBaselineMinRtt`.
    baseline: Duration,
    rounds_left: u32,
}

impl PlusPlus {
    fn judge(
        &mut self,
        feedback: &Feedback<'_>,
        acked_segments: f64,
        next_packet_number: u64,
    ) -> Verdict {
        for acked in feedback.acked {
            if self.round.is_ended_by(acked) {
                self.last_min_rtt = self.round.min_rtt.or(self.last_min_rtt);
                self.round = Round::before(next_packet_number);
                if let Some(css) = &mut self.css {
                    css.rounds_left -= 1;
                    if css.rounds_left == 0 {
                        return Verdict::Exit;
                    }
                }
            }
            self.round.on_acked(acked);
            self.on_sample();
        }
        let growth = acked_segments.min(MAX_GROWTH_PER_ACK);
        Verdict::Grow(if self.css.is_some() {
            growth / CSS_GROWTH_DIVISOR
        } else {
            growth
        })
    }

    fn on_sample(&mut self) {
        let Some(rtt) = self.round.min_rtt else {
            return;
        };
        if self.round.sample_count < MIN_SAMPLE_COUNT {
            return;
        }
        match (self.css, self.last_min_rtt) {
            (Some(css), _) if rtt < css.baseline => self.css = None,
            (None, Some(last)) if rtt >= last + threshold(last) => {
                self.css = Some(ConservativeSlowStart {
                    baseline: rtt,
                    rounds_left: CSS_ROUNDS,
                });
            }
            _ => {}
        }
    }
}
